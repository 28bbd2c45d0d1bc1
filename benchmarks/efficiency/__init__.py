"""How near the running system comes to bare loops: `python -m benchmarks.efficiency`."""
