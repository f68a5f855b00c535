"""Headway: the Transformer of "Attention is all you need", whole."""

# Nothing is imported here: `python -m headway` in the folder of a stranger would find it there, before __main__ begins.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway.tasks.translation.result import Translation
    from headway.tasks.translation.translator import Translator

__all__ = ["Translation", "Translator"]


def __getattr__(name: str) -> object:
    """Loaded when asked for: `headway --help` should not wait for torch."""
    if name == "Translator":
        from headway.tasks.translation.translator import Translator

        return Translator
    if name == "Translation":
        from headway.tasks.translation.result import Translation

        return Translation
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
