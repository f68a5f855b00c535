"""Reports of evaluations, comparisons and training runs: data, tables for a terminal, one-file pages and plots."""
