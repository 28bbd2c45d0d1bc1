"""File descriptors that a run's processes need, checked before it starts."""

from __future__ import annotations

import resource
from collections import Counter

from programs.cli import ConfigError
from tianji.config import TrainConfig
from tianji.topology import has_root, lay_out, seats

LEARNER, LEARNER_EACH, LEARNER_ROOT = 48, 7, 16
"""Descriptors of a learner's process, for each of its actors, and for its Root. They were counted in runs, and rounded up."""
LAUNCHER, LAUNCHER_EACH = 24, 3
"""Descriptors of the launcher, and for each process."""
ROOT, ROOT_EACH = 32, 10
"""Descriptors of a Root, and for each group or Root under it."""


def needed(config: TrainConfig) -> int:
    """Most descriptors that a process of this run has open, without those of environments."""
    roles = lay_out(config)
    learner = LEARNER + LEARNER_EACH * config.actors + LEARNER_ROOT * has_root(config)
    launcher = LAUNCHER + LAUNCHER_EACH * len(seats(config, roles))
    under = Counter(role.under for role in roles if role.under)
    return max(learner, launcher, ROOT + ROOT_EACH * max(under.values(), default=0))


def ensure(config: TrainConfig) -> None:
    """Raise this process's limit, which its children inherit, as far as the run needs it and the system allows.

    Raises
    ------
    ConfigError
        if the system does not allow as many.
    """
    need = needed(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= need:
        return
    if hard != resource.RLIM_INFINITY and hard < need:
        raise ConfigError(
            f"{config.groups * config.actors} actors need {need} file descriptors, and this system allows {hard}; raise the "
            f"limit (ulimit -n {need}) or ask for fewer actors"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, hard))
