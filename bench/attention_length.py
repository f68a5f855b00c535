"""Time and memory of attention kernels from 1,024 to 32,768 tokens: linear and Linformer against the quadratic one.

python -m bench.attention_length [--longest 32768] [--device cpu] [--out docs/pictures/attention_length.png]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from headway.model.kernels import Fused, Linear, Linformer, Softmax
from headway.model.mask import Mask
from headway.model.size import Size
from headway.model.states import NOTHING

KERNELS = {"softmax": Softmax(), "fused": Fused(), "linear": Linear(), "linformer": Linformer(rank=64)}
HEADS, WIDTH = 4, 64


def once(name: str, length: int, device: str) -> tuple[float, float]:
    """Seconds of a forward and backward pass, and the memory it added in MiB."""
    size = Size(HEADS * WIDTH, HEADS, HEADS, WIDTH, longest=length)
    kernel = KERNELS[name].build(size, 0.0).to(device)
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, device=device, requires_grad=True) for _ in range(3))
    pos = torch.arange(length, device=device)[None]
    mask = Mask(causal=name == "linear").at(pos, pos)
    before = peak(device)
    begun = time.perf_counter()
    kernel(q, k, v, mask, None, NOTHING).sum().backward()
    settle(device)
    first = time.perf_counter() - begun
    if first > 20:
        return first, peak(device) - before
    begun = time.perf_counter()
    kernel(q, k, v, mask, None, NOTHING).sum().backward()
    settle(device)
    return time.perf_counter() - begun, peak(device) - before


def settle(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(name: str, length: int, device: str) -> tuple[float, float] | None:
    """In a process of its own, as peak memory never falls."""
    code = f"from bench.attention_length import once; print(*once({name!r}, {length}, {device!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return tuple(map(float, done.stdout.split())) if done.returncode == 0 else None  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=int, default=32_768)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/attention_length.png"))
    given = parser.parse_args()
    lengths = [n for n in (1024, 2048, 4096, 8192, 16_384, 32_768) if n <= given.longest]
    rows: dict[str, list[tuple[int, float, float]]] = {}
    print("| tokens | kernel | µs a token | KiB a token |\n|---|---|---|---|")
    for name in KERNELS:
        for length in lengths:
            if name == "softmax" and length > 8192:
                continue  # the written-out matrix would need tens of GiB
            found = measure(name, length, given.device)
            if found is not None:
                seconds, mebibytes = found
                rows.setdefault(name, []).append((length, seconds * 1e6 / length, mebibytes * 1024 / length))
                print(f"| {length} | {name} | {rows[name][-1][1]:.1f} | {rows[name][-1][2]:.1f} |", flush=True)
    draw(rows, given.out)


def draw(rows: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, points in rows.items():
        for axis, column in zip(axes, (1, 2), strict=True):
            axis.plot([p[0] for p in points], [p[column] for p in points], marker="o", label=name)
    for axis, title in zip(axes, ("time, µs a token", "memory, KiB a token"), strict=True):
        axis.set(title=title, xlabel="tokens", xscale="log", yscale="log")
        axis.set_xticks([1024, 4096, 32_768], ["1k", "4k", "32k"])
        axis.grid(alpha=0.3)
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
