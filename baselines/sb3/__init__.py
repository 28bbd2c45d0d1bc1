"""Stable-Baselines3 in one process, the usual choice of practitioners."""
