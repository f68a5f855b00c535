"""What every test shares: one thread each, since tests run side by side, and the same random numbers every time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("headway", deadline=None, derandomize=True)
settings.load_profile("headway")


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def one_thread_again() -> None:
    """A server in this process takes all cores for its models; what is tested after it must not."""
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a text take turns however short they are."""
    monkeypatch.setattr("headway.data.segments.LEAST", 1)
