"""Translation of a workload to SBX: that to Stable-Baselines3, whose interface it has, and what differs."""

from __future__ import annotations

from typing import Any

from baselines.sb3 import translate
from baselines.workload import Workload
from tianji.config import ActionsConfig

XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"
"""One thread, as in every system: these matrices are too small for a thread pool to pay."""


def unable(w: Workload) -> str | None:
    """Reason why it cannot have the workload's network; None if it can."""
    hidden = w.network.hidden
    if w.algo == "td3":
        return "TD3 is not translated to it"
    if isinstance(w.actions, ActionsConfig) and w.actions.exploration == "state":
        return "noise that depends on the state is not translated to it: its own repeats one draw"
    if w.algo == "dqn" and (len(hidden) != 2 or hidden[0] != hidden[1]):
        return f"its network of DQN has two hidden layers of one width, not {list(hidden)}"
    return None


def settings(w: Workload, seed: int) -> dict[str, Any]:
    """Everything that SBX is given, as plain data."""
    told = translate.settings(w, seed)
    arguments, optimizer = dict(told["arguments"]), dict(told["optimizer_kwargs"])
    if w.algo == "sac":
        # It has no such setting: target networks move at every update.
        arguments.pop("target_update_interval")
    if w.algo == "dqn":
        # It does not clip gradients itself: the optimizer that it is given does.
        optimizer["max_grad_norm"] = arguments.pop("max_grad_norm")
    return told | {
        "arguments": arguments,
        "activation_fn": w.network.activation,
        "optimizer_kwargs": optimizer,
        "xla_flags": XLA_FLAGS,
    }


def deviations(w: Workload) -> list[str]:
    """Deviations from the workload, in words."""
    compiled = (
        "XLA compiles before the first step, on data of the same shapes; `compile_s` says how long that took, and the measured "
        "time is without it."
    )
    if w.algo == "ppo":
        return [translate.MOVING] * w.normalises + [
            "The gradients of policy and value network are clipped one by one, each at the workload's norm, not together.",
            compiled,
        ]
    return [
        # Its squashed Gaussian is exact.
        *(line for line in translate.deviations(w) if line != translate.SQUASHED),
        "The minibatches of a round are drawn all at once, before its first update.",
        compiled,
    ]
