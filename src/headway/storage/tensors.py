"""Read and write safetensors files: written as a stream without copies, memory-mapped after a check of the header.

The library's own writer needs all tensors in CPU memory at once, and its reader accepts headers that exhaust memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headway.errors import UsageError

HEADER_LIMIT = 4 << 20  # bytes, enough for about 30,000 tensors; a longer header could exhaust memory
DIMENSIONS_LIMIT = 16
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


def byte_count(tensors: Mapping[str, Tensor]) -> int:
    """Return the bytes of all tensors together."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def stream(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file. One tensor at a time is copied to the CPU, never the whole model."""
    # Widest types first keeps every tensor aligned; then by name, so that equal tensors give equal files.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {}, 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield _bytes(tensors[name])


def _bytes(tensor: Tensor) -> memoryview:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def load(path: Path) -> dict[str, Tensor]:
    """Return the memory-mapped tensors of an untrusted file; UsageError if it is damaged or hostile."""
    try:
        _check_header(path)
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is not a dict)
    except (SafetensorError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a valid safetensors file: {_line(error)}") from None


def _check_header(path: Path) -> None:
    """Raise ValueError for what the library accepts: very long headers, duplicate names, shapes of many dimensions."""
    with open(path, "rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if length > HEADER_LIMIT and start.startswith((b"PK\x03\x04", b"\x80")):
            raise ValueError(
                "it is a pickle (a PyTorch file with another name), and pickles can run code; save it as safetensors"
            )
        if len(start) < 8 or length > HEADER_LIMIT:
            raise ValueError(f"its header claims {length:,} bytes; at most {HEADER_LIMIT:,} are allowed")
        header = json.loads(file.read(length), object_pairs_hook=_without_twins)
    if not isinstance(header, dict):
        raise ValueError("its header is not a table of tensors")
    for name, entry in header.items():
        shape = entry.get("shape", []) if isinstance(entry, dict) else None
        if not isinstance(shape, list) or len(shape) > DIMENSIONS_LIMIT:
            raise ValueError(f"{name!r:.80} has no shape of at most {DIMENSIONS_LIMIT} dimensions")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("its header gives a name twice")
    return table


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
