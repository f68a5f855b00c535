"""What the command line can do, one function a command."""
