"""SBX: Stable-Baselines3 on JAX, one process, in an environment of its own."""
