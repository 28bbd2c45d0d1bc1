"""Experiments of the scaling suite: a workload, its growth with the number of nodes, and the size of a node."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from baselines.workload import Workload

ENDLESS_STEPS = 10**9
"""A budget that no cell of a throughput experiment uses up: its seconds end it."""


class Experiment(Struct, frozen=True, kw_only=True):
    """A workload on a number of nodes."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
    title: str
    workload: str
    """Id in the catalogue: the workload of one node if work grows with the nodes, else that of all nodes."""
    regime: Literal["cpu-bound", "latency-bound", "link-bound"]
    """Resource that limits a single node."""
    scaling: Literal["weak", "strong"]
    """`weak`: each node has as many environments as one alone has; `strong`: all together have."""
    cores: Annotated[float, Meta(gt=0)] | None = None
    """Cores of a node; None: all of the machine."""
    link_bits_per_s: int | None = None
    seconds: Annotated[float, Meta(gt=0)]
    """Seconds after which a run ends."""
    to_threshold: bool = False
    """Whether it also measures the time to a return. Policies are then evaluated after the run, and the run also ends with the
    workload's budget of steps."""

    def scaled(self, workload: Workload, nodes: int) -> Workload:
        """Workload of `nodes` nodes. With weak scaling it has more environments, and nothing else changes.

        Minibatches, learning rates and updates for a sample stay what they are. On policy, where a round is a fragment of
        every environment, rounds grow with the environments.

        Parameters
        ----------
        workload
            as the catalogue has it.
        """
        if self.scaling == "weak":
            workload = msgspec.structs.replace(workload, environments=workload.environments * nodes)
        workload = msgspec.structs.replace(workload, budget_seconds=self.seconds)
        if self.to_threshold:
            return workload
        return msgspec.structs.replace(workload, budget_steps=ENDLESS_STEPS, snapshot_every_steps=ENDLESS_STEPS)
