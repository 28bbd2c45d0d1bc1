"""A system whose interpreter cannot import this project, seen from this side: its settings and first weights go as files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from baselines import environments
from baselines.program import Program
from baselines.separate.run import INITIAL, SETTINGS
from baselines.system import Task
from baselines.workload import Workload
from tianji.env_settings import ActionsConfig
from tianji.policy import Policy, save_policy

ROOT = Path(__file__).parents[2]


class SeparateProgram(Program):
    """A module of this package that runs in an environment of its own (`baselines.separate.run` is its other side).

    It starts from the very weights that every other system starts from, and its snapshots are flat vectors.
    """

    environment: ClassVar[str]
    """Name of its environment (`baselines.environments`)."""
    module: ClassVar[str]
    """Module that trains. It imports the packages of its environment, and of this project what needs no other."""
    gaussians: ClassVar[bool] = False
    """Whether actions that are numbers, and normalisation, are translated to it."""

    def available(self) -> str | None:
        return environments.missing(self.environment)

    def unable(self, workload: Workload) -> str | None:
        if workload.algo != "ppo":
            return "it trains workloads of PPO"
        if workload.simulator is not None:
            return "a simulator is not translated to it"
        if workload.actors is not UNSET:
            return "a number of actors is not translated to it"
        return (workload.beyond_gaussians if self.gaussians else workload.beyond_choices) or workload.beyond_common

    def command(self, task: Task) -> list[str]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        python = str(environments.python(self.environment))
        return ["/usr/bin/env", f"PYTHONPATH={path}", python, "-m", self.module]

    def around(self, workload: Workload) -> dict[str, Any]:
        """What `baselines.separate.counted.make` puts around an environment."""
        scaled = {"gamma": workload.for_ppo.gamma, "clip": workload.normaliser.clip_rewards}
        return {
            "clip_actions": isinstance(workload.actions, ActionsConfig),
            "rewards": scaled if workload.normalises_rewards else None,
        }

    def provide(self, task: Task, folder: Path) -> None:
        (folder / SETTINGS).write_bytes(msgspec.json.encode(self.settings(task)))
        w, description = task.workload, task.workload.describe()
        network = w.flat_network(description)
        save_policy(folder / INITIAL, Policy(network, network.initialise(task.seed)), workload=w.id)
