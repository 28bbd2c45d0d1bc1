"""Pipes that come with the project: systems, and ceilings to hold them against."""
