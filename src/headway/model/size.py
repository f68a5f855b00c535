"""The sizes every part needs, computed once and handed down; and the range a number may have."""

from __future__ import annotations

from dataclasses import dataclass


def check_range(name: str, value: int | float, least: int | float, most: int | float) -> None:
    """Refuse a number from the configuration, saying what is allowed. NaN is outside every range."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; it must be from {least} to {most}")


def check_share(name: str, value: int | float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 0 and less than 1")


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
