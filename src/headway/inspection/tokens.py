"""Source and target pieces as plain data, with the probability of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headway.errors import UsageError
from headway.inspection.trace_request import LONGEST, Edit, TooLongError
from headway.model.alignment import words
from headway.text.tokenizer import Tokenizer
from headway.text.unicode import SPACE_MARK
from headway.text.vocabulary import BOS, EOS, PAD


def source_ids(text: str, tokenizer: Tokenizer, longest: int = LONGEST, language: str = "") -> list[int]:
    """Return the ids of a sentence and its end; a tag comes first where the model knows several languages."""
    tag = [tokenizer.tags[language]] if language in tokenizer.tags else []
    ids = [*tag, *tokenizer.encode(text), EOS]
    return check_length(ids, longest)


def check_length(ids: list[int], longest: int) -> list[int]:
    """Return the ids; refuse more than a trace can show."""
    if len(ids) > longest:
        raise TooLongError(f"the sentence has {len(ids)} pieces; a trace shows at most {longest}: give a shorter one")
    return ids


def edit_pieces(ids: list[int], edits: Sequence[Edit], tokenizer: Tokenizer, longest: int = LONGEST) -> list[int]:
    """Return the ids with pieces replaced or dropped. Edits name places of the original source; the end stays."""
    changed = [piece for slot in slots(ids, edits, tokenizer, range(len(ids) - 1)) for piece in slot]
    if len(changed) == 1:
        raise UsageError("edit: every piece was dropped; leave at least one")
    return check_length(changed, longest)


def slots(ids: Sequence[int], edits: Sequence[Edit], tokenizer: Tokenizer, places: range) -> list[list[int]]:
    """Return the new pieces for the place of each old one; only `places` can be edited."""
    found = [[piece] for piece in ids]
    for edit in edits:
        if edit.pos not in places:
            raise UsageError(f"edit at {edit.pos}: the sentence has pieces {places.start} to {places.stop - 1}")
        found[edit.pos] = pieces_of(edit.piece, ids[edit.pos], tokenizer)
    return found


def pieces_of(text: str, old: int, tokenizer: Tokenizer) -> list[int]:
    """Return a text as ids: as a word where a word begins, else as the piece of that name or its parts."""
    if text and tokenizer.starts_word(old) and not text.startswith(SPACE_MARK):
        return tokenizer.encode(text)
    named = next((index for index in range(len(tokenizer)) if tokenizer.piece(index) == text), None)
    if named is None:
        return tokenizer.encode(text)
    if named in (PAD, BOS, EOS):
        raise UsageError(f"edit: {text} cannot stand inside a sentence; give a word or a piece of the vocabulary")
    return [named]


def check_prefix(prefix: Sequence[int], tokenizer: Tokenizer) -> None:
    for piece in prefix:
        if not 0 <= piece < len(tokenizer) or piece in (PAD, BOS, EOS):
            raise UsageError(
                f"prefix: {piece} is no piece that can be written; ids go from {EOS + 1} to {len(tokenizer) - 1}"
            )


def describe_pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return each piece with the number of its word; tags, the beginning and ends belong to none (-1)."""
    inner = iter(words([piece for piece in ids if piece not in (BOS, EOS)], tokenizer))
    numbers = [-1 if piece in (BOS, EOS) else next(inner) for piece in ids]
    return [
        {"id": piece, "text": tokenizer.piece(piece), "word": word} for piece, word in zip(ids, numbers, strict=True)
    ]


def describe_target(
    ids: Sequence[int], logp: Float[Tensor, "t v"], tokenizer: Tokenizer, forced: int, top_k: int
) -> list[dict[str, Any]]:
    """Return each written piece with its log-probability, its rank (1: the likeliest) and the entropy in nats."""
    chosen = logp[range(len(ids)), ids]
    entropy = -(logp.exp() * logp).nansum(dim=-1)
    rank = (logp > chosen[:, None]).sum(dim=-1) + 1
    best, places = logp.topk(min(top_k, logp.size(1)), dim=-1)
    columns = (chosen, entropy, rank, best, places)
    pieces = describe_pieces(ids, tokenizer)
    return [
        piece
        | {"logp": score, "entropy": unsure, "rank": place, "forced": t < forced}
        | {"top": [{"id": i, "text": tokenizer.piece(i), "logp": p} for i, p in zip(ids, scores, strict=True)]}
        for t, (piece, score, unsure, place, scores, ids) in enumerate(
            zip(pieces, *(column.tolist() for column in columns), strict=True)
        )
    ]


def likeliest(probabilities: Float[Tensor, "*b v"], tokenizer: Tokenizer, count: int) -> list[Any]:
    """Return the likeliest pieces of every distribution, as nested as the distributions are."""
    best, places = probabilities.topk(min(count, probabilities.size(-1)), dim=-1)

    def tell(p: Any, i: Any) -> Any:
        if isinstance(i, list):
            return [tell(a, b) for a, b in zip(p, i, strict=True)]
        return {"text": tokenizer.piece(i), "p": p}

    return tell(best.tolist(), places.tolist())
