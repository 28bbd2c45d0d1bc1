"""Stable-Baselines3's A2C as an outside system."""
