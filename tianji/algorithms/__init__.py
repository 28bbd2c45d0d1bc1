"""Learning algorithms in plain NumPy and torch: no processes, no sockets, no clocks."""
