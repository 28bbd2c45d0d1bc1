"""Code shared by all commands and child processes of the project. It needs only the standard library."""
