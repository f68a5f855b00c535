"""make bench: every benchmark this machine can run, one by one; their tables belong into docs/benchmarks.md."""

from __future__ import annotations

import subprocess
import sys

import torch

ON_ANY_MACHINE = (
    "bench.training_cpu",
    "bench.decoding_cpu",
    "bench.attention_length",
    "bench.serving",
    "bench.evaluation_memory",
)
ON_CUDA = ("bench.training_step", "bench.loss_step", "bench.language_model_step", "bench.decoding_gpu")


def main() -> None:
    """Each in a process of its own, so that none is disturbed by what another left behind."""
    chosen = (*ON_CUDA, *ON_ANY_MACHINE) if torch.cuda.is_available() else ON_ANY_MACHINE
    for name in chosen:
        print(f"\n## python -m {name}\n", flush=True)
        subprocess.run([sys.executable, "-m", name], check=False)
    if not torch.cuda.is_available():
        print(f"\nleft out, no CUDA device here: {', '.join(ON_CUDA)}")


if __name__ == "__main__":
    main()
