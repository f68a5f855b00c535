"""What a run learns from, made once and found again by its content: pieces, encoded pairs, validation pairs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from headway.data import store
from headway.data.corpus import Data, Pair, content_key, dev_pairs, train_pairs
from headway.data.counts import Counts
from headway.errors import UsageError
from headway.storage import files
from headway.tasks.base import Setup
from headway.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Material:
    """All that is made of the files before training."""

    tokenizers: Tokenizers
    pairs: store.Store
    dev: list[Pair]

    @classmethod
    def of(cls, setup: Setup) -> Material:
        """Read the files only where something is not there yet. What is published in the folder stays untouched."""
        check_tags(setup.pairs)
        state, content = setup.folder / "state", f"{content_key(setup.pairs)}-{setup.seed}"
        tokenizers = pieces(setup, state / "text", content)
        return cls(
            tokenizers, encoded(setup, state / "corpus", content, tokenizers), held_out(setup, state / "dev", content)
        )


def check_tags(data: Data) -> None:
    """A validation tag that no training text has cannot be learned."""
    known = [corpus.tag for corpus in data.training()]
    for corpus in data.validation():
        if corpus.tag not in known:
            tags = ", ".join(repr(tag) for tag in dict.fromkeys(known))
            raise UsageError(f"{corpus.source}: tag {corpus.tag!r} is not among those of the training text: {tags}")


def place_of(folder: Path, *key: object) -> Path:
    return folder / hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]


# ---------------------------------------------------------------- pieces


def pieces(setup: Setup, folder: Path, content: str) -> Tokenizers:
    """Those learned from this text with these settings before, or new ones."""
    kinds = [None if kind is None else asdict(kind) for kind in (setup.text, setup.target_text)]
    return kept(place_of(folder, content, kinds), lambda: learn(setup))


def kept(place: Path, make: Callable[[], Tokenizers]) -> Tokenizers:
    """The pieces that lie in this place, or new ones, put there."""
    try:
        return Tokenizers.load(place, trusted=True)
    except UsageError:
        made = make()
    with files.disk_trouble(place, 1 << 20):
        files.make_folder(place.parent)
        beside = place.with_name(f"{place.name}.tmp-{os.getpid()}")
        shutil.rmtree(beside, ignore_errors=True)
        try:
            made.save(beside)
            shutil.rmtree(place, ignore_errors=True)
            os.replace(beside, place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return made


def learn(setup: Setup) -> Tokenizers:
    tags = tuple(dict.fromkeys(corpus.tag for corpus in setup.pairs.training() if corpus.tag))
    if setup.target_text is None and setup.text.joint:
        one = setup.text.learn((side for pair in text(setup) for side in (pair.source, pair.target)), tags)
        return Tokenizers(one, one)
    other = setup.target_text or setup.text
    return Tokenizers(
        setup.text.learn((pair.source for pair in text(setup)), tags),
        other.learn(pair.target for pair in text(setup)),
    )


def text(setup: Setup) -> Iterator[Pair]:
    return train_pairs(setup.pairs, setup.seed, Counts())


# ---------------------------------------------------------------- pairs


def encoded(setup: Setup, folder: Path, content: str, tokenizers: Tokenizers) -> store.Store:
    """The training pairs as numbers on disk."""
    key = f"{content}-{tokenizers.fingerprint}"
    found = store.open(folder, key)
    if found is None:
        setup.notes.extend(store.anew(store.place_of(folder, key)))
        found = store.build(folder, key, text(setup), tokenizers.source, tokenizers.target, setup.pairs.longest)
    if not len(found):
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in found.facts.dropped.items())
        raise UsageError(f"{setup.pairs.training()[0].source}: no pair is left to train on; left out: {dropped}")
    return found


def held_out(setup: Setup, folder: Path, content: str) -> list[Pair]:
    """The validation pairs. To find them again in the files would take as long as to read all of them."""
    place = place_of(folder, content).with_suffix(".json")
    try:
        return [Pair(*pair) for pair in json.loads(place.read_bytes())]
    except (OSError, ValueError, TypeError):
        pairs = dev_pairs(setup.pairs, setup.seed)
    with files.disk_trouble(place, 1 << 20):
        files.make_folder(folder)
    files.replace_text(place, json.dumps(pairs, ensure_ascii=False))
    return pairs
