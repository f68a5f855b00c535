"""Crash-safe files: durable writes, locks, tensors, checkpoints and the model folder."""
