"""The sizes every part needs, computed once and handed down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """No dimension is written twice: parts read it here."""

    width: int
    heads: int
    key_heads: int
    head_width: int
    encoder_layers: int = 0
    decoder_layers: int = 0
    longest: int = 1024

    def __post_init__(self) -> None:
        for name in ("width", "heads", "key_heads", "head_width", "longest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.heads % self.key_heads:
            raise ValueError(f"heads is {self.heads}; it must be a multiple of key_heads = {self.key_heads}")
