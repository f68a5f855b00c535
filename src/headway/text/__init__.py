"""From a sentence to numbers and back."""
