"""How a model knows the order of tokens. A new scheme is one file here and one word in the union."""

from headway.parts.positions.alibi import Alibi
from headway.parts.positions.base import Positions
from headway.parts.positions.bucketed import Bucketed
from headway.parts.positions.learned import Learned
from headway.parts.positions.none import NoPositions
from headway.parts.positions.rotary import Rotary
from headway.parts.positions.sinusoidal import Sinusoidal
from headway.parts.positions.tener import Tener
from headway.parts.positions.transformer_xl import TransformerXL

Position = NoPositions | Sinusoidal | Learned | Rotary | Alibi | Bucketed | TransformerXL | Tener

__all__ = [
    "Alibi",
    "Bucketed",
    "Learned",
    "NoPositions",
    "Position",
    "Positions",
    "Rotary",
    "Sinusoidal",
    "Tener",
    "TransformerXL",
]
