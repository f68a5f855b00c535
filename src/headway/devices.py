"""Devices, bf16 support and cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

from headway.errors import UsageError

DEVICES = ("auto", "cpu", "cuda", "mps")
ALONE = RLock()  # torch's number of threads is global to the process


def choose_device(name: str = "auto", local_rank: int = 0) -> torch.device:
    """Return the device with this name, or the fastest one for `auto`; UsageError if it is missing."""
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind = name.split(":", 1)[0]
    if kind == "auto":
        kind = next(found for found in ("cuda", "mps", "cpu") if there[found])
        return torch.device(kind, local_rank) if kind == "cuda" else torch.device(kind)
    if kind not in there:
        raise UsageError(f"--device {name}: choose one of {', '.join(DEVICES)}")
    if not there[kind]:
        raise UsageError(f"--device {name}: PyTorch finds no such device on this machine; omit the option")
    try:
        return torch.device(name) if ":" in name or kind != "cuda" else torch.device(kind, local_rank)
    except RuntimeError:
        raise UsageError(f"--device {name}: write it as cuda or cuda:1") from None


def make_current(device: torch.device) -> None:
    """Make a CUDA device the current one, on which streams and graphs are created whatever the tensors' device."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def half_is_fast(device: torch.device) -> bool:
    """Return whether the hardware of a device multiplies bf16 matrices natively."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and bool(torch.backends.mkldnn.is_available() and _cpu_has_bf16())


def _cpu_has_bf16() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="ignore") as info:
            flags = next((line for line in info if line.startswith("flags")), "")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(device: torch.device) -> str:
    """Return a device's name for users, such as "4 CPU cores"."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}"
    return f"{cores()} CPU cores" if device.type == "cpu" else "Apple GPU"


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread in a block of many small operations, where threads would mostly wait for one another."""
    with ALONE:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
