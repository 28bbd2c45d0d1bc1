"""Built-in pipes: those of systems, and the ceilings to compare them with."""
