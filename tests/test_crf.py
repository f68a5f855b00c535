"""The conditional random field against all sequences counted one by one, and against pytorch-crf."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torchcrf import CRF

from headway.model.classifiers import WordClassifier
from headway.model.crf import Chain, log_partition, marginals, sequence_score, viterbi
from headway.model.heads.tags import CrfHead, TagHead
from headway.model.losses import symmetric_kl
from headway.tasks.tagging.task import TaggingBatch, TaggingForward

LABELS, WORDS = 4, 5
LENGTHS = (5, 3, 1, 0)


def scene(seed: int) -> tuple[Tensor, Tensor, Chain]:
    """Scores of four sentences, one of them empty, and a chain."""
    torch.manual_seed(seed)
    scores = torch.randn(len(LENGTHS), WORDS, LABELS, dtype=torch.float64)
    real = torch.arange(WORDS) < torch.tensor(LENGTHS)[:, None]
    return scores, real, Chain(*(torch.randn(size, dtype=torch.float64) for size in (LABELS, (LABELS, LABELS), LABELS)))  # type: ignore[arg-type]


def by_hand(scores: Tensor, chain: Chain, labels: tuple[int, ...]) -> float:
    total = sum(float(scores[place, label]) for place, label in enumerate(labels))
    total += sum(float(chain.next[a, b]) for a, b in zip(labels, labels[1:], strict=False))
    return total + float(chain.first[labels[0]] + chain.last[labels[-1]])


@pytest.mark.parametrize("seed", range(3))
def test_sums_maxima_and_marginals_are_those_of_all_sequences(seed: int) -> None:
    scores, real, chain = scene(seed)
    partition, best, chances = (
        log_partition(scores, real, chain),
        viterbi(scores, real, chain),
        marginals(scores, real, chain),
    )
    for row, length in enumerate(LENGTHS):
        if length == 0:
            assert partition[row] == 0
            continue
        every = list(product(range(LABELS), repeat=length))
        values = torch.tensor([by_hand(scores[row], chain, labels) for labels in every], dtype=torch.float64)
        torch.testing.assert_close(partition[row], values.logsumexp(0))
        assert tuple(best[row, :length].tolist()) == every[int(values.argmax())]
        weights = values.softmax(0)
        expected = torch.zeros(length, LABELS, dtype=torch.float64)
        for labels, weight in zip(every, weights, strict=True):
            expected[torch.arange(length), torch.tensor(labels)] += weight
        torch.testing.assert_close(chances[row, :length], expected)


def test_symmetric_kl_of_two_fields_is_half_of_both_divergences_over_all_sequences() -> None:
    first, real, chain = scene(2)
    second = first + torch.randn_like(first)
    found = (symmetric_kl(first, second, lambda scores: marginals(scores, real, chain)) * real).sum(dim=1)
    for row, length in enumerate(LENGTHS):
        every = list(product(range(LABELS), repeat=length)) if length else []
        log_p, log_q = (
            torch.tensor([by_hand(one[row], chain, labels) for labels in every], dtype=torch.float64).log_softmax(0)
            for one in (first, second)
        )
        both = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
        torch.testing.assert_close(found[row], both / 2)


def test_sequence_score_is_the_sum_by_hand() -> None:
    scores, real, chain = scene(5)
    labels = torch.randint(LABELS, (len(LENGTHS), WORDS))
    found = sequence_score(scores, labels, real, chain)
    for row, length in enumerate(LENGTHS):
        expected = by_hand(scores[row], chain, tuple(labels[row, :length].tolist())) if length else 0.0
        assert float(found[row]) == pytest.approx(expected)


def test_loss_and_decoding_are_those_of_pytorch_crf() -> None:
    scores, real, chain = scene(7)
    scores, real = scores[:3], real[:3]  # it knows no empty sentence
    other = CRF(LABELS, batch_first=True).double()
    with torch.no_grad():
        other.start_transitions.copy_(chain.first)
        other.transitions.copy_(chain.next)
        other.end_transitions.copy_(chain.last)
    labels = torch.randint(LABELS, real.shape)
    ours = (log_partition(scores, real, chain) - sequence_score(scores, labels, real, chain)).sum()
    torch.testing.assert_close(ours, -other(scores, labels, mask=real))
    best = viterbi(scores, real, chain)
    assert [best[row, : LENGTHS[row]].tolist() for row in range(3)] == other.decode(scores, mask=real)  # pyright: ignore[reportArgumentType]


def test_what_is_forbidden_is_never_decoded() -> None:
    scores, real, chain = scene(9)
    wall = torch.zeros(LABELS, LABELS, dtype=torch.float64)
    wall[0, 1] = wall[2, 2] = -1e4
    edge = torch.tensor([0.0, 0.0, 0.0, -1e4], dtype=torch.float64)
    best = viterbi(scores, real, chain.without(Chain(edge, wall, edge)))
    for row, length in enumerate(LENGTHS[:3]):
        labels = best[row, :length].tolist()
        assert 3 not in (labels[0], labels[-1])
        assert not {(0, 1), (2, 2)} & set(zip(labels, labels[1:], strict=False))


def test_padding_changes_nothing() -> None:
    scores, real, chain = scene(11)
    other = torch.where(real[..., None], scores, torch.full_like(scores, 1e3))
    for work in (log_partition, marginals, viterbi):
        one, two = work(scores, real, chain), work(other, real, chain)
        shown = real.any(dim=1) if one.ndim == 1 else real
        torch.testing.assert_close(one[shown], two[shown])


def test_a_softmax_head_is_a_field_without_neighbours() -> None:
    head, field = TagHead(6, LABELS), CrfHead(6, LABELS)
    field.linear.load_state_dict(head.linear.state_dict())
    hidden, real = torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool)
    labels = torch.randint(LABELS, (2, 5))
    one = head.loss(head(hidden), labels, real, 0.0)
    two = field.loss(field(hidden), labels, real, 0.0)
    torch.testing.assert_close(one, two)


class Said(WordClassifier):
    """Stands for a model: says these scores, one after the other."""

    def __init__(self, head: TagHead, passes: Tensor) -> None:
        nn.Module.__init__(self)
        self.head, self.passes = head, list(passes)

    def forward(self, pieces: Tensor, first: Tensor, letters: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return self.passes.pop(0)


@torch.no_grad()
@pytest.mark.parametrize("kind", [TagHead, CrfHead])
def test_the_loss_of_two_passes_is_their_mean_and_how_far_they_are_apart(kind: type[TagHead]) -> None:
    """R-Drop's formula, a quarter as both the loss and the divergence are means over two."""
    first, real, chain = scene(3)
    passes = torch.stack([first, first + torch.randn_like(first)])
    head = kind(3, LABELS).double()
    if isinstance(head, CrfHead):
        for mine, theirs in zip((head.first, head.next, head.last), (chain.first, chain.next, chain.last), strict=True):
            mine.data = theirs.clone()
    labels = torch.randint(1, LABELS + 1, real.shape) * real
    batch = TaggingBatch(torch.ones_like(labels), torch.zeros_like(labels), labels)
    total, nll, count = TaggingForward(Said(head, passes), 0.0, r_drop=3.0)(batch).loss(0.0)

    held, gap = head.chain(), 0.0
    for row, length in enumerate(LENGTHS):
        every = list(product(range(LABELS), repeat=length)) if length else []
        log_p, log_q = (
            torch.tensor([by_hand(one[row], held, each) for each in every], dtype=torch.float64).log_softmax(0)
            for one in passes
        )
        gap += float(((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum())
    alone = [TaggingForward(Said(head, x[None]), 0.0)(batch).loss(0.0)[0] for x in passes]
    assert float(total) == pytest.approx(float(sum(alone)) / 2 + 3.0 / 4 * gap, rel=1e-5)
    assert float(nll) == pytest.approx(float(alone[0])) and int(count) == sum(LENGTHS)
