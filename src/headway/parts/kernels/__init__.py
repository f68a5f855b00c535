"""How values are mixed. A new kernel is one file here and one word in the union."""

from headway.parts.kernels.base import Kernel
from headway.parts.kernels.fused import Fused
from headway.parts.kernels.linear import Linear
from headway.parts.kernels.linformer import Linformer
from headway.parts.kernels.softmax import Softmax

Mixing = Fused | Softmax | Linear | Linformer

__all__ = ["Fused", "Kernel", "Linear", "Linformer", "Mixing", "Softmax"]
