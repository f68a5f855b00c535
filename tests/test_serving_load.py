"""A server under load, on a quiet machine with two cores: the rows that docs/reliability.md tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.serving import KILLS, Scale, material, measure

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("HEADWAY_LOAD_SECONDS", "60"))
REQUESTS = int(os.environ.get("HEADWAY_LOAD_REQUESTS", "5000"))


@pytest.fixture(scope="module")
def prepared() -> Iterator[tuple[Path, Scale]]:
    """The model in HEADWAY_MODEL with the sentences in HEADWAY_TEXT, or one of random weights."""
    with material(os.environ.get("HEADWAY_MODEL", ""), os.environ.get("HEADWAY_TEXT", "")) as (folder, texts):
        yield folder, Scale(texts, SECONDS, REQUESTS)


def found(row: str, prepared: tuple[Path, Scale]) -> dict[str, Any]:
    result = measure(row, *prepared)
    print(row, result)
    return result


def test_steady_load_is_answered_quickly(prepared: tuple[Path, Scale]) -> None:
    row = found("L1", prepared)
    assert row["statuses"].keys() == {200}
    assert row["sentences/s"] >= 20 and row["p50"] <= 0.6 and row["p95"] <= 1.5 and row["p99"] <= 3


def test_too_much_is_refused_and_the_rest_answered(prepared: tuple[Path, Scale]) -> None:
    row = found("L2", prepared)
    assert row["statuses"].keys() <= {200, 429} and row["longest"] <= 10
    assert row["share of L1's rate"] >= 0.8
    assert row["p95 5 s after"] <= 1.5 * row["p95 before"]


def test_too_much_on_new_connections_is_refused_and_the_rest_answered(prepared: tuple[Path, Scale]) -> None:
    row = found("L5", prepared)
    assert row["statuses"].keys() <= {200, 429} and row["longest"] <= 6
    assert row["share of L1's rate"] >= 0.8


def test_idle_and_slow_connections_do_not_disturb(prepared: tuple[Path, Scale]) -> None:
    row = found("L3", prepared)
    assert row["statuses"].keys() == {200} and row["p95"] <= 2 * row["p95 alone"]


def test_nothing_grows(prepared: tuple[Path, Scale]) -> None:
    row = found("L4", prepared)
    growth, doubt = map(float, row["MB per 1,000 requests"].split(" ± "))
    assert row["growth MB"] <= 20 and growth - doubt <= 0
    for what in ("threads", "files"):
        first, last = row[what].split(" to ")
        assert int(last) <= int(first)


def test_it_is_ready_soon_and_modest(prepared: tuple[Path, Scale]) -> None:
    row = found("L6", prepared)
    assert row["seconds to ready"] <= 6 and row["MB"] <= 700


def test_killed_processes_cost_nobody_an_answer(prepared: tuple[Path, Scale]) -> None:
    row = found("F7", prepared)
    assert row["statuses"].keys() == {200} and row["kills"] == KILLS
    assert row["longest without an answer"] <= 3
