"""What a model process can do with its models: translate, write piece by piece, predict, look inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from headway.data.glossary import Glossary
from headway.devices import cores, one_thread
from headway.search.logits_processors import GeneratedTokens, Scores
from headway.serve.channel import Message
from headway.serve.fingerprint import open_same
from headway.tasks.base import OpenOptions, Predictor
from headway.tasks.decoding_options import DecodingOptions
from headway.tasks.predictors import open_model
from headway.tasks.translation.result import Translation
from headway.tasks.translation.translator import Part, Translator
from headway.text.vocabulary import EOS

Stopped = Callable[[], bool]


class StoppedError(Exception):
    """Nobody waits for this any more."""


class ModelHandlers:
    """All models of a server, opened. One message at a time."""

    def __init__(self, folders: dict[str, Path], options: Message, say: Callable[[Message], None]) -> None:
        self.say = say
        threads = max(1, cores() // options["workers"])
        how = OpenOptions(options["engine"], options["precision"])
        with one_thread():
            same = {
                name: open_same(folder, lambda one: open_model(one, options["device"], how))
                for name, folder in folders.items()
            }
        self.models = {name: model for name, (model, _) in same.items()}
        self.fingerprints = {name: found for name, (_, found) in same.items()}
        for model in self.models.values():
            model.share_machine(threads, self.check)
        torch.set_num_threads(threads)
        self.folders = folders
        self.stopped: Stopped = lambda: False  # does nobody wait for the present message any more?
        self.acts: dict[str, Callable[[Any, Message], Any]] = {
            "predict": self.predict,
            "trace": self.trace,
            "translate": self.translate,  # this and the next only reach a model with language pairs
            "stream": self.stream,
        }

    def facts(self) -> list[Message]:
        return [
            {
                "id": name,
                "folder": str(folder),
                "fingerprint": self.fingerprints[name],
                **self.models[name].facts(folder),
            }
            for name, folder in self.folders.items()
        ]

    def answer(self, message: Message, stopped: Stopped) -> Any:
        act, name = message["act"], message["model"]
        self.stopped = stopped
        try:
            return self.acts[act](self.models[name], message)
        except StoppedError:
            return [None for _ in message["texts"]]

    def check(self) -> None:
        """StoppedError when nobody waits any more."""
        if self.stopped():
            raise StoppedError

    def predict(self, model: Predictor, message: Message) -> list[Message]:
        """What the model makes of each of the `texts`: as a line, and with all its numbers."""
        return [{"text": one.text, "facts": one.to_dict()} for one in model.predict(message["texts"])]

    def translate(self, translator: Translator, message: Message) -> list[Message]:
        """`texts`, each with the same `manner`."""
        manner = dict(message["manner"])
        glossary = Glossary(tuple((source, target) for source, target in manner.pop("glossary", [])))
        return [translation_message(one) for one in translator.translate(message["texts"], glossary=glossary, **manner)]

    def stream(self, translator: Translator, message: Message) -> list[Message]:
        """One text, greedily; tells what is written after every token."""
        how = translator.decoding(beam=1, **message["manner"])
        parts, gaps = translator.cut(message["texts"][0], how)
        done = ""
        for part, gap in zip(parts, gaps, strict=True):
            reporter = ProgressReporter(self, translator, message["id"], done, self.stopped)
            done += self.written(translator, part, how, reporter) + gap
        return [{"text": done}]

    def written(self, translator: Translator, part: Part, how: DecodingOptions, watch: ProgressReporter) -> str:
        try:
            logits_processors = (*translator.logits_processors([part], how), watch)
            search = how.search(translator.limits(how))
            found = translator.engine.translate(translator.padded([part.ids]), search, logits_processors)
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


class ProgressReporter:
    """A logits processor that changes nothing: at every step it sees what is written so far."""

    def __init__(self, desk: ModelHandlers, translator: Translator, number: int, before: str, stopped: Stopped) -> None:
        self.desk, self.number, self.before, self.stopped = desk, number, before, stopped
        self.decode = translator.tokenizers.target.decode
        self.shown = before

    def __call__(self, scores: Scores, generated: GeneratedTokens) -> Scores:
        if self.stopped():
            raise StoppedError
        text = self.before + self.decode([piece for piece in generated.ids[0].tolist() if piece != EOS])
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
