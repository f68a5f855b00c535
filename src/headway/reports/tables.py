"""Reports for a terminal. Texts of a test set are printed without markup and control characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.metrics import Paired, Scores
from headway.reports.comparison import Comparison, Duel, Part
from headway.reports.difference import judged, marked
from headway.reports.evaluation import Evaluation, Sentence
from headway.text.unicode import plain

STYLES = {"": "", "other": "yellow", "right": "green", "wrong": "red"}


def print_evaluation(evaluation: Evaluation, console: Console, worst: int) -> None:
    """Print an evaluation and its `worst` worst sentences."""
    _title(console, evaluation.system, len(evaluation.sentences), evaluation.language)
    print_scores(evaluation.scores, console)
    names = list(evaluation.scores)
    measured = [name for name in names if all(name in bucket.scores for bucket in evaluation.lengths)]
    table = _table("length", "count", *measured)
    for bucket in evaluation.lengths:
        cells = [f"{bucket.scores[name]:.2f}" for name in measured]
        table.add_row(bucket.name, f"{bucket.sentences:,}", *cells)
    console.print(table)
    for name, count in evaluation.oddities.items():
        if count:
            console.print(Text(f"{name}: {count:,}"), highlight=False)
    if worst:
        console.print(Text(f"\nthe {min(worst, len(evaluation.sentences))} worst sentences by chrF", style="bold"))
    for sentence in evaluation.sentences[:worst]:
        _print_sentence(sentence, console)


def print_scores(scores: Scores, console: Console) -> None:
    """Print a table of scores, and below it each signature on a line of its own, so that it can be copied."""
    sure = any(score.interval for score in scores.values())
    table = _table("measure", "value", *(["95 % interval"] if sure else []))
    for name, score in scores.items():
        table.add_row(name, f"{score.value:.2f}", *([score.interval] if sure else []))
    console.print(table)
    _print_signatures({name: score.signature for name, score in scores.items()}, console)


def print_comparison(comparison: Comparison, console: Console, worst: int) -> None:
    """Print a comparison and `worst` sentences, half of them where B loses most and half where it wins most."""
    _title(console, f"A {comparison.first}  →  B {comparison.second}", len(comparison.duels), comparison.language)
    table = _table("measure", "A", "95 % interval", "B", "95 % interval", "B gains", "p")
    for name, pair in comparison.scores.items():
        one, two = pair.first, pair.second
        cells = (f"{one.value:.2f}", one.interval, f"{two.value:.2f}", two.interval)
        table.add_row(name, *cells, f"{pair.gain:+.2f}", f"{pair.p:.4f}")
    console.print(table)
    _print_signatures({name: pair.first.signature for name, pair in comparison.scores.items()}, console)
    console.print(Text(verdict(comparison.scores)))
    console.print(Text(f"sentences: {say_tally(comparison.tally)}"))
    _print_parts("length", comparison.lengths, console)
    _print_parts("with", comparison.phenomena, console)
    console.print(Text(f"kept: share of these items that the output has; rare: {comparison.rare}", style="dim"))
    half = (worst + 1) // 2
    _print_duels("B loses most", comparison.duels[:half], console, lost=True)
    _print_duels("B wins most", comparison.duels[::-1][: worst - half], console, lost=False)


def verdict(scores: Mapping[str, Paired], level: float = 0.05) -> str:
    """Return a sentence about which differences are significant at `level`."""
    sure = [f"{name} {pair.gain:+.2f}" for name, pair in scores.items() if pair.p < level]
    unsure = [name for name, pair in scores.items() if pair.p >= level]
    parts = [f"B differs significantly (p < {level}) in {', '.join(sure)}" if sure else ""]
    parts.append(f"the difference in {', '.join(unsure)} is not significant" if unsure else "")
    return "; ".join(part for part in parts if part) + "."


def say_tally(tally: tuple[int, int, int]) -> str:
    """Return wins, losses and ties of system B as text."""
    wins, losses, ties = tally
    return f"B is better in {wins:,}, worse in {losses:,}, equal in {ties:,}"


def _title(console: Console, name: str, count: int, language: str) -> None:
    into = f" into {language}" if language else ""
    console.print(Text(f"{plain(name)}: {count:,} sentences{into}", style="bold"))


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _print_signatures(signatures: Mapping[str, str], console: Console) -> None:
    for name, signature in signatures.items():
        console.print(Text(f"{name}|{signature}", style="dim"), soft_wrap=True)


def _print_parts(title: str, parts: Sequence[Part], console: Console) -> None:
    """Print the scores of slices in at most two metrics, as a terminal is narrow; the HTML page has all."""
    if not parts:
        return
    names, kept = list(parts[0].first)[:2], any(part.kept for part in parts)
    heads = [f"{name} A → B" for name in names] + ["kept A → B"] * kept
    table = _table(title, "count", "better", "worse", *heads)
    for part in parts:
        pairs = [f"{part.first[name]:.1f} → {part.second[name]:.1f}" for name in names]
        found = [f"{part.kept[0]:.0f} % → {part.kept[1]:.0f} %" if part.kept else ""] * kept
        table.add_row(part.name, *(f"{count:,}" for count in (part.sentences, *part.tally[:2])), *pairs, *found)
    console.print(table)


def _print_sentence(sentence: Sentence, console: Console) -> None:
    sure = "" if sentence.confidence is None else f", confidence {sentence.confidence:.2f}"
    console.print(Text(f"line {sentence.line:,}, chrF {sentence.chrf:.1f}{sure}", style="dim"))
    output = _coloured(marked(sentence.output, sentence.reference))
    _print_texts({**_given(sentence.source, sentence.reference), "output": output}, console)


def _print_duels(title: str, duels: Sequence[Duel], console: Console, lost: bool) -> None:
    shown = [duel for duel in duels if (duel.gain < 0 if lost else duel.gain > 0)]
    if shown:
        console.print(Text(f"\n{title}", style="bold"))
    for duel in shown:
        scores = f"{duel.first_chrf:.1f} → {duel.second_chrf:.1f} ({duel.gain:+.1f})"
        console.print(Text(f"line {duel.line:,}, chrF {scores}", style="dim"))
        first = _coloured(judged(duel.first, duel.second, duel.reference))
        second = _coloured(judged(duel.second, duel.first, duel.reference))
        _print_texts({**_given(duel.source, duel.reference), "A": first, "B": second}, console)


def _given(source: str | None, reference: str) -> dict[str, Text]:
    given = {} if source is None else {"source": Text(plain(source))}
    return {**given, "reference": Text(plain(reference))}


def _print_texts(texts: Mapping[str, Text], console: Console) -> None:
    grid = Table.grid(padding=(0, 2, 0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, text in texts.items():
        grid.add_row(name, text if text.plain else Text("(empty)", style="dim"))
    console.print(grid)


def _coloured(pieces: Sequence[tuple[str, str]]) -> Text:
    return Text.assemble(*((plain(text), STYLES[mark]) for text, mark in pieces))
