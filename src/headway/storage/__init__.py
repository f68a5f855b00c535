"""Files that survive a crash: the model folder, checkpoints, locks, tensors and durable writes."""
