"""HTML pages of evaluations and comparisons, each a single file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.metrics import Paired, Score, Scores
from headway.reports.charts import bar_chart, histogram
from headway.reports.comparison import TIE, Comparison, Duel, Part
from headway.reports.difference import judged, marked
from headway.reports.evaluation import Evaluation, Sentence
from headway.reports.html import FIND, Html, find_box, join, page, table, tag
from headway.reports.tables import say_tally, verdict
from headway.reports.testset import mean

# Colour is never the only sign: correct words have a straight underline, wrong ones a wavy one.
ELEMENTS = {"right": "ins", "wrong": "del", "other": "del"}


def coloured(pieces: Sequence[tuple[str, str]]) -> Html:
    """Return (part, mark) pairs as HTML with the marked parts highlighted."""
    return join(*(tag(ELEMENTS[mark], text) if mark else text for text, mark in pieces)) or tag("em", "(empty)")


# ---------------------------------------------------------------- one system


def evaluation_page(evaluation: Evaluation) -> str:
    """Return the HTML page of one system's evaluation."""
    count = len(evaluation.sentences)
    return page(
        f"Evaluation of {evaluation.system}",
        tag("p", _summary(count, evaluation.language, evaluation.seconds), class_="soft"),
        tag("h2", "Scores"),
        scores_table(evaluation.scores),
        signatures(evaluation.scores),
        tag("h2", "Scores by length and confidence"),
        tag("div", *_evaluation_charts(evaluation), class_="charts"),
        _lengths_table(evaluation),
        tag("h2", "Suspicious outputs"),
        table(["fault", "sentences"], list(evaluation.oddities.items()), "Faults that an average hides", ["fault"]),
        tag("h2", "All sentences, worst first"),
        tag("p", "Marked in the output: words that the reference does not have there. ",
            "Marked in the reference: words that the output lacks.", class_="soft"),
        find_box(),
        tag("ol", *(_sentence(one) for one in evaluation.sentences), class_="sentences"),
        script=FIND,
    )  # fmt: skip


def _summary(count: int, language: str, seconds: float | None) -> str:
    into = f" into {language}" if language else ""
    speed = f", translated in {seconds:,.1f} s ({count / seconds:,.1f} sentences/s)" if seconds else ""
    return f"{count:,} sentences{into}{speed}"


def scores_table(scores: Scores) -> Html:
    """Return a table with the value, interval and direction of each metric."""
    rows = [
        (name, f"{s.value:.2f}", s.interval, "higher" if s.higher_is_better else "lower") for name, s in scores.items()
    ]
    head = ["measure", "value", "95 % interval", "better is"]
    return table(head, rows, "Scores of the whole test set", ["measure", "better is"])


def signatures(scores: Mapping[str, Score]) -> Html:
    """Return the signature of each score, which says how it was computed, to be copied into a paper."""
    return tag("p", *(tag("code", f"{name}|{one.signature}", tag("br")) for name, one in scores.items()), class_="soft")


def _evaluation_charts(evaluation: Evaluation) -> list[Html]:
    buckets = evaluation.lengths
    shown = [name for name in ("bleu", "chrf", "exact") if name in evaluation.scores] or list(buckets[0].scores)[:2]
    series = {name: [bucket.scores[name] for bucket in buckets] for name in shown if name in buckets[0].scores}
    charts = []
    if series:
        names = [bucket.name for bucket in buckets]
        charts.append(
            bar_chart("Scores by length of the reference", names, series, "length in words and punctuation marks")
        )
    labels, counts = histogram([sentence.chrf for sentence in evaluation.sentences])
    charts.append(bar_chart("chrF of single sentences", labels, {"sentences": counts}, "chrF of the sentence"))
    sure = [one for one in evaluation.sentences if one.confidence is not None]
    if sure:
        charts.append(_confidence_chart(sure))
    return charts


def _confidence_chart(sentences: Sequence[Sentence]) -> Html:
    """Return a chart of mean chrF by confidence, in fifths: if the bars rise, low confidence indicates errors."""
    ordered = sorted(sentences, key=lambda sentence: sentence.confidence or 0.0)
    cuts = [round(len(ordered) * i / 5) for i in range(6)]
    parts = [ordered[a:b] for a, b in zip(cuts, cuts[1:], strict=False) if b > a]
    labels = [f"{part[0].confidence:.2f}–{part[-1].confidence:.2f}" for part in parts]
    values = [mean([one.chrf for one in part]) or 0.0 for part in parts]
    return bar_chart(
        "Quality by confidence",
        labels,
        {"mean chrF": values},
        "mean chrF by confidence, in fifths of the sentences",
    )


def _lengths_table(evaluation: Evaluation) -> Html:
    names = list(evaluation.lengths[0].scores)
    rows = [
        (bucket.name, f"{bucket.sentences:,}", *(f"{bucket.scores[name]:.2f}" for name in names))
        for bucket in evaluation.lengths
    ]
    return table(["length", "sentences", *names], rows, "Scores by length of the reference", ["length"])


def _sentence(sentence: Sentence) -> Html:
    sure = "" if sentence.confidence is None else f" · confidence {sentence.confidence:.2f}"
    about = tag("p", f"line {sentence.line:,} · chrF {sentence.chrf:.1f}{sure}", class_="about")
    texts = {
        "source": sentence.source,
        "reference": coloured(marked(sentence.reference, sentence.output)),
        "output": coloured(marked(sentence.output, sentence.reference)),
    }
    return tag("li", about, _texts(texts))


def _texts(texts: Mapping[str, str | None]) -> Html:
    return tag("dl", *(join(tag("dt", k), tag("dd", v, dir="auto")) for k, v in texts.items() if v is not None))


# ---------------------------------------------------------------- two systems


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page of a comparison of two systems."""
    return page(
        f"{comparison.first} against {comparison.second}",
        tag("p", _summary(len(comparison.duels), comparison.language, None), class_="soft"),
        tag("p", f"A is {comparison.first}. B is {comparison.second}. Gains are B's."),
        tag("h2", "Scores and significance"),
        pairs_table(comparison.scores),
        signatures({name: pair.first for name, pair in comparison.scores.items()}),
        tag("p", tag("strong", verdict(comparison.scores))),
        tag("p", f"Sentence by sentence, {say_tally(comparison.tally)} "
            f"(equal: less than {TIE} points of chrF apart)."),
        tag("h2", "Differences by length and phenomenon"),
        tag("div", *_comparison_charts(comparison), class_="charts"),
        _parts_table(comparison.lengths, "By length of the reference"),
        _phenomena_table(comparison),
        tag("h2", "All sentences, B's biggest loss first"),
        tag("p", "Marked: words in which A and B differ; ", tag("ins", "straight"), " where the reference agrees, ",
            tag("del", "wavy"), " where it does not.", class_="soft"),
        find_box(),
        tag("ol", *(_duel(duel) for duel in comparison.duels), class_="sentences"),
        script=FIND,
    )  # fmt: skip


def pairs_table(scores: Mapping[str, Paired]) -> Html:
    """Return a table with both systems' scores and the p-value of their difference."""
    rows = [
        (
            name,
            f"{pair.first.value:.2f}",
            pair.first.interval,
            f"{pair.second.value:.2f}",
            pair.second.interval,
            f"{pair.gain:+.2f}",
            f"{pair.p:.4f}",
        )
        for name, pair in scores.items()
    ]
    head = ["measure", "A", "A's 95 % interval", "B", "B's 95 % interval", "B gains", "p"]
    return table(head, rows, "Paired bootstrap test: p is the probability of such a difference by chance", ["measure"])


def _comparison_charts(comparison: Comparison) -> list[Html]:
    parts = comparison.lengths
    shown = next((name for name in ("chrf", "bleu") if name in parts[0].first), next(iter(parts[0].first), None))
    charts = []
    if shown:
        series = {"A": [p.first[shown] for p in parts], "B": [p.second[shown] for p in parts]}
        title = f"{shown} by length of the reference"
        charts.append(bar_chart(title, [p.name for p in parts], series, "length in words and punctuation marks"))
    edges = [(-101.0, -20.0), (-20.0, -10.0), (-10.0, -TIE), (-TIE, TIE), (TIE, 10.0), (10.0, 20.0), (20.0, 101.0)]
    labels = ["< −20", "−20 to −10", "−10 to 0", "equal", "0 to 10", "10 to 20", "> 20"]
    gains = [duel.gain for duel in comparison.duels]
    counts = [float(sum(low < gain <= high for gain in gains)) for low, high in edges]
    charts.append(bar_chart("Gain of B in single sentences", labels, {"sentences": counts}, "points of chrF"))
    return charts


def _parts_table(parts: Sequence[Part], caption: str) -> Html:
    names, kept = list(parts[0].first), any(part.kept for part in parts)
    head = ["part", "sentences", "better", "worse", "equal", *(f"{name}, A → B" for name in names)]
    rows = [
        (
            part.name,
            f"{part.sentences:,}",
            *(f"{count:,}" for count in part.tally),
            *(f"{part.first[name]:.1f} → {part.second[name]:.1f}" for name in names),
            *([f"{part.kept[0]:.0f} % → {part.kept[1]:.0f} %" if part.kept else "–"] * kept),
        )
        for part in parts
    ]
    return table([*head, *["kept, A → B"] * kept], rows, caption, ["part"])


def _phenomena_table(comparison: Comparison) -> Html | None:
    caption = (
        "Sentences whose reference has numbers, negation or rare words, and how much of these each output keeps. "
        f"Rare: {comparison.rare}."
    )
    return _parts_table(comparison.phenomena, caption) if comparison.phenomena else None


def _duel(duel: Duel) -> Html:
    scores = f"chrF {duel.first_chrf:.1f} → {duel.second_chrf:.1f} ({duel.gain:+.1f})"
    texts = {
        "source": duel.source,
        "reference": duel.reference,
        "A": coloured(judged(duel.first, duel.second, duel.reference)),
        "B": coloured(judged(duel.second, duel.first, duel.reference)),
    }
    return tag("li", tag("p", f"line {duel.line:,} · {scores}", class_="about"), _texts(texts))
