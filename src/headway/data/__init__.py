"""From files to sentence pairs, checked on the way."""
