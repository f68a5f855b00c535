"""Tokenisers, sentence splitting, language tags and protected spans."""
