"""Headway: the Transformer of "Attention is all you need", whole."""

from __future__ import annotations
