"""What a model is trained for. A task is one file; the trainer knows only the seam."""
