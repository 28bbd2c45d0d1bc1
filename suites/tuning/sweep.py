"""Extent of a tuning, as constants."""

NAME = "tuning"
SHARES = (0.25, 0.5, 1.0)
"""Share of the workload's budget in each rung. After a rung the better half goes on to the next."""
LAST_SEEDS = 4
"""Seeds with which each setting of the last rung runs. By one run, or by two, a setting with which some runs do not learn could
win."""
SEEDS = len(SHARES) - 1 + LAST_SEEDS
"""Seeds of a tuning, at most."""
FIRST_SEED = 900_000
"""Least seed of a tuning. No result has a seed from here on: `run` refuses them."""
MOST_SEED = 9_999
"""Greatest `--seed`. Each has seeds of its own for its rungs."""
RANDOM_TRIALS = 4
"""Trials after which the sampler goes by their results; before, it draws at random."""
