"""The model: parts with weights, the design that builds them, losses, masks and decoding state."""
