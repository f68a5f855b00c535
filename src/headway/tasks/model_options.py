"""Which models decode, and on what: one declaration for all commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headway.options import option


@dataclass(frozen=True)
class DeviceOptions:
    """What a model runs on."""

    panel: ClassVar[str] = "Device"

    device: str = option("auto", "Device: auto, cpu, cuda or mps.")
    engine: str = option("auto", "Inference engine: auto, native, ctranslate2, torch or cuda.")
    precision: str = option("auto", "Precision: auto, fp32, bf16 or int8.")


@dataclass(frozen=True)
class ModelOptions(DeviceOptions):
    """Which models decode together, and what they run on."""

    beside: tuple[Path, ...] = option(
        (), "Another model for an ensemble, of the same vocabulary and task. Repeatable.", flags=("--with",)
    )
