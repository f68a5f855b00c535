"""What a model process can do with its models: translate, write piece by piece, predict, look inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headway.data.glossary import Glossary
from headway.devices import cores, one_thread
from headway.engines.base import Engine
from headway.search import Hypothesis, Search
from headway.search.logits_processors import Scores, Shape, Written
from headway.serve.channel import Message
from headway.serve.fingerprint import open_same
from headway.serve.model_info import facts
from headway.tasks.base import Predictor
from headway.tasks.predictors import TranslatorPredictor, open_model, translating
from headway.tasks.translation.result import Translation
from headway.tasks.translation.translator import Manner, Part, Translator
from headway.text.vocabulary import EOS

Stopped = Callable[[], bool]


class StoppedError(Exception):
    """Nobody waits for this any more."""


class ModelHandlers:
    """All models of a server, opened. One message at a time."""

    def __init__(self, folders: dict[str, Path], options: Message, say: Callable[[Message], None]) -> None:
        self.say = say
        threads = max(1, cores() // options["workers"])
        opener = translating(options["engine"], options["precision"])
        with one_thread():
            same = {
                name: open_same(folder, lambda one: open_model(one, options["device"], opener))
                for name, folder in folders.items()
            }
        self.models = {name: model for name, (model, _) in same.items()}
        self.fingerprints = {name: found for name, (_, found) in same.items()}
        self.translators = {
            name: model.translator for name, model in self.models.items() if isinstance(model, TranslatorPredictor)
        }
        for translator in self.translators.values():
            translator.engine.workers = min(translator.engine.workers, threads)
            translator.engine = CancellableEngine(translator.engine, self.check)
        torch.set_num_threads(threads)
        self.folders = folders
        self.stopped: Stopped = lambda: False  # does nobody wait for the present message any more?
        self.acts = {"predict": self.predict, "trace": self.trace}
        self.translations = {"translate": self.translate, "stream": self.stream}

    def facts(self) -> list[Message]:
        told = [facts(name, self.folders[name], model) for name, model in self.models.items()]
        return [{**one, "fingerprint": self.fingerprints[one["id"]]} for one in told]

    def answer(self, message: Message, stopped: Stopped) -> Any:
        act, name = message["act"], message["model"]
        self.stopped = stopped
        try:
            return self.acted(act, name, message, stopped)
        except StoppedError:
            return [None for _ in message["texts"]]

    def check(self) -> None:
        """StoppedError when nobody waits any more."""
        if self.stopped():
            raise StoppedError

    def acted(self, act: str, name: str, message: Message, stopped: Stopped) -> Any:
        if act in self.acts:
            return self.acts[act](self.models[name], message)
        return self.translations[act](self.translators[name], message, stopped)

    def predict(self, model: Predictor, message: Message) -> list[Message]:
        """What the model makes of each of the `texts`: as a line, and with all its numbers."""
        return [{"text": one.text, "facts": one.to_dict()} for one in model.predict(message["texts"])]

    def translate(self, translator: Translator, message: Message, stopped: Stopped) -> list[Message]:
        """`texts`, each with the same `manner`."""
        manner = dict(message["manner"])
        glossary = Glossary(tuple((source, target) for source, target in manner.pop("glossary", [])))
        return [translation_message(one) for one in translator.translate(message["texts"], glossary=glossary, **manner)]

    def stream(self, translator: Translator, message: Message, stopped: Stopped) -> list[Message]:
        """One text, greedily; tells what is written after every piece."""
        how = translator.manner(beam=1, **message["manner"])
        parts, gaps = translator.cut(message["texts"][0], how)
        done = ""
        for part, gap in zip(parts, gaps, strict=True):
            done += (
                self.written(translator, part, how, ProgressReporter(self, translator, message["id"], done, stopped))
                + gap
            )
        return [{"text": done}]

    def written(self, translator: Translator, part: Part, how: Manner, watch: ProgressReporter) -> str:
        try:
            shapes = (*translator.shapes([part], how), watch)
            found = translator.engine.translate(translator.padded([part.ids]), how.search(), shapes)
        except StoppedError:
            return ""
        return translator.tokenizers.target.decode(found[0][0].ids)

    def trace(self, model: Predictor, message: Message) -> list[Message]:
        """All that `request` asks to see of one text's way through the model."""
        from headway.inspection.trace_request import Edit, Head, TraceRequest
        from headway.tasks.trace import trace

        told = message["request"]
        lists = {"include": tuple(told["include"]), "prefix": tuple(told["prefix"])}
        changes = {
            "edit": tuple(Edit(**one) for one in told["edit"]),
            "ablate": tuple(Head(**one) for one in told["ablate"]),
        }
        return [trace(model, TraceRequest(**told | lists | changes), self.check)]


class CancellableEngine:
    """An engine that begins no batch for which nobody waits."""

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self.engine, self.check = engine, check
        self.name, self.precision, self.workers = engine.name, engine.precision, engine.workers

    def translate(
        self, source: Int[Tensor, "b s"], search: Search, shapes: Sequence[Shape] = ()
    ) -> list[list[Hypothesis]]:
        self.check()
        return self.engine.translate(source, search, shapes)


class ProgressReporter:
    """A shape that changes nothing: search shows it what is written at every step."""

    def __init__(self, desk: ModelHandlers, translator: Translator, number: int, before: str, stopped: Stopped) -> None:
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


def translation_message(one: Translation) -> Message:
    return {
        "text": one.text,
        "score": one.score,
        "confidence": one.confidence,
        "tokens": one.tokens,
        "token_scores": one.token_scores,
        "alignment": one.alignment,
        "alternatives": [translation_message(other) for other in one.alternatives],
    }
