"""Work that was recorded once and is done again on the same tensors."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Graph(Protocol):
    """A `torch.cuda.CUDAGraph`, or what stands for one where there is no GPU."""

    def replay(self) -> None: ...
