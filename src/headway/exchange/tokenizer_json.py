"""Our pieces as a tokenizer.json, which the `tokenizers` library reads."""

from __future__ import annotations

from typing import Any

from headway.errors import UsageError
from headway.text import spm
from headway.text.hub import HubPieces
from headway.text.sentencepieces import SentencePieces
from headway.text.spm import Kind, Piece
from headway.text.tokenizer import Tokenizer
from headway.text.unicode import SPACE_MARK
from headway.text.vocabulary import BOS, SPECIAL_PIECES, UNK


def tokenizer_json(tokenizer: Tokenizer) -> str:
    """The same cuts and the same ids, and the begin before every text."""
    from tokenizers import Tokenizer as Foreign
    from tokenizers import processors

    made = Foreign.from_str(tokenizer.text) if isinstance(tokenizer, HubPieces) else from_sentencepiece(tokenizer)
    begin = tokenizer.piece(BOS)
    made.post_processor = processors.TemplateProcessing(single=f"{begin} $A", special_tokens=[(begin, BOS)])
    return made.to_str()


def from_sentencepiece(tokenizer: Tokenizer) -> Any:
    """A space becomes ▁, one is put in front, unknown characters become bytes."""
    if not isinstance(tokenizer, SentencePieces):
        raise UsageError("tokenizer.json holds sentencepiece models; this model's text is cut otherwise")
    from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Foreign

    algorithm, pieces = spm.contents(tokenizer.model)
    made = Foreign(merges_of(pieces) if algorithm == spm.BPE else likelihoods_of(pieces))
    rules = spm.rules(tokenizer.model)
    if rules:
        made.normalizer = normalizers.Precompiled(rules)
    made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE_MARK, prepend_scheme="first", split=False)
    marks = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(marks)
    made.add_special_tokens(
        [AddedToken(p.text, special=True) for p in pieces if p.kind in (Kind.CONTROL, Kind.UNKNOWN)]
    )
    made.add_tokens([AddedToken(p.text, normalized=False) for p in pieces if p.kind == Kind.USER_DEFINED])
    return made


def merges_of(pieces: list[Piece]) -> Any:
    """A piece is made of two others; those with the better score are joined first."""
    from tokenizers.models import BPE

    ids = {piece.text: i for i, piece in enumerate(pieces)}
    normal = {piece.text: piece.score for piece in pieces if piece.kind == Kind.NORMAL}
    merges = [
        (text[:cut], text[cut:])
        for text in sorted(normal, key=lambda text: -normal[text])
        for cut in range(1, len(text))
        if text[:cut] in normal and text[cut:] in normal
    ]
    return BPE(ids, merges, unk_token=SPECIAL_PIECES[UNK], byte_fallback=has_bytes(pieces), fuse_unk=True)


def likelihoods_of(pieces: list[Piece]) -> Any:
    from tokenizers.models import Unigram

    return Unigram([(piece.text, piece.score) for piece in pieces], UNK, byte_fallback=has_bytes(pieces))


def has_bytes(pieces: list[Piece]) -> bool:
    return any(piece.kind == Kind.BYTE for piece in pieces)
