"""A plan before the work: sizes chosen from the corpus and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from headway.config import merge

__all__ = ["merge", "model_for", "optimiser_for", "propose", "propose_encoder", "shapes_for"]


@dataclass(frozen=True)
class Tier:
    """Sizes that go together for a corpus of about this many pairs."""

    pairs: int  # up to so many
    width: int
    heads: int
    inner: int
    layers: tuple[int, int]
    dropout: float
    rate: float
    warmup: int
    tokens: int  # of a batch
    r_drop: float = 0.0
    muon: float | None = None  # the rate with Muon; unset: Adam


# Small corpora want small models, much dropout and small batches. The second and third rows of the GPU were tried out
# on Multi30k and Tatoeba, the first two of the CPU likewise (docs/results.md): Muon is level with Adam in the third row
# of the GPU, and ahead in the others. What was not tried follows its neighbours, and the papers.
CPU_TIERS = (
    Tier(8_000, 128, 4, 512, (2, 2), 0.2, 2e-3, 200, 1024, muon=4e-3),
    Tier(60_000, 256, 4, 1024, (3, 3), 0.2, 1.5e-3, 400, 4096, muon=4e-3),
    Tier(10**12, 256, 4, 1024, (3, 3), 0.1, 1.5e-3, 800, 4096, muon=4e-3),
)
GPU_TIERS = (
    Tier(8_000, 128, 4, 512, (3, 3), 0.3, 2e-3, 300, 4096, muon=4e-3),
    Tier(60_000, 256, 4, 512, (4, 4), 0.3, 2e-3, 800, 8192, r_drop=5.0, muon=4e-3),
    Tier(300_000, 512, 8, 1024, (6, 6), 0.3, 1.5e-3, 1500, 20_480, r_drop=5.0),
    Tier(1_000_000, 512, 8, 1024, (6, 6), 0.2, 1.5e-3, 1500, 20_480),
    Tier(10_000_000, 512, 8, 2048, (6, 6), 0.1, 1e-3, 4000, 40_960),
    Tier(10**12, 1024, 16, 4096, (6, 6), 0.1, 7e-4, 4000, 40_960),
)
LETTERS = 2e-3  # the rate with Muon of spelling and inflection, which fare worse with 4e-3 (docs/results.md)
EPOCHS = 30
RISING, RISING_ON_GPU = 0.25, 0.4  # of a run, at most: as it was tried out (docs/results.md)
GAIN = 0.3  # post-norm models that begin with small sublayers find the source many epochs earlier (docs/results.md)


def propose(given: dict[str, Any], pairs: int, device: torch.device) -> dict[str, Any]:
    """Fill in what the user left open. What was given always wins."""
    tier = next(t for t in (CPU_TIERS if device.type == "cpu" else GPU_TIERS) if pairs <= t.pairs)
    asked, text = given.get("training", {}), given.get("text", {}).get("kind", "subword")
    muon = LETTERS if tier.muon and text != "subword" else tier.muon
    training: dict[str, Any] = {
        **optimiser_for(tier.rate, muon, asked),
        "schedule": schedule_for(tier.warmup, device, asked),
        "batch": {"tokens": tier.tokens, "shapes": shapes_for(device)},
        "r_drop": tier.r_drop,
    }
    if not {"steps", "epochs", "minutes"} & asked.keys():
        training["epochs"] = EPOCHS
    model = model_for(tier)
    if given.get("text", {}).get("joint") is False or "target_text" in given:
        model["tie_embeddings"] = "output"  # two vocabularies cannot share one matrix
    return merge({"training": training, "model": model}, given)


def optimiser_for(rate: float, muon: float | None, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A rate that goes with the optimiser: the one that was asked for, or Muon. Who gives but a number means Adam's."""
    usual = "adam" if asked.get("fsdp") or {"learning_rate", "optimiser"} & asked.keys() else "muon"
    kind = asked.get("optimiser", {}).get("kind", usual)
    if kind != "muon" or muon is None:
        return {"learning_rate": rate}
    return {"learning_rate": muon, "optimiser": {"kind": "muon"}}


def schedule_for(warmup: int, device: torch.device, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A rise that leaves most of a short run for what comes after it, unless its length was given."""
    share = RISING if device.type == "cpu" else RISING_ON_GPU
    limit = {} if "warmup" in asked.get("schedule", {}) else {"max_warmup_share": share}
    return {"kind": "inverse_root", "warmup": warmup, **limit}


def shapes_for(device: torch.device) -> str:
    """Few shapes where steps are recorded as graphs."""
    return "bounded" if device.type == "cuda" else "exact"


def model_for(tier: Tier) -> dict[str, Any]:
    return {
        "kind": "encoder_decoder",
        "width": tier.width,
        "heads": tier.heads,
        "feed_forward": {"kind": "relu", "width": tier.inner},
        "encoder_layers": tier.layers[0],
        "decoder_layers": tier.layers[1],
        "dropout": tier.dropout,
        "initial_gain": GAIN,
    }


# ---------------------------------------------------------------- short runs


@dataclass(frozen=True)
class Rung:
    """Sizes for a run of few steps on a processor."""

    enough: int  # steps from which these sizes are better than the next smaller ones
    width: int
    inner: int
    layers: int
    tokens: int  # of a batch
    faster: float = 1.0  # by how much the rate is multiplied


# Tried out on Multi30k, English to German, and Tatoeba: BLEU after 50 to 6,400 steps of every row (docs/training.md).
FULL_STEPS = 2000  # from so many steps on the sizes that the corpus wants are best
RUNGS = (
    Rung(1200, 256, 1024, 3, 2048),
    Rung(600, 128, 512, 2, 1024),
    Rung(200, 128, 512, 2, 1024, faster=2.0),
    Rung(0, 128, 512, 2, 512, faster=2.0),
)
LITTLE_DROPOUT = 0.1  # short runs see every pair a few times: there is little to learn by heart


def smaller_runs(
    given: Mapping[str, Any], proposed: dict[str, Any], device: torch.device
) -> list[tuple[dict[str, Any], int]]:
    """The proposed table and smaller ones for a short budget, each with the steps that make it worth its size.

    What was given always wins. Only translators on a processor with a budget of minutes have smaller ones.
    """
    model, training = proposed.get("model", {}), proposed.get("training", {})
    ladder = model.get("kind") == "encoder_decoder" and device.type == "cpu" and "minutes" in training
    if not ladder:
        return [(proposed, 0)]
    tables = [(proposed, FULL_STEPS)]
    for rung in RUNGS:
        if rung.width > model["width"] or rung.tokens > training["batch"]["tokens"]:
            continue
        table = merge(merge(proposed, table_of(rung, model, training)), dict(given))
        if table != tables[-1][0]:
            tables.append((table, rung.enough))
    return tables


def table_of(rung: Rung, model: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, Any]:
    muon = training.get("optimiser", {}).get("kind") == "muon"
    return {
        "model": {
            "width": rung.width,
            "heads": 4,
            "feed_forward": {"width": rung.inner},
            "encoder_layers": rung.layers,
            "decoder_layers": rung.layers,
            "dropout": min(LITTLE_DROPOUT, model["dropout"]) if model["width"] > 128 else model["dropout"],
        },
        "training": {
            "batch": {"tokens": rung.tokens},
            **({"learning_rate": training["learning_rate"] * rung.faster} if muon else {}),
        },
    }


# ---------------------------------------------------------------- models that only read


@dataclass(frozen=True)
class Reader:
    """Sizes that go together for so many labelled examples."""

    examples: int  # up to so many
    width: int
    heads: int
    inner: int
    layers: int
    dropout: float
    rate: float
    tokens: int  # of a batch


READERS = (
    Reader(20_000, 128, 4, 256, 2, 0.3, 1e-3, 1024),
    Reader(100_000, 192, 6, 384, 3, 0.3, 1e-3, 2048),
    Reader(10**12, 256, 8, 1024, 4, 0.2, 1e-3, 4096),
)


def propose_encoder(
    given: dict[str, Any], examples: int, device: torch.device, of_task: dict[str, Any]
) -> dict[str, Any]:
    """Fill in what the user left open; `of_task` stands above the sizes and below what was given."""
    reader, asked = next(one for one in READERS if examples <= one.examples), given.get("training", {})
    training: dict[str, Any] = {
        "learning_rate": reader.rate,
        "schedule": schedule_for(200, device, asked),
        "batch": {"tokens": reader.tokens * (1 if device.type == "cpu" else 2), "shapes": shapes_for(device)},
    }
    if not {"steps", "epochs", "minutes"} & asked.keys():
        training["epochs"] = EPOCHS
    model = {
        "kind": "encoder",
        "width": reader.width,
        "heads": reader.heads,
        "feed_forward": {"kind": "relu", "width": reader.inner},
        "layers": reader.layers,
        "dropout": reader.dropout,
        "scale_embedding": False,  # small vectors leave attention soft, and what stands beside a word is learned sooner
    }
    return merge(merge({"training": training, "model": model}, of_task), given)
