"""What a model process can do with its models: translate, write piece by piece, look inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from headway.api import Manner, Part, Translator
from headway.glossary import Glossary
from headway.machine import cores
from headway.run import Run
from headway.search.shaping import Scores, Written
from headway.serve.channel import Message
from headway.serve.models import UNKNOWN_SOURCE, UNKNOWN_TARGET
from headway.text.vocabulary import EOS
from headway.translation import Translation

CODE = r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?"
Stopped = Callable[[], bool]


class StoppedError(Exception):
    """Nobody waits for this any more."""


class Desk:
    """All models of a server, opened. One message at a time."""

    def __init__(self, folders: dict[str, Path], options: Message, say: Callable[[Message], None]) -> None:
        self.say = say
        threads = max(1, cores() // options["workers"])
        torch.set_num_threads(1)  # opening is many small steps: with more threads it takes four times as long
        self.translators: dict[str, Translator] = {}
        for name, folder in folders.items():
            translator = Translator.load(folder, options["device"], options["engine"], options["precision"])
            translator.engine.workers = min(translator.engine.workers, threads)
            self.translators[name] = translator
        torch.set_num_threads(threads)
        self.folders = folders
        self.acts = {"translate": self.translate, "stream": self.stream, "trace": self.trace}

    def facts(self) -> list[Message]:
        return [facts(name, self.folders[name], translator) for name, translator in self.translators.items()]

    def answer(self, message: Message, stopped: Stopped) -> Any:
        return self.acts[message["act"]](self.translators[message["model"]], message, stopped)

    def translate(self, translator: Translator, message: Message, stopped: Stopped) -> list[Message]:
        """`texts`, each with the same `manner`."""
        manner = dict(message["manner"])
        glossary = Glossary(tuple((source, target) for source, target in manner.pop("glossary", [])))
        return [told(one) for one in translator.translate(message["texts"], glossary=glossary, **manner)]

    def stream(self, translator: Translator, message: Message, stopped: Stopped) -> list[Message]:
        """One text, greedily; tells what is written after every piece."""
        how = Manner(beam=1, **message["manner"])
        parts, gaps = translator.cut(message["texts"][0], how)
        done = ""
        for part, gap in zip(parts, gaps, strict=True):
            done += self.written(translator, part, how, Watch(self, translator, message["id"], done, stopped)) + gap
        return [{"text": done}]

    def written(self, translator: Translator, part: Part, how: Manner, watch: Watch) -> str:
        try:
            found = translator.engine.translate(translator.padded([part.ids]), how.search(), (watch,))
        except StoppedError:
            return ""
        return translator.tokenizers.target.decode(found[0][0].ids)

    def trace(self, translator: Translator, message: Message, stopped: Stopped) -> list[Message]:
        """All that `request` asks to see of one sentence's way through the model."""
        from headway.looking.request import Edit, Head, TraceRequest
        from headway.looking.trace import trace

        told = message["request"]
        lists = {"include": tuple(told["include"]), "prefix": tuple(told["prefix"])}
        changes = {
            "edit": tuple(Edit(**one) for one in told["edit"]),
            "ablate": tuple(Head(**one) for one in told["ablate"]),
        }
        return [trace(translator, TraceRequest(**told | lists | changes))]


class Watch:
    """A shape that changes nothing: search shows it what is written at every step."""

    def __init__(self, desk: Desk, translator: Translator, number: int, before: str, stopped: Stopped) -> None:
        self.desk, self.number, self.before, self.stopped = desk, number, before, stopped
        self.decode = translator.tokenizers.target.decode
        self.shown = before

    def __call__(self, scores: Scores, written: Written) -> Scores:
        if self.stopped():
            raise StoppedError
        text = self.before + self.decode([piece for piece in written.ids[0].tolist() if piece != EOS])
        if text != self.shown:
            self.shown = text
            self.desk.say({"id": self.number, "event": {"text": text}})
        return scores


def told(one: Translation) -> Message:
    return {
        "text": one.text,
        "score": one.score,
        "confidence": one.confidence,
        "tokens": one.tokens,
        "token_scores": one.token_scores,
        "alignment": one.alignment,
        "alternatives": [told(other) for other in one.alternatives],
    }


# ---------------------------------------------------------------- what a model is


def facts(name: str, folder: Path, translator: Translator) -> Message:
    design: Any = translator.run.model
    return {
        "id": name,
        "folder": str(folder),
        "pairs": [[source, target, to] for source, target, to in directions(translator, folder)],
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "encoder_layers": design.encoder_layers,
        "decoder_layers": design.decoder_layers,
        "heads": design.heads,
        "width": design.width,
        "vocabulary": [len(translator.tokenizers.source), len(translator.tokenizers.target)],
        "engine": translator.engine.name,
        "precision": translator.engine.precision,
    }


def directions(translator: Translator, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Source, target and the tag that asks for it. A model with tags goes into every language it has one for."""
    source, target = languages(translator.run, folder)
    tags = sorted(translator.tokenizers.source.tags)
    if not tags:
        yield source, target, ""
    for tag in tags:
        sources = {corpus.source_language for corpus in translator.run.pairs.corpora if corpus.tag == tag} - {""}
        yield from ((one, tag, tag) for one in sorted(sources) or [source])


def languages(run: Run, folder: Path) -> tuple[str, str]:
    """As the configuration says, else by the training files' endings, else by the folder's name, such as en-de."""
    data = run.pairs
    named = re.search(rf"(?:^|[._-])({CODE})-({CODE})$", folder.resolve().name)
    by_folder = (named[1], named[2]) if named else (UNKNOWN_SOURCE, UNKNOWN_TARGET)
    by_files = (ending(data.source), ending(data.target))
    by_name = by_files if all(by_files) and by_files[0] != by_files[1] else by_folder
    return data.source_language or by_name[0], data.target_language or by_name[1]


def ending(path: str) -> str:
    """en for train.en and train.en.gz; nothing for corpus.txt."""
    found = re.search(rf"\.({CODE})(?:\.(?:gz|xz|zst))?$", path)
    return found[1] if found and found[1] not in ("txt", "tsv", "csv", "tok", "tmx", "bpe", "src", "tgt") else ""
