"""Labels for a whole text: settings, data, objective, classifier, trace and reports."""
