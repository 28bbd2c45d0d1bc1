"""IMPALA (Espeholt et al., 2018, arXiv 1802.01561): what an update round computes, from chunks to new weights.

One optimizer step a round, on all of its transitions. That the policy has moved on since they were made is what V-trace
corrects for, so no chunk is too old to be trained on by its form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tianji.algorithms import schedules, vtrace
from tianji.algorithms.rollouts import Kernel, Rollouts, Views, beside, following, log_probabilities, observations
from tianji.algorithms.state import State
from tianji.config import IMPALAConfig
from tianji.envs import EnvDescription


class IMPALA:
    """Turns the chunks of one round into an optimizer step.

    Parameters
    ----------
    kernel
        what computes.
    describe
        the environment, for turning observations into features.
    horizon_steps
        where a linear learning-rate schedule reaches zero.
    """

    reuses: Literal[False] = False

    def __init__(self, kernel: Kernel, describe: EnvDescription, config: IMPALAConfig, horizon_steps: int) -> None:
        self.kernel = kernel
        self.describe = describe
        self.config = config
        self.horizon_steps = horizon_steps

    def update(self, chunks: Sequence[Views], steps: int, *, stale: bool = False) -> int:
        """Train on one round; parameters and result as of `tianji.algorithms.ppo.PPO.update`.

        Whether chunks are stale makes no difference: the correction is the algorithm.
        """
        self.kernel.step(self.prepare(chunks), schedules.learning_rate(self.config, steps, self.horizon_steps))
        return 1

    def state(self, *, replay: bool = True) -> State:
        """All that the next rounds follow from."""
        return State(self.kernel.state())

    def restore(self, state: State) -> None:
        """Go on where another one was."""
        self.kernel.restore(state.arrays)

    def prepare(self, chunks: Sequence[Views]) -> Rollouts:
        """The batch of a round's chunks, with V-trace's targets and advantages under the kernel's weights."""
        reward, action, terminated, truncated, behaviour = (
            beside(chunks, name) for name in ("reward", "action", "terminated", "truncated", "log_probability")
        )
        t, b = action.shape
        features, finals = observations(chunks, self.describe)
        logits, values = self.kernel.both(features)
        of_finals = self.kernel.values(finals) if len(finals) else np.zeros(0, np.float32)
        value = values.reshape(t + 1, b)
        now = log_probabilities(logits[: t * b], action.reshape(-1))
        c, ratio = self.config, np.exp(now.reshape(t, b) - behaviour)
        columns = (reward, value[:-1], following(value, truncated, of_finals), terminated, truncated, ratio)
        above = vtrace.excess(*columns, gamma=c.gamma, lambda_=c.vtrace_lambda, rho_clip=c.rho_clip, c_clip=c.c_clip)
        advantage = vtrace.policy_advantages(*columns, above, gamma=c.gamma, rho_clip=c.rho_clip)
        return Rollouts(features[: t * b], action.reshape(-1), now, advantage.reshape(-1), (value[:-1] + above).reshape(-1))
