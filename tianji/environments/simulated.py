"""The synthetic slow simulators as Gymnasium environments, for other programs.

There is one environment that waits by itself, and a vector of environments whose waits overlap:

    gymnasium.make("tianji.environments.simulated:Simulated-v0", env="CartPole-v1", simulator={"step_seconds": 0.01})
    gymnasium.make_vec("tianji.environments.simulated:Simulated-v0", 8, env="CartPole-v1", simulator={"step_seconds": 0.01})

A vector of single environments in one process waits for one after the other, and so B times too long. Examples are
`vectorization_mode="sync"` and Stable-Baselines3's `DummyVecEnv`. Use the vector entry point instead, or one process per
environment (`"async"`, `SubprocVecEnv`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
from gymnasium.vector import SyncVectorEnv

from tianji.config import AtariConfig, SimulatorConfig
from tianji.environments.delays import Delayed, Delays
from tianji.environments.making import make_env
from tianji.settings import convert

ID = "Simulated-v0"
FULL_ID = f"{__name__}:{ID}"
"""Id for `gymnasium.make` and `make_vec`."""


def arguments(env: str, simulator: SimulatorConfig, atari: AtariConfig | None = None) -> dict[str, Any]:
    """Keyword arguments of `Simulated-v0` as plain data that can be sent to other processes."""
    plain: dict[str, Any] = msgspec.to_builtins({"env": env, "simulator": simulator, "atari": atari or AtariConfig()})
    return plain


def single(env: str, simulator: Mapping[str, Any], atari: Mapping[str, Any] | None = None, number: int = 0) -> gym.Env:
    """Make one environment that waits by itself.

    Parameters
    ----------
    env
        as `tianji.environments.making.make_env` takes it.
    simulator, atari
        fields of `SimulatorConfig` and `AtariConfig`.
    number
        number of the environment over all in use; see `SimulatorConfig.spread`.

    Raises
    ------
    ConfigError
        for an unknown field or a wrong value.
    """
    config, games = _read(simulator, atari)
    return Delayed(make_env(env, games, config), config, number)


class SimulatedVector(SyncVectorEnv):  # type: ignore[misc]
    """Environments stepped by Gymnasium's `SyncVectorEnv` that wait at the same time.

    An episode that ended is reset in the next step, which is that class's default. That step takes the delay of a reset
    instead of a step's.

    Parameters
    ----------
    first
        number of the first environment. The others count up from it.
    num_envs, env, simulator, atari
        see `single`.
    """

    def __init__(
        self,
        num_envs: int,
        env: str,
        simulator: Mapping[str, Any],
        atari: Mapping[str, Any] | None = None,
        first: int = 0,
    ) -> None:
        config, games = _read(simulator, atari)
        super().__init__([lambda: make_env(env, games, config)] * num_envs)
        self._waits = Delays(config, range(first, first + num_envs))
        self._ended = np.zeros(num_envs, bool)

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of its environments."""
        return self._waits.numbers

    def renumber(self, first: int) -> None:
        """Number the environments from `first` on, for programs that know it only after the vector was made.

        Call it before the first reset.
        """
        self._waits.renumber(range(first, first + self.num_envs))

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None) -> Any:
        count = self.num_envs
        seeds: list[int | None] = [seed + i for i in range(count)] if isinstance(seed, int) else seed or [None] * count
        chosen = np.ones(count, bool) if options is None else options.get("reset_mask", np.ones(count, bool))
        for i, own in enumerate(seeds):
            if chosen[i] and own is not None:
                self._waits.seed(i, own)
        began = self._waits.clock()
        result = super().reset(seed=seed, options=options)
        self._ended = self._ended & ~chosen
        self._waits.wait(began, (), np.flatnonzero(chosen))
        return result

    def step(self, actions: Any) -> Any:
        began, reset = self._waits.clock(), self._ended
        result = super().step(actions)
        self._ended = result[2] | result[3]
        self._waits.wait(began, np.flatnonzero(~reset), np.flatnonzero(reset))
        return result


def _read(simulator: Mapping[str, Any], atari: Mapping[str, Any] | None) -> tuple[SimulatorConfig, AtariConfig]:
    return convert(simulator, SimulatorConfig, "simulator"), convert(atari or {}, AtariConfig, "atari")


gym.register(
    ID,
    entry_point=f"{__name__}:single",
    vector_entry_point=f"{__name__}:SimulatedVector",
    disable_env_checker=True,
    order_enforce=False,
)
