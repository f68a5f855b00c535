"""How outputs are searched or drawn: one declaration for Python, the command line and the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headway.data.glossary import Glossary
from headway.errors import UsageError
from headway.options import check_ranges, option

if TYPE_CHECKING:  # these import torch, and the command line starts without it
    import regex

    from headway.search import Limits, Search

LONGEST = 100_000  # tokens of one output of a language model


def read_glossary(path: str) -> Glossary:
    return Glossary.read(Path(path))


@dataclass(frozen=True)
class SearchOptions:
    """How the best output is searched, or outputs are drawn."""

    panel: ClassVar[str] = "Search"

    beam: int = option(5, "Beam size; 1 is greedy search.", least=1, most=100)
    alpha: float = option(0.6, "Length penalty: larger values favour long outputs; 0 turns it off.", least=0, most=10)
    temperature: float = option(0.0, "Sample at this temperature instead of searching; 0 turns it off.", least=0)
    top_k: int = option(0, "Sample from the k most likely tokens; 0: from all.", least=0)
    top_p: float = option(1.0, "Sample from the smallest set of tokens with this probability.", above=0, most=1)
    seed: int = option(0, "Random seed of sampling.")

    def __post_init__(self) -> None:
        check_ranges(self)

    def search(self, limits: Limits, n_best: int = 1) -> Search:
        """Return the search that these options describe."""
        from headway.search import Beam, Greedy, Sample

        if self.temperature > 0:
            narrow = {"temperature": self.temperature, "top_k": self.top_k, "nucleus": self.top_p}
            return Sample(**narrow, seed=self.seed, limits=limits)
        if self.beam == 1:
            return Greedy(alpha=self.alpha, limits=limits)
        return Beam(size=self.beam, alpha=self.alpha, n_best=n_best, limits=limits)


@dataclass(frozen=True)
class DecodingOptions(SearchOptions):
    """How to translate."""

    n_best: int = option(1, "Number of translations of each line.", least=1, most=100)
    to: str = option("", "Target language, for multilingual models.", metavar="LANGUAGE")
    prefix: str = option("", "Begin every output with this text.")
    no_repeat: int = option(0, "Forbid that any n tokens in a row occur twice; 0: no rule.", least=0)
    split: bool = option(False, "Translate every sentence of a line by itself.")
    best: bool = option(False, "Minimum Bayes risk decoding over samples and beam: slow, and the best quality.")
    alignments: bool = option(False, "Align words of the source and of the output: pairs such as 0-0 1-2.")
    glossary: Glossary = option(
        Glossary(), "File of terms, source<TAB>target; the outputs must use them.", parse=read_glossary, metavar="FILE"
    )
    keep: Sequence[str] = option((), "Regular expression; copy what it matches to the output unchanged. Repeatable.")
    limits: Limits | None = None  # how long an output may be; unset: as the model was trained

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam:
            raise UsageError(f"n-best is {self.n_best}; it must be from 1 to the beam, {self.beam}")
        _ = self.patterns  # refuses an invalid pattern

    @property
    def plain(self) -> bool:
        """Whether a search without rules is all that is asked for."""
        rules = (self.temperature, self.best, self.no_repeat, self.prefix, self.glossary.terms, self.keep)
        return not any(rules)

    @cached_property
    def patterns(self) -> list[regex.Pattern[str]]:
        """The regular expressions of `keep`, compiled."""
        if not self.keep:
            return []
        from headway.text import protected_spans

        return protected_spans.compiled(self.keep)


@dataclass(frozen=True)
class GenerationOptions(SearchOptions):
    """How a language model continues a text: by default it samples."""

    panel: ClassVar[str] = "Language models"

    beam: int = option(1, "Beam size; 1 samples instead of searching.", least=1, most=100)
    temperature: float = option(1.0, "Sampling temperature: below 1 likely tokens become likelier; 0: greedy.", least=0)
    max_new_tokens: int = option(200, "Largest number of tokens to write.", least=1, most=LONGEST, flags=("--max",))

    def continuation(self) -> Search:
        """Return the search for what follows a prompt. A beam of more than one searches and does not sample."""
        from headway.search import Limits

        limits = Limits(ratio=0.0, extra=self.max_new_tokens, longest=self.max_new_tokens)
        return (replace(self, temperature=0.0) if self.beam > 1 else self).search(limits)
