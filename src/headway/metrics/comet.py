"""COMET scores from the program `comet-score`, which needs an environment of its own: its pinned packages conflict."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headway.errors import UsageError
from headway.metrics.catalogue import Measure
from headway.metrics.own_metrics import Counts, Ratio


class Comet(Ratio):
    """The mean COMET score times 100, from `comet-score`. Scores of each set of outputs are cached."""

    def __init__(self, command: str, sources: Sequence[str]) -> None:
        super().__init__("COMET", "sentence")
        self.command = command
        self.sources = sources
        self.known: dict[tuple[str, ...], Counts] = {}

    def count(self, hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
        key = (*hypotheses, *references)
        if key not in self.known:
            scores = run_comet(self.command, self.sources, hypotheses, references)
            self.known[key] = [[score, 1.0] for score in scores]
        return self.known[key]


def comet(command: str, sources: Sequence[str]) -> Measure:
    """Return COMET as a metric. `command` is the path of comet-score, optionally followed by its options."""
    if not command.strip():
        raise UsageError("--comet: give the path of comet-score, for example comet/bin/comet-score")
    metric = Comet(command, sources)
    return Measure("comet", lambda _: metric, costly=True)


def run_comet(
    command: str, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> list[float]:
    """Return the score of each sentence, from the JSON file that `comet-score --to_json` writes."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("source.txt", "output.txt", "reference.txt")]
        for path, texts in zip(paths, (sources, hypotheses, references), strict=True):
            path.write_bytes("".join(f"{_one_line(text)}\n" for text in texts).encode())
        answer = Path(folder, "scores.json")
        program = shlex.split(command)
        source, output, reference = map(str, paths)
        _run([*program, "-s", source, "-t", output, "-r", reference, "--to_json", str(answer)])
        return _read_scores(answer, command, len(references))


def _one_line(text: str) -> str:
    """Return the text without line ends; COMET treats a carriage return as one, too."""
    return text.replace("\r", " ").replace("\n", " ")


def _run(arguments: list[str]) -> None:
    # UTF8: comet-score opens files in the locale's encoding. SAFEPATH: nothing is imported from the current folder.
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", env=environment)
    except OSError as error:
        raise UsageError(f"--comet {arguments[0]}: cannot be run: {error.strerror or error}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise UsageError(f"--comet {arguments[0]}: failed with exit code {done.returncode}: {lines[-1]}")


def _read_scores(path: Path, command: str, count: int) -> list[float]:
    try:
        (sentences,) = json.loads(path.read_text(encoding="utf-8")).values()
        scores = [float(sentence["COMET"]) for sentence in sentences]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"--comet {command}: its scores cannot be read; give the comet-score program of COMET 2"
        ) from None
    if len(scores) != count:
        raise UsageError(
            f"--comet {command}: it gave {len(scores)} scores for {count} sentences; "
            "give the comet-score program of COMET 2"
        )
    return scores
