"""What stands on top of a stack."""
