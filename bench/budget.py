"""BLEU for a budget of minutes and an amount of text: `headway train` with nothing but files and --minutes.

HEADWAY_DATA=folder python -m bench.budget [--minutes 2,5,15,40] [--pairs 3000,30000,166000] [--languages en,de]

The folder holds train.en, train.de, dev.en, dev.de, test.en and test.de (or other languages). Of the training text the
first so many lines are taken: shuffle it before. The runs come one after another, and each takes its minutes.
Every row tells the load of the machine at its beginning; on a machine that others use, figures are lower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", default="2,5,15,40")
    parser.add_argument("--pairs", default="3000,30000,166000")
    parser.add_argument("--languages", default="en,de")
    asked = parser.parse_args()
    data, sides = Path(os.environ["HEADWAY_DATA"]), tuple(asked.languages.split(","))
    print("| minutes | pairs | model | tokens a batch | steps | BLEU of test | wall clock, s | load |")
    print("|---|---|---|---|---|---|---|---|")
    for minutes in map(float, asked.minutes.split(",")):
        for pairs in map(int, asked.pairs.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                print(row(data, sides, Path(folder), minutes, pairs), flush=True)


def row(data: Path, sides: tuple[str, ...], folder: Path, minutes: float, pairs: int) -> str:
    """Train, evaluate, and a line of the table."""
    load = os.getloadavg()[0]
    for side in sides:
        with (data / f"train.{side}").open(encoding="utf-8") as whole:
            (folder / f"train.{side}").write_text("".join(islice(whole, pairs)), encoding="utf-8")
    source, target = sides
    begun = time.monotonic()
    headway(
        "train", "--source", folder / f"train.{source}", "--target", folder / f"train.{target}", "--dev-source",
        data / f"dev.{source}", "--dev-target", data / f"dev.{target}", "--out", folder / "model", "--minutes", minutes,
    )  # fmt: skip
    took = time.monotonic() - begun
    scores = folder / "scores.json"
    headway(
        "evaluate", folder / "model", "--source", data / f"test.{source}", "--reference", data / f"test.{target}",
        "--metrics", "bleu", "--json", scores,
    )  # fmt: skip
    plan = next(e for e in events(folder / "model") if e["event"] == "plan")["plan"]
    steps = max(e["step"] for e in events(folder / "model") if e["event"] == "step")
    cells = [f"{minutes:g}", f"{pairs:,}", f"{plan['parameters']:,}", f"{plan['tokens_per_batch']:,}", f"{steps:,}"]
    return "| " + " | ".join([*cells, bleu(json.loads(scores.read_text())), f"{took:.0f}", f"{load:.1f}"]) + " |"


def bleu(facts: Any) -> str:
    """The first number called bleu, wherever it stands in the report."""
    if isinstance(facts, dict):
        found = facts.get("bleu", facts.get("BLEU"))
        value = found.get("score", found.get("value")) if isinstance(found, dict) else found
        if isinstance(value, int | float):
            return f"{value:.1f}"
    parts = facts.values() if isinstance(facts, dict) else facts if isinstance(facts, list) else ()
    return next((text for text in map(bleu, parts) if text), "")


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def headway(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "headway", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
