"""Looking inside a model at work: one trace for the page, the file, the notebook and the terminal."""
