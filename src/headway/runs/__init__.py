"""Decide, start and resume a training run."""
