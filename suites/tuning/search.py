"""Proposes settings to try: Optuna's TPE sampler with a seed, which gives the same proposals for the same results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from baselines.space import Scalar, Space
from programs.cli import ConfigError
from suites.tuning.sweep import RANDOM_TRIALS

DRAWS = 50
"""Proposals in a row that may be known already."""


def installed() -> str | None:
    """The version of Optuna; None if it is not installed."""
    try:
        return version("optuna")
    except PackageNotFoundError:
        return None


def sampler(seed: int) -> str:
    """The sampler in words.

    Raises
    ------
    ConfigError
        when Optuna is not installed.
    """
    if (found := installed()) is None:
        raise ConfigError("optuna is not installed (the extra tune): pip install -c constraints.txt -e '.[tune]'")
    return f"TPE of Optuna {found}, seed {seed}"


def propose(space: Space, seed: int, losses: Sequence[float]) -> dict[str, Scalar]:
    """The setting to try next, which none before it was.

    The search is repeated from its start, so nothing but the results has to be kept between two trials.

    Parameters
    ----------
    losses
        of the trials so far, in order; infinite for one that failed.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=RANDOM_TRIALS))
    categories = {name: optuna.distributions.CategoricalDistribution(values) for name, values in space.choices.items()}
    for options in space.first:
        study.enqueue_trial(options)
    failed = optuna.trial.TrialState.FAIL
    tried: list[dict[str, Scalar]] = []
    draws = 0
    while True:
        trial = study.ask(categories)
        options = {name: trial.params[name] for name in space.choices}
        if options in tried:
            draws += 1
            study.tell(trial, state=failed)
            if draws >= DRAWS:
                study.enqueue_trial(next(one for one in space.settings() if one not in tried))
            continue
        draws = 0
        if len(tried) == len(losses):
            return options
        loss = losses[len(tried)]
        tried.append(options)
        if math.isfinite(loss):
            study.tell(trial, loss)
        else:
            study.tell(trial, state=failed)
