"""The files of a Hugging Face model folder, believed only as far as they can be checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.errors import UsageError
from headway.exchange.pickles import load_pickle
from headway.storage import tensors as tensor_files
from headway.text.files import parse_json

SMALL, LARGE = 1 << 20, 64 << 20  # bytes that a configuration and a vocabulary may have
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")


@dataclass(frozen=True)
class Foreign:
    """A folder in Hugging Face's layout."""

    path: Path
    config: dict[str, Any]
    state: dict[str, Tensor]

    def table(self, name: str, limit: int = LARGE) -> dict[str, Any]:
        return read_table(self.path / name, limit)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    @property
    def licence(self) -> str:
        """What the folder's card says, as far as a glance tells."""
        card = self.path / "README.md"
        head = card.read_bytes()[:4096].decode("utf-8", errors="replace") if card.is_file() else ""
        found = re.search(r"^license:\s*([A-Za-z0-9.+-]{1,40})\s*$", head, re.MULTILINE) if head[:3] == "---" else None
        return found[1] if found else "unknown"


def read_foreign(folder: Path) -> Foreign:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give one with config.json and model.safetensors")
    return Foreign(folder, read_table(folder / "config.json", SMALL), read_weights(folder))


def read_table(path: Path, limit: int) -> dict[str, Any]:
    """A JSON object of bounded size."""
    if not path.is_file():
        raise UsageError(f"{path.parent} has no {path.name}; a model in Hugging Face's layout is needed")
    if path.stat().st_size > limit:
        raise UsageError(f"{path} has {path.stat().st_size:,} bytes, at most {limit:,} are allowed")
    try:
        table = parse_json(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"{path} is not a JSON object")
    return table


def read_weights(folder: Path) -> dict[str, Tensor]:
    """One safetensors file or several; else a pickle, which is opened elsewhere."""
    whole, index, pickle = (folder / name for name in WEIGHTS)
    if whole.is_file():
        state = tensor_files.load(whole)
    elif index.is_file():
        state = {name: x for shard in shards(index) for name, x in tensor_files.load(shard).items()}
    elif pickle.is_file():
        state = load_pickle(pickle)
    else:
        raise UsageError(f"{folder} has none of {', '.join(WEIGHTS)}")
    odd = next((name for name, tensor in state.items() if not tensor.is_floating_point()), None)
    if odd is not None and not odd.endswith((".attn.bias", ".masked_bias", "position_ids")):
        raise UsageError(f"{folder}: {odd!r:.80} holds {state[odd].dtype}; quantized weights cannot be imported")
    return {name: tensor.float() for name, tensor in state.items() if tensor.is_floating_point()}


def shards(index: Path) -> list[Path]:
    table = read_table(index, LARGE).get("weight_map")
    names = sorted({str(name) for name in table.values()}) if isinstance(table, dict) else []
    if not names or not all(SHARD.fullmatch(name) and (index.parent / name).is_file() for name in names):
        raise UsageError(f"{index} names files that are not there, or that are not shards of a model")
    return [index.parent / name for name in names]
