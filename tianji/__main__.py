"""`python -m tianji train|evaluate|keys`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, FAILED, INTERRUPTED, ConfigError, OneLineParser, run
from tianji import __version__
from tianji.config import NETWORKS_OF, TrainConfig
from tianji.settings import assign, convert, read_toml

if TYPE_CHECKING:
    from tianji.launch.supervisor import Heard
    from tianji.tensorboard import Curves
    from tianji.training import Result

ALGORITHMS = ("ppo", "dqn", "impala")
NAMED = (
    "env", "algo", "actors", "envs_per_actor", "groups", "world", "seed", "stop_return", "stop_steps", "stop_seconds", "device",
    "launcher", "ray_address"
)  # fmt: skip
"""Settings with options of their own."""
MAY_CHANGE = (
    "stop_return", "stop_steps", "stop_seconds", "device", "kernel", "channel", "launcher", "ray_address", "placement",
    "encrypt", "learner_threads", "restarts", "snapshot_every_steps", "checkpoint_seconds", "checkpoint_replay",
    "chunk_slots", "batch_chunks"
)  # fmt: skip
"""Settings that a run which is resumed may be given anew."""
ENVIRONMENTS = 8
"""Environments over all actors, unless told otherwise."""


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji", description="Train Gymnasium environments with decoupled actors, buffer and learner.")
    top.add_argument("--version", action="version", version=f"tianji {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="train|evaluate|keys")
    train = commands.add_parser("train", help="train a policy")
    train.add_argument(
        "--env",
        metavar="ID",
        help="a Gymnasium environment with Discrete actions: a registered id, or MODULE:CLASS of your own",
    )
    train.add_argument("--algo", metavar="NAME", help=f"one of: {', '.join(ALGORITHMS)}")
    train.add_argument("--config", type=Path, metavar="FILE.toml", help="settings, as `tianji.TrainConfig` has them")
    train.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, e.g. ppo.learning_rate=1e-3"
    )
    train.add_argument("--actors", type=int, metavar="N", help="actor processes of each group")
    train.add_argument("--envs-per-actor", type=int, metavar="M")
    train.add_argument("--groups", type=int, metavar="G", help="learners with actors of their own each, averaged by a Root")
    train.add_argument("--world", metavar="real|lockstep", help="real processes, or all roles in one, repeatable bit for bit")
    train.add_argument("--seed", type=int, metavar="S")
    train.add_argument("--stop-return", type=float, metavar="R", help="mean return of the last 100 episodes to stop at")
    train.add_argument("--stop-steps", type=int, metavar="N", help="environment steps to stop at (default 1,000,000)")
    train.add_argument("--stop-seconds", type=float, metavar="T")
    train.add_argument("--device", metavar="cpu|cuda", help="of the learner")
    train.add_argument("--launcher", metavar="local|ray", help="this host, or a Ray cluster that runs")
    train.add_argument("--ray-address", metavar="HOST:PORT", help="of the cluster (default: the one of this host)")
    train.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the run: policy, state, curves, result")
    train.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    train.add_argument("--quiet", action="store_true", help="show nothing while it goes on")
    evaluate = commands.add_parser("evaluate", help="play a policy greedily")
    evaluate.add_argument("policy", type=Path, metavar="RUN|FILE.safetensors", help="a run's folder, or a policy")
    evaluate.add_argument("--env", metavar="ID", help="as for train; needed for a policy that comes without its run")
    evaluate.add_argument(
        "--network", metavar="MODULE:FUNCTION", help="what made the policy's network, if it was trained with network.factory"
    )
    evaluate.add_argument("--episodes", type=int, default=20, metavar="N")
    evaluate.add_argument("--seed", type=int, default=0, metavar="S", help="of the first episode; the others count up from it")
    keys = commands.add_parser("keys", help="make the key file that encrypts a run between hosts")
    keys.add_argument("file", type=Path, metavar="FILE", help="a new file, which only you can read; copy it to every host")
    return top


def settings(options: Any) -> TrainConfig:
    """Defaults, then the file, then the named options, then `--set`: later ones win."""
    if options.resume is not None:
        return _resumed(options)
    data: dict[str, Any] = read_toml(options.config) if options.config else {}
    for name in NAMED:
        if getattr(options, name) is not None:
            data[name] = getattr(options, name)
    for assignment in options.set:
        assign(data, assignment)
    if "env" not in data:
        raise ConfigError(
            "train: --env is missing; name a Gymnasium environment, for instance CartPole-v1, or your own as module:Class"
        )
    algo = data.get("algo", "ppo")
    if algo == "dqn":
        data.setdefault("actors", 1)
        data.setdefault("envs_per_actor", 1)
    # An unknown algorithm is reported when everything is checked.
    kinds = NETWORKS_OF.get(algo, NETWORKS_OF["ppo"])
    images = isinstance(data["env"], str) and data["env"].startswith("ALE/")
    data.setdefault("network", {"kind": next(kind for kind in kinds if kind.startswith("nature") == images)})
    if "actors" not in data:
        data["actors"] = max(1, min(len(os.sched_getaffinity(0)), ENVIRONMENTS))
    if "envs_per_actor" not in data and isinstance(data["actors"], int) and data["actors"] > 0:
        data["envs_per_actor"] = max(1, ENVIRONMENTS // data["actors"])
    data.setdefault("horizon_steps", data.get("stop_steps", 1_000_000))
    return convert(data, TrainConfig, str(options.config) if options.config else "train")


def _resumed(options: Any) -> TrainConfig:
    """The settings that a run began with, and what may be changed of them."""
    from tianji.run_folder import RunFolder

    for name in ("out", "config"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name} and --resume: a run is resumed in its own folder, with its own settings")
    before = RunFolder(options.resume).read_config()
    data: dict[str, Any] = msgspec.to_builtins(before)
    for name in NAMED:
        if getattr(options, name) is not None:
            data[name] = getattr(options, name)
    for assignment in options.set:
        assign(data, assignment)
    config = convert(data, TrainConfig, f"--resume {options.resume}")
    for name in TrainConfig.__struct_fields__:
        if getattr(config, name) != getattr(before, name) and name not in MAY_CHANGE:
            raise ConfigError(
                f"--resume {options.resume}: {name} was {getattr(before, name)!r} when this run began, and stays so; "
                f"what may change: {', '.join(MAY_CHANGE)}"
            )
    return config


def train(options: Any) -> int:
    """Train, and say in seconds and steps how it went."""
    from tianji.launch.supervisor import RoleFailed
    from tianji.run_folder import check_new
    from tianji.training import check

    config = settings(options)
    if options.out is not None:
        check_new(options.out)
    check(config)
    print(
        f"{config.algo} on {config.env}: {_groups(config)}{config.actors} actor{'s' * (config.actors > 1)} x "
        f"{config.envs_per_actor} environments, seed {config.seed}",
        flush=True,
    )
    try:
        result = _train(options, config)
    except RoleFailed as error:
        print(f"tianji: {error}", file=sys.stderr)
        return FAILED
    mean = "no episode finished" if result.mean_return is None else f"mean return of the last episodes {result.mean_return:.1f}"
    print(f"{result.steps:,} steps, {result.version:,} updates, {result.episodes:,} episodes in {result.seconds:.1f} s; {mean}")
    if config.stop_return is not None:
        print(_verdict(config.stop_return, result.reached_s, result.reached_steps, result.outcome))
    if (folder := options.resume or options.out) is not None:
        print(f"the run is in {folder}: `tianji evaluate {folder}` plays its policy, `--resume {folder}` goes on with it")
    return INTERRUPTED if result.outcome == "interrupted" else DONE


def _train(options: Any, config: TrainConfig) -> Result:
    """Train, and show how it goes."""
    from tianji.display import Display, Live
    from tianji.run_folder import RunFolder
    from tianji.training import train as run_training

    folder, live = options.resume or options.out, Live()
    # Where nothing was stored, training says so.
    if options.resume is not None and (run_folder := RunFolder(options.resume)).progress.exists():
        live.go_on(run_folder.read_tally())
    with ExitStack() as stack:
        displays = [] if options.quiet else [stack.enter_context(Display(config, live))]
        curves: list[Curves] = []

        def listen(message: Heard) -> None:
            news = live.see(message)
            for display in displays:
                display.show(message, news)
            if news and folder is not None:
                if not curves:
                    # Not before there is something to write: the import takes a while, and roles are starting.
                    from tianji.tensorboard import Curves

                    curves.append(stack.enter_context(Curves(folder)))
                curves[0].add(live)

        return run_training(config, listen, out=folder, resume=options.resume is not None)


def _groups(config: TrainConfig) -> str:
    return f"{config.groups} groups of " if config.groups > 1 else ""


def _verdict(threshold: float, reached_s: float | None, steps: int | None, outcome: str) -> str:
    if reached_s is not None and steps is not None:
        return f"reached a mean of {threshold:g} over 100 episodes after {reached_s:.2f} s and {steps:,} steps"
    ended = "interrupted" if outcome == "interrupted" else f"ended by its limit of {outcome}"
    return f"{ended} before a mean of {threshold:g} over 100 episodes"


def evaluate(options: Any) -> int:
    """Play a stored policy and print its mean return."""
    from tianji.play import Player, games_of
    from tianji.policy import load_policy
    from tianji.run_folder import RunFolder

    if options.episodes < 1:
        raise ConfigError(f"--episodes {options.episodes}: at least 1 is needed")
    if not options.policy.exists():
        raise ConfigError(f"evaluate: {options.policy}: no such run folder or policy file")
    run = RunFolder(options.policy) if options.policy.is_dir() else None
    config = None if run is None else run.read_config()
    env = options.env or (None if config is None else config.env)
    if env is None:
        raise ConfigError(f"evaluate: --env is missing; {options.policy} does not say what it plays")
    factory = options.network
    if factory is None and config is not None and isinstance(config.network.factory, str):
        # A run's configuration is its user's, as a file given with --config is.
        factory = config.network.factory
    policy = load_policy(options.policy if run is None else run.policy, factory)
    if config is None:
        player = Player(env, options.episodes, games_of(policy))
    else:
        player = Player(env, options.episodes, config.atari, config.simulator)
    try:
        seen = (player.describe.features, player.describe.actions)
        if seen != (policy.network.features, policy.network.actions):
            raise ConfigError(
                f"{options.policy}: takes {policy.network.features} features and {policy.network.actions} actions; "
                f"{env} has {seen[0]} and {seen[1]}"
            )
        returns = player.play(policy, range(options.seed, options.seed + options.episodes))
    finally:
        player.close()
    spread = f", standard deviation {returns.std(ddof=1):.1f}" if len(returns) > 1 else ""
    span = f"{returns.min():g} to {returns.max():g}"
    print(f"mean return {returns.mean():.1f} over {len(returns)} episodes (greedy; {span}{spread})")
    return DONE


def keys(options: Any) -> int:
    """Make a run's key file."""
    from tianji.channel.base import ChannelError
    from tianji.channel.security import Keys

    try:
        Keys.generate().write(options.file)
    except ChannelError as error:
        raise ConfigError(f"keys: {error}") from None
    print(f"{options.file}: new keys; whoever has this file can join the run, so copy it to its hosts and nowhere else")
    return DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    return {"train": train, "evaluate": evaluate, "keys": keys}[options.command](options)


def console() -> int:
    """The `tianji` command."""
    return run("tianji", main)


if __name__ == "__main__":
    sys.exit(console())
