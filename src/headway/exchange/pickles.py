"""Weights out of a foreign pickle. It is opened in another process, which may do nothing but hand over tensors."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor

from headway.errors import UsageError
from headway.storage import tensors as tensor_files
from headway.subprocesses import python, surroundings

OLDEST = (2, 10)  # earlier ones let a pickle in spite of weights_only (CVE-2025-32434, CVE-2026-24747)
SECONDS = 600.0
REFUSED = 3  # what the child exits with when the file is not a table of tensors

_CHILD = """
import sys, torch
from safetensors.torch import save_file

source, target = sys.argv[1:]
try:
    found = torch.load(source, map_location="cpu", weights_only=True)
except Exception as error:
    print(" ".join(str(error).split())[:160])
    sys.exit(3)
if not isinstance(found, dict) or not all(isinstance(n, str) and torch.is_tensor(t) for n, t in found.items()):
    print("it is not a table of tensors")
    sys.exit(3)
save_file({name: tensor.detach().to_dense().clone().contiguous() for name, tensor in found.items()}, target)
"""


def load_pickle(path: Path) -> dict[str, Tensor]:
    """The tensors of a `pytorch_model.bin`, without running anything that is in it."""
    release = tuple(int(number) for number in torch.__version__.split("+")[0].split(".")[:2])
    if release < OLDEST:
        raise UsageError(
            f"{path} is a pickle, and torch {torch.__version__} cannot open one safely; "
            f"install torch {'.'.join(map(str, OLDEST))} or newer, or get the model as model.safetensors"
        )
    with tempfile.TemporaryDirectory() as folder:
        handed_over = Path(folder) / "model.safetensors"
        command = python("-c", _CHILD, str(path.resolve()), str(handed_over.resolve()))
        try:
            child = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, **surroundings())
        except subprocess.TimeoutExpired:
            raise UsageError(f"{path}: opening it takes more than {SECONDS:g} s; it is damaged or hostile") from None
        if child.returncode != 0:
            said = child.stdout.decode(errors="replace").strip() if child.returncode == REFUSED else "it cannot be read"
            raise UsageError(f"{path} was refused: {said}; get the model as model.safetensors")
        return {name: tensor.clone() for name, tensor in tensor_files.load(handed_over).items()}
