"""The parts of the Transformer, one idea a file. Each part's configuration knows how to build it."""
