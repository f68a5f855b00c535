"""Encode tensors for JSON as base64 text, with one byte for each number."""

from __future__ import annotations

import base64
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


def encoded(table: UInt8[Tensor, "*shape"]) -> str:
    """Return the bytes of a tensor as base64 text."""
    return base64.b64encode(table.contiguous().cpu().numpy().tobytes()).decode()


def shares(weights: Float[Tensor, "*shape"]) -> UInt8[Tensor, "*shape"]:
    """Return numbers from 0 to 1 as bytes, in steps of 1/255."""
    return (weights * 255).round().clamp(0, 255).to(torch.uint8)


def pack(weights: Float[Tensor, "*shape"]) -> dict[str, Any]:
    """Encode weights from 0 to 1: shape, and base64 text of bytes that are the weights times 255, row by row."""
    return {"shape": list(weights.shape), "data": encoded(shares(weights))}


def pack_scaled(values: Float[Tensor, "r c"]) -> dict[str, Any]:
    """Encode a matrix as bytes from its lowest to its highest finite number; minus infinity becomes the lowest."""
    finite = values[values.isfinite()]
    lo, hi = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
    steps = shares((values.clamp(lo, hi) - lo) / ((hi - lo) or 1.0))
    return {"shape": list(values.shape), "lo": lo, "hi": hi, "data": encoded(steps)}


def unpack(table: dict[str, Any]) -> Float[Tensor, "*shape"]:
    """Decode the result of `pack`; the weights are exact to 1/510."""
    data = bytearray(base64.b64decode(table["data"]))
    return torch.frombuffer(data, dtype=torch.uint8).view(table["shape"]).float() / 255
