"""Workload files: environment, algorithm, budget and thresholds, as data."""
