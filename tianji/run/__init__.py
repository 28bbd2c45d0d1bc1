"""Training runs: `train`, and the display, evaluation and logging of runs."""
