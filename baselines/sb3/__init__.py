"""Stable-Baselines3, one process: what a practitioner trains with today."""
