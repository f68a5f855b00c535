"""Text to text: settings, data, objective, translator, trace and reports."""
