"""The checks of doctor, one file for each kind of fault."""
