"""A translation as a snippet of HTML for notebooks: no script, no style sheet, every text escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence

from headway.reports.html import Html, join, tag
from headway.tasks.translation.result import Translation
from headway.text.unicode import SPACE_MARK

MOST_WORDS = 40  # of a side, for the alignment to be drawn
CELL = "padding:1px 6px;border:0;text-align:left"


def snippet(translation: Translation) -> str:
    """The text, its pieces shaded by how unsure they are, other texts, and which word came from which."""
    parts = [
        tag("div", translation.source, style="opacity:.7", dir="auto") if translation.source else None,
        tag("div", translation.text, style="font-size:1.2em;margin:2px 0 6px", dir="auto"),
        pieces(translation.tokens, translation.token_scores),
        others(translation.alternatives),
        alignment(translation),
    ]
    return tag("div", *parts, style="font-family:sans-serif;line-height:1.5")


def pieces(tokens: Sequence[str], scores: Sequence[float]) -> Html | None:
    """Orange where the model was unsure; the probability is in the title too."""
    if not tokens or len(scores) < len(tokens):
        return None
    spans = [
        tag(
            "span",
            token.replace(SPACE_MARK, " ").strip() or "␣",
            title=f"{math.exp(score):.1%}",
            style=f"background:rgba(213,94,0,{0.75 * (1 - math.exp(score)):.2f});padding:1px 3px;border-radius:3px",
        )
        for token, score in zip(tokens, scores, strict=False)
    ]
    return tag("div", *(join(span, " ") for span in spans), dir="auto")


def others(alternatives: Sequence[Translation]) -> Html | None:
    if not alternatives:
        return None
    rows = [
        tag("tr", tag("td", f"{one.score:.3f}", style=CELL), tag("td", one.text, style=CELL, dir="auto"))
        for one in alternatives
    ]
    return tag("table", *rows, style="margin-top:6px")


def alignment(translation: Translation) -> Html | None:
    """Rows are words of the translation, columns words of the source, a dot where one came from the other."""
    across, down = translation.source.split(), translation.text.split()
    links = [(s, t) for s, t in translation.alignment if s < len(across) and t < len(down)]
    if not links or max(len(across), len(down)) > MOST_WORDS:
        return None
    turned = "writing-mode:vertical-rl;transform:rotate(180deg);padding:2px 0;border:0;font-weight:400;text-align:left"
    head = tag("tr", tag("td", style=CELL), *(tag("th", word, scope="col", style=turned) for word in across))
    rows = [
        tag(
            "tr",
            tag("th", word, scope="row", style=f"{CELL};font-weight:400"),
            *(
                tag("td", "●" if (s, t) in links else "", style="border:0;text-align:center")
                for s in range(len(across))
            ),
        )
        for t, word in enumerate(down)
    ]
    return tag("details", tag("summary", "alignment"), tag("table", head, *rows))
