"""How hidden vectors become a distribution over tokens. A new one is one file here and one word in the union."""

from headway.model.outputs.base import OutputLayer
from headway.model.outputs.vocabulary import Vocabulary, VocabularyHead

Output = Vocabulary  # the next member: Vocabulary | Copy

__all__ = ["Output", "OutputLayer", "Vocabulary", "VocabularyHead"]
