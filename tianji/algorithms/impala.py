"""IMPALA (Espeholt et al., 2018, arXiv 1802.01561): one round of updates, from chunks to new weights.

A round is one optimizer step on all of its transitions. V-trace corrects for the policy having changed since they were made,
so the loss is valid for chunks of any staleness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tianji.algorithms import vtrace
from tianji.algorithms.base import OneStep
from tianji.algorithms.metrics import of_policy
from tianji.algorithms.rollouts import Both, Fragment, Rollouts, Updater, by_length
from tianji.config import IMPALAConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import Views


class IMPALA(OneStep):
    """Importance-weighted actor-learner: one optimizer step per round."""

    updater: Updater
    config: IMPALAConfig

    @classmethod
    def of(cls, config: TrainConfig, describe: EnvDescription, updater: Any, group: int) -> IMPALA:
        return cls(updater, describe, config.impala, config.horizon_steps)

    def prepare(self, chunks: Sequence[Views]) -> Rollouts:
        """Batch of a round's chunks, with V-trace's targets and advantages under the updater's weights."""
        return assess(chunks, self.updater.both, self.describe, self.config)

    def measured(self, steps: int, rate: float, batch: Rollouts) -> None:
        self.meter.after(steps, rate, lambda: of_policy(self.updater, self.describe.actions, batch, self.config))


@by_length
def assess(chunks: Sequence[Views], both: Both, describe: EnvDescription, config: IMPALAConfig) -> Rollouts:
    """Batch of chunks, with V-trace's targets and advantages.

    Parameters
    ----------
    both
        gives scores and state values under the policy that is trained.
    """
    seen, c = Fragment(chunks, describe), config
    now, value, next_value = seen.outputs(both)
    columns = (seen.reward, value, next_value, seen.terminated, seen.truncated, np.exp(now - seen.behaviour))
    above = vtrace.excess(*columns, gamma=c.gamma, lambda_=c.vtrace_lambda, rho_clip=c.rho_clip, c_clip=c.c_clip)
    advantage = vtrace.policy_advantages(*columns, above, gamma=c.gamma, rho_clip=c.rho_clip)
    return seen.batch(now, advantage, value + above)
