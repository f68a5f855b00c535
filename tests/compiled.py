"""The compiled kernel in tests: what is skipped without a compiler, and what must fail with one."""

from __future__ import annotations

import pytest

from headway.engines import Unavailable
from headway.engines.native import build


def require_kernel() -> None:
    """Skip the test where this machine cannot compile the kernel. Fail it where a compiler is found and does not."""
    try:
        build.find_compiler()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        build.library()
    except Unavailable as reason:
        pytest.fail(f"a compiler was found, but there is no kernel: {reason}")
