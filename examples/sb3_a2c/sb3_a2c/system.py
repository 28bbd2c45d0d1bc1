"""The system, as the benchmark sees it: two commands. Only this file imports the benchmark."""

import os
import sys
from pathlib import Path

from baselines.program import Program

HERE = Path(__file__).parent
PYTHON = os.environ.get("SB3_A2C_PYTHON", sys.executable)
"""Interpreter that has Stable-Baselines3; it needs nothing of the benchmark."""


class A2C(Program):
    """Stable-Baselines3's A2C with its own defaults."""

    name = "sb3-a2c"
    title = "Stable-Baselines3 A2C"

    def available(self):
        return None if Path(PYTHON).exists() else f"there is no {PYTHON}"

    def unable(self, workload):
        if workload.algo != "ppo" or workload.network.kind != "mlp-separate":
            return "it is shown for PPO's workloads with small networks"
        return None

    def deviations(self, task):
        return ["It is A2C: rounds of 5 steps, one pass over each, RMSprop."]

    def settings(self, task):
        return {"n_steps": 5, "n_envs": task.workload.environments}

    def command(self, task):
        return [PYTHON, str(HERE / "learn.py")]

    def player(self):
        return [PYTHON, str(HERE / "play.py")]
