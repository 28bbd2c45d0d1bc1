"""`tianji evaluate`: play a stored policy, and print its mean return."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, ConfigError
from tianji.commands.stored import add_policy, stored

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("evaluate", help="play a policy greedily")
    one.set_defaults(run=evaluate)
    add_policy(one)
    one.add_argument("--env", metavar="ID", help="as for train; needed for a policy that comes without its run")
    one.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes to play (default: %(default)s)")
    one.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the first episode; later ones count up (default: %(default)s)"
    )
    one.add_argument("--video", type=Path, metavar="FILE", help="also write the first episode as FILE.gif or FILE.mp4")
    one.add_argument("--render", action="store_true", help="also show the first episode in a window")


def evaluate(options: Namespace) -> int:
    """Play a stored policy and print its mean return."""
    from tianji.run.play import Player, games_of
    from tianji.run.video import check_file

    if options.episodes < 1:
        raise ConfigError(f"--episodes {options.episodes}: at least 1 is needed")
    if options.video is not None:
        check_file(options.video)
    policy, config = stored(options, "evaluate", (options.env, options.network))
    env = options.env or (None if config is None else config.env)
    if env is None:
        raise ConfigError(f"evaluate: --env is missing; {options.policy} does not say what it plays")
    made = (games_of(policy),) if config is None else (config.atari, config.simulator, config.environment)
    player = Player(env, options.episodes, *made)
    try:
        try:
            describe = player.fits(policy)
        except ConfigError as error:
            raise ConfigError(f"{options.policy}: {error}") from None
        returns = player.play(policy, range(options.seed, options.seed + options.episodes))
    finally:
        player.close()
    spread = f", standard deviation {returns.std(ddof=1):.1f}" if len(returns) > 1 else ""
    span = f"{returns.min():g} to {returns.max():g}"
    print(f"mean return {returns.mean():.1f} over {len(returns)} episodes (greedy; {span}{spread})")
    for mode, wanted in (("rgb_array", options.video), ("human", options.render)):
        if wanted:
            _show(policy, describe, mode, made, options)
    return DONE


def _show(policy: Any, describe: Any, mode: str, made: tuple[Any, ...], options: Namespace) -> None:
    """Show the first episode in a window, or write it to a file."""
    from tianji.run.video import Screen, write

    screen = Screen(describe, mode, *made)
    try:
        frames = list(screen.play(policy, options.seed))
    finally:
        screen.close()
    if mode == "rgb_array":
        write(options.video, frames, screen.frames_per_s)
        print(f"{options.video}: {len(frames):,} pictures, {len(frames) / screen.frames_per_s:.1f} s")
