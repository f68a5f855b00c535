"""The special pieces every vocabulary begins with."""

from __future__ import annotations

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
