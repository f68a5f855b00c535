"""A model's words as points: nearest neighbours, and a map in two dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import UsageError
from headway.text.tokenizer import Tokenizer
from headway.text.unicode import SPACE_MARK
from headway.text.vocabulary import SPECIAL_PIECES, UNK

SHOWN = 150  # words of the map, where none are named
NEAR = 8  # neighbours of a word
MOST = 2000  # words that may be named

Points = Float[Tensor, "n d"]


@dataclass(frozen=True)
class Neighbourhood:
    """Words with their places on the map, and what lies nearest to each: names and cosines."""

    words: list[str]
    places: Float[Tensor, "n 2"]
    nearest: list[list[tuple[str, float]]]
    method: str  # of the map

    def told(self) -> dict[str, Any]:
        rows = zip(self.words, self.places.tolist(), self.nearest, strict=True)
        return {
            "version": 1,
            "kind": "embeddings",
            "method": self.method,
            "words": [{"text": text, "place": place, "nearest": near} for text, place, near in rows],
        }


def neighbourhood(
    tokenizer: Tokenizer, embedding: Embedding, words: Sequence[str] = (), tsne: bool = False
) -> Neighbourhood:
    """Return the given words, or the most frequent ones, as points with their nearest neighbours."""
    table = embedding.weight.detach().float().cpu()
    if len(words) > MOST:
        raise UsageError(f"{len(words)} words; at most {MOST} fit on a map")
    whole = whole_words(tokenizer)
    spelled = [[index] for index in whole[:SHOWN]] if not words else [spell(word, tokenizer) for word in words]
    names = [name(ids[0], tokenizer) for ids in spelled] if not words else list(words)
    points = torch.stack([table[ids].mean(dim=0) for ids in spelled])
    layout: Callable[[Points], Float[Tensor, "n 2"]] = tsne_map if tsne else principal_map
    nearest = neighbours(points, table, torch.tensor(whole), spelled, tokenizer)
    return Neighbourhood(names, layout(points), nearest, "t-SNE" if tsne else "principal components")


def whole_words(tokenizer: Tokenizer) -> list[int]:
    """Pieces that begin a word and have letters, the most frequent first; all real pieces where none begins one."""
    real = [index for index in range(len(SPECIAL_PIECES), len(tokenizer)) if index not in tokenizer.tags.values()]
    words = [i for i in real if tokenizer.starts_word(i) and any(map(str.isalnum, tokenizer.piece(i)))]
    found = [i for i in words if len(tokenizer.piece(i).strip(SPACE_MARK)) > 1] or words or real
    if not found:
        raise UsageError("this vocabulary holds no words")
    return found


def spell(word: str, tokenizer: Tokenizer) -> list[int]:
    ids = tokenizer.encode(word.strip())
    if not ids:
        raise UsageError("--words: a word is empty; give words with commas between")
    if UNK in ids:
        raise UsageError(f"--words: {word.strip()!r} is not in the vocabulary; leave it out")
    return ids


def name(index: int, tokenizer: Tokenizer) -> str:
    return tokenizer.piece(index).replace(SPACE_MARK, "")


def neighbours(
    points: Points,
    table: Float[Tensor, "v d"],
    candidates: Int[Tensor, "c"],
    own: list[list[int]],
    tokenizer: Tokenizer,
) -> list[list[tuple[str, float]]]:
    """By cosine, of all whole words; a word is not its own neighbour."""
    cosines = unit(points) @ unit(table[candidates]).T
    for row, ids in zip(cosines, own, strict=True):
        if len(ids) == 1:
            row[candidates == ids[0]] = -torch.inf
    best, places = cosines.topk(min(NEAR, len(candidates) - 1) if len(candidates) > 1 else 1, dim=1)
    return [
        [(name(int(candidates[place]), tokenizer), round(cosine, 4)) for cosine, place in zip(*row, strict=True)]
        for row in zip(best.tolist(), places.tolist(), strict=True)
    ]


def unit(x: Points) -> Points:
    return torch.nn.functional.normalize(x, dim=-1)


def principal_map(points: Points) -> Float[Tensor, "n 2"]:
    """The two directions in which the points differ most."""
    centred = points - points.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    flat = centred @ directions[:2].T
    return torch.nn.functional.pad(flat, (0, 2 - flat.size(1)))


# ---------------------------------------------------------------- t-SNE

PERPLEXITY = 12.0  # about so many neighbours are kept near
ROUNDS, EAGER = 500, 100  # steps in all, and those that exaggerate attraction at first


def tsne_map(points: Points) -> Float[Tensor, "n 2"]:
    """Neighbours stay neighbours (van der Maaten and Hinton 2008); the same map every time."""
    if len(points) < 4:
        return principal_map(points)
    wanted = joint_shares(unit(points))
    places = principal_map(unit(points))
    places = places / places.std() * 1e-2
    speed, rate = torch.zeros_like(places), max(10.0, len(points) / 12)
    for step in range(ROUNDS):
        apart = 1 / (1 + torch.cdist(places, places).square())
        apart.fill_diagonal_(0)
        pull = (wanted * (12.0 if step < EAGER else 1.0) - apart / apart.sum()) * apart
        slope = 4 * (pull.sum(dim=1, keepdim=True) * places - pull @ places)
        speed = (0.5 if step < EAGER else 0.8) * speed - rate * slope
        places = places + speed
    return places - places.mean(dim=0)


def joint_shares(points: Points) -> Float[Tensor, "n n"]:
    """How near each pair is: Gaussians, each as wide as gives its point the wanted number of neighbours."""
    squares = torch.cdist(points, points).square()
    target = torch.tensor(min(PERPLEXITY, (len(points) - 1) / 3)).log()
    low, high = torch.full((len(points), 1), 1e-6), torch.full((len(points), 1), 1e6)
    shares = torch.zeros_like(squares)
    for _ in range(60):  # the widths by halving, all at once
        middle = (low * high).sqrt()
        logits = (-squares * middle).fill_diagonal_(-torch.inf)
        shares = logits.softmax(dim=1)
        wide = torch.special.entr(shares).sum(dim=1, keepdim=True) > target
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    both = shares + shares.T
    return both / both.sum()
