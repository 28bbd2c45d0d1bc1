"""The convergence suite: time, steps and core-seconds to a threshold of the return, by two definitions."""
