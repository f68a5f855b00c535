"""Text that goes on: settings, data, objective, predictor, trace and reports."""
