"""Disciplines: rules for who waits for whom, one file each. All roles of a run ask one such object."""
