"""Libraries that chat must not speak into the user's terminal."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, no logs below errors, no progress bars of libraries that are told to write or read a model."""
    loggers = [logging.getLogger(name) for name in ("transformers", "torch", "torch.onnx", "torch.fx", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    bars = sys.modules.get("transformers.utils.logging")
    shown = bars is not None and bars.is_progress_bar_enabled()
    if bars is not None:
        bars.disable_progress_bar()
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars is not None and shown:
            bars.enable_progress_bar()
