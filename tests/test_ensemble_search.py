"""Several models, outputs that agree, attention that covers, and the record of a beam."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from headway.errors import UsageError
from headway.search import Beam, Ensemble, Greedy, Hypothesis, Limits, Record, score, score_texts
from headway.search.base import length_weight
from headway.search.coverage import coverage_penalty, rerank_by_coverage
from headway.search.minimum_bayes_risk import chrf, rerank_by_risk
from headway.text.vocabulary import EOS, PAD
from small_steppers import sources, tiny_model


def test_an_ensemble_of_one_is_the_model() -> None:
    model, source = tiny_model(end=1.0), sources(3, 6, 4)
    for group in (Ensemble([model]), Ensemble([model, model])):
        for one, other in zip(Beam(n_best=3)(model, source), Beam(n_best=3)(group, source), strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_an_ensemble_means_probabilities() -> None:
    models, source = [tiny_model(end=4.0, seed=1), tiny_model(end=4.0, seed=2)], sources(4, 2)
    target = torch.tensor([[5, 6, EOS], [8, EOS, PAD]])
    means = torch.stack([score(model, source, target).exp() for model in models]).mean(0).log()
    assert torch.allclose(score(Ensemble(models), source, target), means, atol=1e-5)
    found = Beam(size=3, limits=Limits(ratio=0.0, extra=8))(Ensemble(models), source)
    forced = score_texts(Ensemble(models), source, [one[0].ids for one in found])
    assert [one[0].total for one in found] == pytest.approx([one.total for one in forced], abs=1e-4)


def test_ensembles_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError):
        Ensemble([])
    with pytest.raises(UsageError, match="12, 13"):
        Greedy()(Ensemble([tiny_model(12), tiny_model(13)]), sources(3))


TEXTS = st.text(alphabet="ab cé", max_size=12)


@given(candidates=st.lists(TEXTS, min_size=1, max_size=4), references=st.lists(TEXTS, min_size=1, max_size=4))
def test_chrf_of_all_pairs_is_sacrebleus(candidates: list[str], references: list[str]) -> None:
    table, metric = chrf(candidates, references), CHRF()
    for (i, said), (j, meant) in itertools.product(enumerate(candidates), enumerate(references)):
        assert table[i, j] == pytest.approx(metric.sentence_score(said, [meant]).score, abs=1e-9)


def test_least_risk_agrees_with_brute_force() -> None:
    texts = {4: "a dog runs", 5: "a dog is running", 6: "the cat", 7: "a dog runs."}
    found = [Hypothesis([i], -i, -i, [], True) for i in (6, 4, 5, 7, 4)]
    samples = [Hypothesis([i], -i, -i, [], True) for i in (5, 7, 7, 6)]

    def text(ids: list[int]) -> str:
        return texts[ids[0]]

    for support in ((), samples):
        metric, meant = CHRF(), [text(one.ids) for one in support or found]
        risk = {i: sum(metric.sentence_score(said, [m]).score for m in meant) / len(meant) for i, said in texts.items()}
        ranked = rerank_by_risk(found, text, support)
        assert [one.ids[0] for one in ranked] == sorted(risk, key=lambda i: -risk[i])
        assert ranked[0].score == pytest.approx(max(risk.values()))


def test_coverage_prefers_what_has_read_everything() -> None:
    whole, partial = torch.eye(3), torch.tensor([[1.0, 0, 0], [1.0, 0, 0], [0, 0.5, 0.5]])
    assert coverage_penalty(whole, 0.5) == 0
    assert coverage_penalty(partial, 0.5) == pytest.approx(0.5 * 2 * math.log(0.5))
    better, worse = Hypothesis([5], -1.2, -2, [], True), Hypothesis([6], -1.0, -2, [], True)
    assert rerank_by_coverage([worse, better], [partial, whole], beta=0.5)[0].ids == [5]
    assert rerank_by_coverage([worse, better], [partial, whole], beta=0.1)[0].ids == [6]


def test_a_record_tells_how_the_outputs_came_about() -> None:
    model, source, record = tiny_model(end=1.0), sources(3, 6, 4), Record()
    beam = Beam(size=3, n_best=3)
    found = beam(model, source, on_step=record)
    assert found == beam(model, source)
    for place, outputs in enumerate(found):
        alive, finished = [((), 0.0)], {}
        for length, step in enumerate(record.steps[place], start=1):
            for choice in step:
                ids, total = alive[choice["parent"]]
                assert choice["total"] == pytest.approx(total + choice["score"], abs=1e-4)
                assert choice["normalised"] == pytest.approx(choice["total"] * length_weight(length, 0.6), abs=1e-4)
                if choice["fate"] == "finished":
                    finished[ids] = choice["normalised"]
            kept = [choice for choice in step if choice["fate"] == "kept"]
            assert [choice["row"] for choice in kept] == list(range(len(kept)))
            alive = [((*alive[c["parent"]][0], c["piece"]), c["total"]) for c in kept]
        for one in outputs:
            assert not one.finished or finished[tuple(one.ids)] == pytest.approx(one.score, abs=1e-5)
