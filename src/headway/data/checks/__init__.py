"""What doctor looks for, one file for each kind of trouble."""
