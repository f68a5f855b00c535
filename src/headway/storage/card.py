"""The model card, README.md in the model folder: training data, scores and usage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataFile:
    """A file that the model was trained, validated or tested on."""

    role: str  # training, validation or test
    path: str
    count: int  # number of lines or pairs used


@dataclass(frozen=True)
class Score:
    """A score with what is needed to reproduce it: the signature of its metric and the test data."""

    name: str
    value: float
    signature: str
    data: str


@dataclass(frozen=True)
class CardFacts:
    """The contents of a model card."""

    name: str
    task: str  # for example: translation
    command: str = ""  # the command line of the training
    date: str = ""  # ISO 8601
    languages: Sequence[str] = ()  # codes, source first
    licence: str = "unknown"  # SPDX identifier; it depends on the data, so the user must give it
    data: Sequence[DataFile] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)  # parameters, layers, width, vocabulary...
    scores: Sequence[Score] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    use: str = ""  # an example of a command that uses the model


def card(facts: CardFacts) -> str:
    """Return the card as Markdown; it begins with the YAML front matter that model hubs read."""
    sections = [
        _front(facts),
        f"# {_plain(facts.name)}\n\n{_what(facts)}",
        _section("How to use it", _code(facts.use) if facts.use else ""),
        _section("Scores", _scores(facts.scores)),
        _section("Data", _table(("used for", "file", "count"), [(f.role, f.path, f.count) for f in facts.data])),
        _section("Sizes", _table(("quantity", "value"), list(facts.sizes.items()))),
        _section("How it was made", _code(facts.command) if facts.command else ""),
        _section("Versions", _table(("software", "version"), list(facts.versions.items()))),
        _section("Licence", _licence(facts.licence)),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _front(facts: CardFacts) -> str:
    languages = [f"  - {_word(code)}" for code in facts.languages]
    lines = [
        "---",
        f"license: {_word(facts.licence.lower())}",
        *(["language:", *languages] if languages else []),
        "library_name: headway",
        "tags:",
        f"  - {_word(facts.task)}",
        "---",
    ]
    return "\n".join(lines)


def _what(facts: CardFacts) -> str:
    between = f", {' to '.join(map(_plain, facts.languages))}" if facts.languages else ""
    return f"A Transformer for {_plain(facts.task)}{between}, trained with headway. Finished {_plain(facts.date)}."


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _scores(scores: Sequence[Score]) -> str:
    rows = [(score.name, f"{score.value:.2f}", score.data, score.signature) for score in scores]
    return _table(("score", "value", "on", "signature"), rows)


def _licence(licence: str) -> str:
    if licence == "unknown":
        return "Not given. What may be done with the model depends on the licence of its data."
    return _plain(licence)


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    if not rows:
        return ""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else _plain(str(value))


def _plain(text: str) -> str:
    """Return the text on one line with Markdown escaped, as file names may have any characters."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def _word(text: str) -> str:
    """Return the text as one word without characters that are special in YAML."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-") or "unknown"


def _code(text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`+", text))])
    return f"{fence}sh\n{text.strip()}\n{fence}"
