"""How fast do messages move? Every system's way of moving them against the hardware's, in one run."""
