"""How a model knows the order of tokens. A new scheme is one file here and one word in the union."""

from headway.model.positions.alibi import Alibi
from headway.model.positions.base import Positions
from headway.model.positions.bucketed import Bucketed
from headway.model.positions.learned import Learned
from headway.model.positions.none import NoPositions
from headway.model.positions.rotary import Rotary
from headway.model.positions.sinusoidal import Sinusoidal
from headway.model.positions.tener import Tener
from headway.model.positions.transformer_xl import TransformerXL

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
