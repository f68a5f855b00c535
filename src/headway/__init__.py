"""Headway: the Transformer of "Attention is all you need", whole."""

# Nothing is imported here: `python -m headway` in the folder of a stranger would find it there, before __main__ begins.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway.tasks.decoding_options import DecodingOptions
    from headway.tasks.translation.result import Translation
    from headway.tasks.translation.translator import Translator

__version__ = "0.1.0"
__all__ = ["DecodingOptions", "Translation", "Translator", "__version__"]


def __getattr__(name: str) -> object:
    """Loaded when asked for: `headway --help` should not wait for torch."""
    rooms = {"DecodingOptions": "decoding_options", "Translation": "translation.result"}
    rooms["Translator"] = "translation.translator"
    if name in rooms:
        from importlib import import_module

        return getattr(import_module(f"headway.tasks.{rooms[name]}"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
