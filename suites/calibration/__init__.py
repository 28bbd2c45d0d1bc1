"""Calibration: what work and messages take on this machine, as the simulated world needs it."""
