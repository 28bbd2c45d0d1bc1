"""The regression gate for any project: one command, run in turns from two checkouts of a git repository.

The statistics are those of the project's own gate (`suites.statistics`). This package imports nothing that trains or measures
reinforcement learning, so it runs where only `requirements.txt` is installed.
"""
