"""How values are mixed. A new kernel is one file here and one word in the union."""

from headway.model.kernels.base import Kernel
from headway.model.kernels.fused import Fused
from headway.model.kernels.linear import Linear
from headway.model.kernels.linformer import Linformer
from headway.model.kernels.softmax import Softmax

Mixing = Fused | Softmax | Linear | Linformer

__all__ = ["Fused", "Kernel", "Linear", "Linformer", "Mixing", "Softmax"]
