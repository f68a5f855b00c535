"""Does reStructuredText survive a translator? With and without `keep`, on a table of English and Chinese.

HEADWAY_DATA=corpora python -m bench.markup MODEL [TABLE] [--emphasis] [--lines 200] [--longest 300] [--beam 5]
                                            [--device cpu] [--engine auto] [--out markup.md]

TABLE has English and Chinese in its first two columns, plain or .xz; else it is HEADWAY_DATA/python-docs-en-zh/dev.tsv.
A span is kept if it stands in the output, to the letter, as often as in the source. "in excess" counts spans that the
output says more often than that: code that was forced and came a second time by itself. The references are the last
row: translators change some spans, too, and what they change costs BLEU when it is kept.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.recipes import file, read
from headway import Translator
from headway.metrics import choose, measure
from headway.text.protected_spans import compiled, lost, spans_of

KEEP = (
    r"``.+?``(?!`)",
    r":[a-z][\w:+.-]*:`[^`<]+`",  # a role; the text before <...> would be a title, which is translated
    r"(?<![`:\w])`[^`]+`__?",
    r"(?<![|\w])\|[^|\s]+\|(?![|\w])",
)
EMPHASIS = r"(?<![*\w])\*[^*\s](?:[^*]*[^*\s])?\*(?![*\w])"


class Pair(NamedTuple):
    source: str
    reference: str
    spans: list[str]


def marked(name: str, keep: Sequence[str], longest: int) -> Iterator[Pair]:
    patterns = compiled(keep)
    for line in read(name).split("\n"):
        source, reference, *_ = [*line.split("\t"), ""]
        if source.strip() and len(source) <= longest:
            yield Pair(source, reference, [span.text for span in spans_of(source, patterns)])


def row(name: str, pairs: list[Pair], outputs: list[str], seconds: float | None = None) -> str:
    both = [(pair.spans, output) for pair, output in zip(pairs, outputs, strict=True) if pair.spans]
    missing = [len(lost(spans, output)) for spans, output in both]
    all_spans = sum(len(spans) for spans, _ in both)
    excess = sum(max(0, output.count(span) - times) for spans, output in both for span, times in Counter(spans).items())
    scores = measure(outputs, [pair.reference for pair in pairs], choose("bleu,chrf"), "zh")
    cells = [
        f"{share(missing.count(0), len(both))}",
        f"{share(all_spans - sum(missing), all_spans)}",
        f"{excess}",
        *(f"{scores[name].value:.2f}" for name in ("bleu", "chrf")),
        "–" if seconds is None else f"{seconds:.1f}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def rows(translator: Translator, pairs: list[Pair], keep: Sequence[str], beam: int) -> Iterator[str]:
    many = sum(bool(pair.spans) for pair in pairs)
    yield f"{len(pairs)} lines, {many} with {sum(len(pair.spans) for pair in pairs)} spans; beam {beam}"
    yield ""
    yield "| | lines with every span | spans | in excess | BLEU | chrF | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for name, patterns in (("without keep", ()), ("with keep", keep)):
        begun = time.perf_counter()
        outputs = [one.text for one in translator([pair.source for pair in pairs], beam=beam, keep=patterns)]
        yield row(name, pairs, outputs, time.perf_counter() - begun)
    yield row("reference", pairs, [pair.reference for pair in pairs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a trained model's folder")
    parser.add_argument("table", nargs="?", default="python-docs-en-zh/dev.tsv", help="English and Chinese in columns")
    parser.add_argument("--emphasis", action="store_true", help="keep *...* too; translators often do not")
    parser.add_argument("--lines", type=int, help="only the first lines")
    parser.add_argument("--longest", type=int, default=10_000, help="leave out sources of more characters")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--out", type=Path, help="write the table here, too")
    given = parser.parse_args()
    keep = (*KEEP, EMPHASIS) if given.emphasis else KEEP
    if not file(given.table).exists():
        parser.error(f"{file(given.table)}: no such file; name a table, or the folder of corpora with HEADWAY_DATA")
    pairs = list(marked(given.table, keep, given.longest))[: given.lines]
    lines = []
    for line in rows(Translator.load(given.model, given.device, given.engine), pairs, keep, given.beam):
        print(line, flush=True)
        lines.append(line)
    if given.out:
        given.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
