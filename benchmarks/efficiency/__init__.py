"""Efficiency of the running system relative to bare loops: `python -m benchmarks.efficiency`."""
