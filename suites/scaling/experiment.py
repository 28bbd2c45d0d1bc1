"""What one experiment of the scaling suite is: a workload, how it grows with the nodes, and what a node is."""

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
    """Of the catalogue: that of one node where work grows with the nodes, that of all of them where it does not."""
    regime: Literal["cpu-bound", "latency-bound", "link-bound"]
    """What a node alone is limited by."""
    scaling: Literal["weak", "strong"]
    """`weak`: each node has as many environments as one alone has; `strong`: all together have."""
    cores: Annotated[float, Meta(gt=0)] | None = None
    """Of a node; None: as many as there are."""
    link_bits_per_s: int | None = None
    seconds: Annotated[float, Meta(gt=0)]
    """After which a run ends."""
    to_threshold: bool = False
    """Whether it is about the time to a return too: policies are judged after the run, which ends with the workload's budget of
    steps if that is used up first."""

    def scaled(self, workload: Workload, nodes: int) -> Workload:
        """The workload of so many nodes: more environments, and nothing else, where scaling is weak.

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
