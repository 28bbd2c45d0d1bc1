"""One episode of a policy to look at: on the screen, or in a file."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from programs.cli import ConfigError
from tianji.config import AtariConfig, EnvironmentConfig, SimulatorConfig
from tianji.environments import atari
from tianji.environments.description import EnvDescription
from tianji.environments.making import ATARI, PLAIN, make_env
from tianji.environments.vector import Stacks
from tianji.policy import Policy

WRITERS = {".gif": ("PIL", "pillow"), ".mp4": ("cv2", "opencv-python-headless")}
"""Module that writes a file, by its suffix, and the package that brings it."""
FRAMES_PER_S = 30
"""Where an environment does not say how fast it is shown."""


def check_file(path: Path) -> None:
    """Check that a video can be written here, before it is played. `ConfigError` if not."""
    if path.suffix not in WRITERS:
        raise ConfigError(f"--video {path}: write it as {' or '.join('FILE' + suffix for suffix in WRITERS)}")
    module, package = WRITERS[path.suffix]
    if importlib.util.find_spec(module) is None:
        raise ConfigError(f"--video {path}: {package} is not installed; pip install {package} brings it")
    if path.exists():
        raise ConfigError(f"--video {path}: exists; name a new file")


class Screen:
    """An environment that shows one greedy episode.

    Parameters
    ----------
    mode
        `human` opens a window; `rgb_array` gives pictures.
    describe
        the environment as the policy's network sees it.

    Raises
    ------
    ConfigError
        if the environment has no such mode.
    """

    def __init__(
        self,
        describe: EnvDescription,
        mode: str,
        games: AtariConfig = ATARI,
        simulator: SimulatorConfig | None = None,
        settings: EnvironmentConfig = PLAIN,
    ) -> None:
        where = f"environment {describe.env}"
        shown = msgspec.structs.replace(settings, args={**settings.args, "render_mode": mode})
        try:
            self._env = make_env(describe.env, atari.whole_games(games), simulator, shown)
        except TypeError as error:
            raise ConfigError(f"{where}: it takes no render_mode: {error}") from None
        if mode not in self._env.metadata.get("render_modes", ()):
            self._env.close()
            raise ConfigError(f"{where}: it has no render mode {mode}")
        self._describe, self._mode = describe, mode
        self.frames_per_s = int(self._env.metadata.get("render_fps") or FRAMES_PER_S)

    def play(self, policy: Policy, seed: int) -> Iterator[NDArray[np.uint8]]:
        """Play an episode, and give its pictures; in a window, none."""
        observation, _ = self._env.reset(seed=seed)
        stacks = Stacks(np.asarray(observation)[None], self._describe.stack)
        ended = False
        while not ended:
            if self._mode == "rgb_array":
                yield np.asarray(self._env.render(), np.uint8)
            actions = policy.greedy(self._describe.encode(stacks.seen))
            observation, _, terminated, truncated, _ = self._env.step(policy.network.actions.given(actions)[0])
            stacks.push(np.asarray(observation)[None])
            ended = bool(terminated or truncated)
        if self._mode == "rgb_array":
            yield np.asarray(self._env.render(), np.uint8)

    def close(self) -> None:
        """Close the environment, and its window."""
        self._env.close()


def write(path: Path, frames: Sequence[NDArray[np.uint8]], frames_per_s: int) -> None:
    """Write pictures [height, width, 3] to a file, by its suffix."""
    if path.suffix == ".gif":
        image: Any = importlib.import_module("PIL.Image")
        first, *others = (image.fromarray(frame) for frame in frames)
        first.save(path, save_all=True, append_images=others, duration=1000 / frames_per_s, loop=0)
        return
    cv2: Any = importlib.import_module("cv2")
    height, width = frames[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), frames_per_s, (width, height))
    try:
        for frame in frames:
            writer.write(np.ascontiguousarray(frame[:, :, ::-1]))
    finally:
        writer.release()
