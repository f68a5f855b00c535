"""Text out of a language model: sampled or searched, whole or as it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from headway.model.models import LanguageModel
from headway.search.base import Hypothesis
from headway.search.prompting import MultiLineModel, PromptedModel, TokenStreamer
from headway.tasks.decoding_options import GenerationOptions
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BOS, EOS

BROKEN = "\ufffd"  # shown for the first bytes of a character whose last are still to come


class Generator:
    """Prompts in, what follows them out.

    `whole`: the ends of lines are part of the text, and the end piece ends it. Else the end piece ends a line.
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, window: int, whole: bool) -> None:
        self.model, self.tokenizer, self.whole = model, tokenizer, whole
        self.inner = PromptedModel(model, window)
        self.over = MultiLineModel(self.inner)

    # ------------------------------------------------------------ text and ids

    def ids(self, text: str) -> list[int]:
        """A prompt: begin, and the text. Its last line goes on, unless its end is given too."""
        if self.whole:
            return [BOS, *self.tokenizer.encode(text)]
        first, *rest = self.tokenizer.encode_many(text.split("\n"))
        return [BOS, *first, *(piece for line in rest for piece in (EOS, *line))]

    def text(self, ids: Sequence[int]) -> str:
        """The ends of lines, by either name, are ends of lines again."""
        lines: list[list[int]] = [[]]
        for piece in ids:
            if piece in (EOS, self.over.line) and not self.whole:
                lines.append([])
            else:
                lines[-1].append(piece)
        return "\n".join(self.tokenizer.decode(line) for line in lines)

    def after(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """The text of ids that follow a prompt; whether a space comes first depends on both."""
        begun = prompt if self.whole else line_begun(prompt)
        return self.text([*begun, *ids]).removeprefix(self.text(begun))

    # ------------------------------------------------------------ writing

    def write(self, prompt: Sequence[int], how: GenerationOptions, hear: Callable[[str], None] | None = None) -> str:
        """Go on after a prompt, over as many lines as it takes; `hear` gets the text as it grows, in parts."""
        told = Telling(lambda ids: self.after(prompt, ids), hear) if hear else None
        source = torch.tensor([list(prompt)], device=self.model.head.weight.device)
        logits_processors = (TokenStreamer(told),) if told and how.beam == 1 else ()
        found = how.continuation()(self.inner if self.whole else self.over, source, logits_processors)[0][0]
        if told:
            told(found.ids, last=True)
        return self.after(prompt, found.ids)

    def finish(self, prompts: Sequence[Sequence[int]], how: GenerationOptions) -> list[Hypothesis]:
        """Each prompt up to the end of its line (or whole text). Prompts of one length are written together."""
        found: dict[int, Hypothesis] = {}
        for length in sorted({len(prompt) for prompt in prompts}):
            some = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
            source = torch.tensor([list(prompts[i]) for i in some], device=self.model.head.weight.device)
            found |= {i: best[0] for i, best in zip(some, how.continuation()(self.inner, source), strict=True)}
        return [found[i] for i in range(len(prompts))]


def line_begun(ids: Sequence[int]) -> Sequence[int]:
    """What stands after the last end of a line."""
    ends = [place for place, piece in enumerate(ids) if piece == EOS]
    return ids[ends[-1] + 1 :] if ends else ids


class Telling:
    """Hands on what is new of a growing text; holds back a character of which only some bytes are known."""

    def __init__(self, text: Callable[[Sequence[int]], str], hear: Callable[[str], None]) -> None:
        self.text, self.hear = text, hear
        self.told = ""

    def __call__(self, ids: list[int], last: bool = False) -> None:
        now = self.text(ids)
        now = now if last else now.rstrip(BROKEN)
        if now.startswith(self.told) and now != self.told:
            self.hear(now[len(self.told) :])
            self.told = now
