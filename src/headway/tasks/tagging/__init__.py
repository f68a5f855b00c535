"""A label for every word: settings, data, objective, tagger, trace and reports."""
