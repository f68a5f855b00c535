"""What evaluation, comparison and training found, as data, as tables for a terminal and as pages."""
