"""The discipline of XingTian (Pan et al., 2022) over this project's algorithms, environments and transport primitives."""
