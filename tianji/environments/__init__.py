"""Environments: Gymnasium's stepped together, Atari games, and synthetic slow simulators."""
