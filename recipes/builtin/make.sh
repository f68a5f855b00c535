#!/bin/sh
# The built-in model, from public text to src/headway/builtin/everyday: recipes/builtin/make.sh [FOLDER FOR ALL FILES]
# Stopped, the same command goes on. A corpus that lies there already (tatoeba-en-de/train.en and train.de) is not
# fetched. TEACHER, DISTILL and STUDENT may hold more options of the commands, such as STUDENT="--minutes 30".
set -eu
here=$(cd "$(dirname "$0")" && pwd)
package="$here/../../src/headway/builtin"
mkdir -p "${1:-builtin}"
cd "${1:-builtin}"

for other in de fr zh; do
  test -e "tatoeba-en-$other/train.$other" || headway data get "tatoeba-en-$other"
done
test -e split/all.en || python3 "$here/split.py" tatoeba-en-de tatoeba-en-fr tatoeba-en-zh

headway train "$here/teacher.toml" --out teacher ${TEACHER:-}
for other in de fr zh; do
  headway distill teacher --source split/all.en --to "$other" --out "distilled/en-$other" ${DISTILL:-}
  headway distill teacher --source "split/en-$other/train.$other" --to en --out "distilled/$other-en" ${DISTILL:-}
done
headway train "$here/student.toml" --out student ${STUDENT:-}

headway export student --to headway-int8 --sample split/sample.txt --out everyday --force
cp "$here/card.md" everyday/README.md
for other in de fr zh; do
  for test in "en $other" "$other en"; do
    set -- $test
    test -s "split/en-$other/test.en" || continue # an edition that was split before
    headway evaluate everyday --to "$2" --source "split/en-$other/test.$1" --reference "split/en-$other/test.$2" \
      --json "everyday-$1-$2.json" --worst 0
  done
done
rm -rf "$package/everyday"
cp -r everyday "$package/everyday"
du -sk "$package/everyday"
