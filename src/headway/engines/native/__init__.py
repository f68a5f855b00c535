"""The engine compiled for this processor."""
