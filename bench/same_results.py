"""Check that a change leaves the results of the program as they were, to the last bit.

python -m bench.same_results [--base REVISION] [--work FOLDER]

Both versions, the work tree and a git revision, run the same commands on two CPU cores: they decode 500 sentences with
the built-in model through every engine on the CPU, and they train small models for 60 steps with a fixed seed. The
program prints one line for each check and ends with exit code 1 if any output differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SENTENCES, STEPS = 500, 60
SMALL = ["width=64", "heads=4", "encoder_layers=2", "decoder_layers=2"]


@dataclass(frozen=True)
class Version:
    """One version of the program, and the folder that its outputs go to."""

    source: Path  # the checkout
    work: Path

    def run(self, *arguments: str | Path, stdin: str | None = None) -> bytes:
        """Run `headway` of this version and return its standard output."""
        self.work.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(self.source / "src"), "OMP_NUM_THREADS": "2"}
        command = [sys.executable, "-m", "headway", *map(str, arguments)]
        given = stdin.encode() if stdin is not None else None
        done = subprocess.run(command, input=given, capture_output=True, check=False, cwd=self.work, env=environment)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.decode()}")
        return done.stdout


# ---------------------------------------------------------------- inputs


def english(count: int) -> list[str]:
    """Return everyday English sentences of 2 to 20 words, made from templates with a fixed seed."""
    chance = random.Random(7)
    who = ["Tom", "Mary", "my sister", "the old man", "nobody", "our teacher", "a child", "the doctor", "everyone"]
    does = ["likes", "wants to buy", "cannot find", "is looking for", "has forgotten", "will bring", "does not see"]
    what = ["the book", "a new car", "some water", "the way home", "three apples", "her keys", "a good doctor"]
    tail = ["today", "because it is raining", "when I come home", "in Boston", "at 7 o'clock", "with me", "again"]
    lines = []
    for _ in range(count):
        parts = [chance.choice(who), chance.choice(does), chance.choice(what)]
        parts += chance.sample(tail, chance.randrange(4))
        sentence = " ".join(parts)
        lines.append(sentence[0].upper() + sentence[1:] + chance.choice([".", "?", "!", ""]))
    return lines


def numbers(count: int) -> Iterator[tuple[str, str]]:
    """Yield numbers in words and their digits, an invertible toy translation task."""
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    chance = random.Random(11)
    for _ in range(count):
        digits = [chance.randrange(10) for _ in range(chance.randint(1, 9))]
        yield " ".join(words[d] for d in digits), " ".join(map(str, reversed(digits)))


def write_inputs(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pairs = list(numbers(3000))
    for side, place in (("source", 0), ("target", 1)):
        (folder / f"train.{side}").write_text("".join(f"{pair[place]}\n" for pair in pairs), encoding="utf-8")
    (folder / "text.txt").write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
    tagged = [" ".join(source.split()[:1]) + "\t" + target for source, target in pairs]
    (folder / "classes.tsv").write_text("".join(f"{line}\n" for line in tagged), encoding="utf-8")


# ---------------------------------------------------------------- checks


def decoded(version: Version, *options: str) -> str:
    text = "".join(f"{line}\n" for line in english(SENTENCES))
    return digest(version.run("translate", "--to", "de", "--scores", *options, stdin=text))


def trained(version: Version, *options: str) -> str:
    """Return a digest of the published weights after 60 steps, whatever their names are."""
    out = version.work / f"run-{digest(repr(options).encode())[:8]}"
    version.run("train", *options, "--steps", str(STEPS), "--seed", "3", "--device", "cpu", "--out", out)
    return weights(out / "model.safetensors")


def weights(path: Path) -> str:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = memoryview(data)[8 + length :]
    places = (tensor["data_offsets"] for tensor in header.values())
    return digest("".join(sorted(hashlib.sha256(body[start:end]).hexdigest() for start, end in places)).encode())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def r_drop(version: Version) -> tuple[str, str]:
    """Return the option for R-Drop, which older versions had among the settings of the task."""
    old = not (version.source / "src" / "headway" / "training" / "objectives").exists()
    return "--set", f"{'task.agreement' if old else 'training.r_drop'}=1.0"


def checks(inputs: Path) -> dict[str, Callable[[Version], str]]:
    pair = ("--source", str(inputs / "train.source"), "--target", str(inputs / "train.target"))
    small = [word for value in SMALL for word in ("--set", f"model.{value}")]
    return {
        f"decode {SENTENCES} sentences, default engine": lambda v: decoded(v),
        f"decode {SENTENCES} sentences, greedy": lambda v: decoded(v, "--fast"),
        f"decode {SENTENCES} sentences, torch, fp32": lambda v: decoded(v, "--engine", "torch", "--precision", "fp32"),
        f"decode {SENTENCES} sentences, native, fp32, 5 best": lambda v: decoded(
            v, "--engine", "native", "--precision", "fp32", "--n-best", "5"
        ),
        f"train a translator, {STEPS} steps": lambda v: trained(v, *pair, *small),
        f"train a translator with R-Drop, {STEPS} steps": lambda v: trained(v, *pair, *small, *r_drop(v)),
    }


# ---------------------------------------------------------------- the two versions


@contextmanager
def checkout(revision: str, folder: Path) -> Iterator[Path]:
    """Lay a git revision in a work tree of its own, for the time of the block."""
    subprocess.run(["git", "worktree", "add", "--detach", str(folder), revision], cwd=ROOT, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="HEAD", help="git revision to compare the work tree with")
    parser.add_argument("--work", type=Path, help="folder for all outputs; default: a temporary one")
    given = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = (given.work or Path(temporary)).resolve()
        write_inputs(work / "inputs")
        with checkout(given.base, work / "base-checkout") as base:
            versions = (Version(base, work / "base"), Version(ROOT, work / "now"))
            for name, check in checks(work / "inputs").items():
                before, after = (check(version) for version in versions)
                different += before != after
                print(f"{'same' if before == after else 'DIFFERENT'}\t{name}\t{after[:16]}", flush=True)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
