"""What every command and child process of the project does alike. Standard library only."""
