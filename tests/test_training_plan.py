"""A plan fills in what was left open, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway import config
from headway.model.design import EncoderDecoderDesign
from headway.runs.resume import flat, nested
from headway.tasks.language_model.task import proposal
from headway.tasks.run import Run
from headway.training.optimiser import Adam, AdamW, Muon
from headway.training.plan import CPU_TIERS, GPU_TIERS, RISING, RISING_ON_GPU, merge, propose, propose_encoder
from headway.training.schedules import InverseRoot, with_warmup

DEVICES = [torch.device("cpu"), torch.device("cuda", 0), torch.device("mps")]
FILES = {"data": {"source": "a", "target": "b"}}


def plan(pairs: int, device: torch.device, **asked: Any) -> Run:
    return config.from_dict(Run, propose({**FILES, **asked}, pairs, device))


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("pairs", [1, 5_000, 30_000, 200_000, 4_000_000, 10**9])
def test_every_corpus_gets_a_plan_that_can_be_built(device: torch.device, pairs: int) -> None:
    run = plan(pairs, device)
    assert isinstance(run.model, EncoderDecoderDesign)
    assert run.training.epochs is not None and run.training.steps is None and run.training.minutes is None
    assert run.training.batch.tokens >= 512
    with torch.device("meta"):
        run.model.build(1000)


@pytest.mark.parametrize("tiers", [CPU_TIERS, GPU_TIERS])
def test_more_text_never_gets_a_smaller_model(tiers: tuple[Any, ...]) -> None:
    sizes = [tier.width * tier.width * sum(tier.layers) for tier in tiers]
    assert sizes == sorted(sizes)
    assert [tier.pairs for tier in tiers] == sorted(tier.pairs for tier in tiers)
    assert tiers[-1].pairs >= 10**12  # no corpus is too large


@pytest.mark.parametrize("budget", [{"steps": 7}, {"epochs": 2.5}, {"minutes": 3.0}])
def test_what_was_given_wins(budget: dict[str, Any]) -> None:
    asked = {
        "training": {**budget, "learning_rate": 0.5, "batch": {"tokens": 999}, "schedule": {"kind": "noam"}},
        "model": {"kind": "encoder_decoder", "width": 64, "heads": 2},
        "seed": 11,
    }
    run = plan(10_000, torch.device("cpu"), **asked)
    held = flat(config.to_dict(run))
    assert {key: held[key] for key in flat(asked)} == flat(asked)
    others = {"steps", "epochs", "minutes"} - budget.keys()
    assert all(getattr(run.training, name) is None for name in others)


def test_the_rate_goes_with_the_optimiser() -> None:
    tier, cpu = CPU_TIERS[1], DEVICES[0]
    plain, given, sharded = (
        plan(30_000, cpu, training=training).training
        for training in ({}, {"optimiser": {"kind": "adamw", "weight_decay": 0.2}}, {"fsdp": True})
    )
    assert (plain.optimiser, plain.learning_rate) == (Muon(), tier.muon)
    assert (given.optimiser, given.learning_rate) == (AdamW(weight_decay=0.2), tier.rate)
    assert (sharded.optimiser, sharded.learning_rate) == (Adam(), tier.rate)
    assert plan(30_000, cpu, training={"learning_rate": 1e-4}).training.optimiser == Adam()
    asked = plan(30_000, cpu, training={"optimiser": {"kind": "muon", "momentum": 0.9}}).training
    assert (asked.optimiser, asked.learning_rate) == (Muon(momentum=0.9), tier.muon)
    numbers = plan(30_000, cpu, training={"optimiser": {"betas": (0.9, 0.99)}}).training
    assert (numbers.optimiser, numbers.learning_rate) == (Adam(betas=(0.9, 0.99)), tier.rate)


@pytest.mark.parametrize("device", DEVICES[1:], ids=str)
def test_so_it_does_on_a_gpu(device: torch.device) -> None:
    planned = [plan(tier.pairs, device).training for tier in GPU_TIERS]
    kinds = [(one.optimiser, one.learning_rate) for one in planned]
    assert kinds == [(Muon(), 4e-3), (Muon(), 4e-3), *((Adam(), tier.rate) for tier in GPU_TIERS[2:])]


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_letters_have_half_of_muons_rate(kind: str) -> None:
    few, many = (plan(pairs, DEVICES[1], text={"kind": kind}).training for pairs in (10_000, 200_000))
    assert (few.learning_rate, many.learning_rate) == (2e-3, GPU_TIERS[2].rate)


def test_a_short_run_is_not_all_warm_up_unless_asked() -> None:
    planned, tier = plan(30_000, DEVICES[0]).training.schedule, CPU_TIERS[1]
    assert planned == InverseRoot(warmup=tier.warmup, max_warmup_share=RISING)
    assert with_warmup(planned, 200) == InverseRoot(warmup=50)
    asked = plan(30_000, DEVICES[0], training={"schedule": {"warmup": 150}}).training.schedule
    assert with_warmup(asked, 200) == asked == InverseRoot(warmup=150)
    assert plan(30_000, DEVICES[1]).training.schedule == InverseRoot(
        warmup=GPU_TIERS[1].warmup, max_warmup_share=RISING_ON_GPU
    )
    assert propose_encoder({}, 1000, DEVICES[0], {})["training"]["schedule"]["max_warmup_share"] == RISING


@pytest.mark.parametrize(
    ("device", "size", "training", "kind", "rate"),
    [
        ("cpu", 10_000, {}, "muon", 4e-3),
        ("cuda", 10_000, {}, "muon", 2e-3),
        ("cuda", 30_000_000, {}, "adamw", 1e-3),
        ("cpu", 10_000, {"learning_rate": 1e-4}, "adamw", 1e-3),
        ("cpu", 10_000, {"optimiser": {"kind": "adam"}}, "adamw", 1e-3),
        ("cpu", 10_000, {"optimiser": {"weight_decay": 0.2}}, "adamw", 1e-3),
        ("cuda", 10_000, {"fsdp": True}, "adamw", 1e-3),
    ],
)
def test_so_it_does_for_language_models(
    device: str, size: int, training: dict[str, Any], kind: str, rate: float
) -> None:
    proposed = proposal(size, torch.device(device), {"training": training})["training"]
    assert (proposed["optimiser"]["kind"], proposed["learning_rate"]) == (kind, rate)


def test_two_vocabularies_do_not_share_a_matrix_unless_asked() -> None:
    apart = {"text": {"kind": "subword", "joint": False}}
    both = {"target_text": {"kind": "characters"}}
    assert [plan(100, DEVICES[0], **asked).model.tie_embeddings for asked in ({}, apart, both)] == [
        "all",
        "output",
        "output",
    ]
    asked = {"model": {"kind": "encoder_decoder", "tie_embeddings": "none"}}
    assert plan(100, DEVICES[0], **apart, **asked).model.tie_embeddings == "none"


def test_a_part_of_another_kind_replaces_the_proposed_one_whole() -> None:
    joined = merge({"schedule": {"kind": "noam", "warmup": 9}, "x": 1}, {"schedule": {"kind": "cosine"}})
    assert joined == {"schedule": {"kind": "cosine"}, "x": 1}
    assert merge({"a": {"kind": "k", "b": 1}}, {"a": {"c": 2}}) == {"a": {"kind": "k", "b": 1, "c": 2}}


names = st.text("abc", min_size=1, max_size=2)
tables = st.recursive(st.integers(), lambda inner: st.dictionaries(names, inner, min_size=1, max_size=3), max_leaves=8)


@given(st.dictionaries(names, tables, max_size=3), st.dictionaries(names, tables, max_size=3))
def test_merging_keeps_the_upper_and_adds_the_lower(under: dict[str, Any], over: dict[str, Any]) -> None:
    joined = flat(merge(under, over))
    assert {key: joined[key] for key in flat(over)} == flat(over)
    assert joined.keys() <= flat(under).keys() | flat(over).keys()
    assert merge(under, {}) == under and merge({}, over) == over
    assert nested(flat(over)) == over
