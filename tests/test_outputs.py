"""Output distributions: one loss, whether the logits of a batch are held whole or made in chunks."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from headway.model.encoded import NO_SOURCE, EncodedSource, Memory
from headway.model.inputs import Features, lengths_of
from headway.model.mask import Mask
from headway.model.outputs import OutputLayer, VocabularyHead
from headway.text.vocabulary import PAD


@pytest.mark.parametrize("agreement", [0.0, 2.0], ids=["one pass", "R-Drop"])
def test_the_loss_from_whole_logits_is_the_loss_in_chunks(agreement: float) -> None:
    """The value, the cross-entropy, the count, and the gradients by vectors and matrix."""
    head = VocabularyHead(nn.Parameter(torch.randn(11, 8, dtype=torch.float64)), bias=False)
    hidden = torch.randn(4 if agreement else 2, 5, 8, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(4, 11, (2, 5))
    labels[1, 3:] = PAD
    losses = [kind.loss(head, hidden, NO_SOURCE, labels, 0.1, agreement) for kind in (OutputLayer, VocabularyHead)]
    for one, other in zip(*((loss.total, loss.nll, loss.count) for loss in losses), strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(*(torch.autograd.grad(loss.total, (hidden, head.weight)) for loss in losses), strict=True):
        torch.testing.assert_close(one, other)


def test_without_smoothing_the_loss_is_torchs() -> None:
    head = VocabularyHead(nn.Parameter(torch.randn(11, 8)), bias=True)
    hidden, labels = torch.randn(2, 5, 8), torch.tensor([[4, 5, 6, 7, 3], [9, 3, PAD, PAD, PAD]])
    loss = head.loss(hidden, NO_SOURCE, labels, smoothing=0.0)
    wanted = F.cross_entropy(head(hidden).flatten(0, 1), labels.flatten(), ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(loss.total, wanted)
    assert int(loss.count) == 7


def test_decoder_layers_that_share_a_memory_go_on_sharing_it() -> None:
    x, keys = torch.randn(3, 4, 2), torch.rand(3, 4) > 0.5
    shared, other = (Memory(x + number, torch.arange(4)[None], Mask(keys=keys)) for number in range(2))
    ids, rows = torch.randint(4, 9, (3, 4)), torch.tensor([2, 0])
    found = EncodedSource(ids, [shared, other, shared]).select(rows)
    assert found.memories[0] is found.memories[2] is not found.memories[1]
    assert len(found) == 2 and torch.equal(found.memories[1].x, x[rows] + 1)
    assert isinstance(found.batch, torch.Tensor) and torch.equal(found.batch, ids[rows])


def test_the_length_of_a_source_is_what_is_real_of_it() -> None:
    assert lengths_of(torch.tensor([[7, 8, 3], [9, 3, PAD]])).tolist() == [3, 2]
    features = Features(torch.randn(2, 6, 4, 4), torch.tensor([6, 1]))
    assert lengths_of(features).tolist() == [6, 1] and len(features) == 2
    assert lengths_of(features.index_select(0, torch.tensor([1]))).tolist() == [1]
