"""Formulas and masks, without parameters."""
