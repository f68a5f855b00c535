"""A translation server: requests in, batches through model processes, answers out."""
