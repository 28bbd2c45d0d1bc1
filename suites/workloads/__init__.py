"""Workload files: what is trained, how and until when, as data."""
