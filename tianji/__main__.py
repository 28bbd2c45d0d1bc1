"""`python -m tianji train|evaluate|plan|disciplines|keys`."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, FAILED, INTERRUPTED, ConfigError, OneLineParser, run
from programs.completion import add_completion
from tianji import __version__
from tianji.config import TrainConfig
from tianji.hyperparameters import ALGORITHMS, DQNConfig, PPOConfig
from tianji.settings import assign, constraint, convert, read_toml

if TYPE_CHECKING:
    from tianji.launch.supervisor import Heard
    from tianji.run.tensorboard import Curves
    from tianji.run.watch import Result

NAMED = (
    "env", "algo", "actors", "envs_per_actor", "groups", "world", "seed", "stop_return", "stop_steps", "stop_seconds", "device",
    "launcher", "ray_address"
)  # fmt: skip
"""Settings that have their own command-line options."""
MAY_CHANGE = (
    "stop_return", "stop_steps", "stop_seconds", "device", "updater", "channel", "launcher", "ray_address", "ray_placement",
    "placement", "encrypt", "learner_threads", "restarts", "silence_seconds", "replace_silent", "not_finite",
    "snapshot_every_steps", "checkpoint_seconds", "checkpoint_replay", "chunk_slots", "batch_chunks"
)  # fmt: skip
"""Settings that may be changed when a run is resumed."""


TRUST = "import the code (MODULE:CLASS) that the run's folder names: only for a folder that you know"


def parser() -> OneLineParser:
    """The command line."""
    top = OneLineParser(prog="tianji", description="Train Gymnasium environments with decoupled actors, buffer and learner.")
    top.add_argument("--version", action="version", version=f"tianji {__version__}", help="print the version and exit")
    add_completion(top)
    commands = top.add_subparsers(dest="command", required=True, metavar="train|evaluate|plan|disciplines|keys")
    train = commands.add_parser("train", help="train a policy")
    environments = f"{PPOConfig.environments}, or {DQNConfig.environments} for dqn"
    train.add_argument(
        "--env",
        metavar="ID",
        help="a Gymnasium environment with Discrete actions: a registered id, or MODULE:CLASS of your own (required)",
    )
    _setting(train, "algo", "the algorithm")
    train.add_argument("--config", type=Path, metavar="FILE.toml", help="settings, as `tianji.TrainConfig` has them")
    train.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, e.g. ppo.learning_rate=1e-3"
    )
    _setting(train, "actors", "actor processes of each group", "N", default=f"one per core, at most {environments}")
    _setting(train, "envs_per_actor", "environments of each actor", "M", default=f"{environments}, divided by the actors")
    _setting(train, "groups", "learners with actors of their own, averaged by a Root", "G")
    _setting(train, "world", "real processes, or all roles in one process, repeatable bit for bit")
    _setting(train, "seed", "seed of the run", "S")
    _setting(train, "stop_return", "mean return of the last 100 episodes to stop at", "R", default="no such limit")
    _setting(train, "stop_steps", "environment steps to stop at", "N")
    _setting(train, "stop_seconds", "seconds to stop after", "T", default="no such limit")
    _setting(train, "device", "device of the learner")
    _setting(train, "launcher", "where processes run: this host, or a running Ray cluster")
    _setting(train, "ray_address", "address of the Ray cluster", "HOST:PORT")
    train.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the run: policy, state, curves, result")
    train.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder, with its settings")
    train.add_argument("--dry-run", action="store_true", help="check everything, show what would run, and start nothing")
    train.add_argument("--trust", action="store_true", help=TRUST)
    train.add_argument("--quiet", action="store_true", help="show nothing while it goes on")
    evaluate = commands.add_parser("evaluate", help="play a policy greedily")
    evaluate.add_argument("policy", type=Path, metavar="RUN|FILE.safetensors", help="a run's folder, or a policy")
    evaluate.add_argument("--env", metavar="ID", help="as for train; needed for a policy that comes without its run")
    evaluate.add_argument(
        "--network", metavar="MODULE:FUNCTION", help="what made the policy's network, if it was trained with network.factory"
    )
    evaluate.add_argument("--trust", action="store_true", help=TRUST)
    evaluate.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes to play (default: %(default)s)")
    evaluate.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the first episode; later ones count up (default: %(default)s)"
    )
    _plan(commands.add_parser("plan", help="predict what each discipline and topology would give on a cluster"))
    commands.add_parser("disciplines", help="who waits for whom: every discipline, and its laws")
    keys = commands.add_parser("keys", help="make the key file that encrypts a run between hosts")
    keys.add_argument("file", type=Path, metavar="FILE", help="a new file, which only you can read; copy it to every host")
    return top


def _plan(one: ArgumentParser) -> None:
    """Add the options of `plan`."""
    one.add_argument("--env", required=True, metavar="ID", help="as for train; PPO with its default settings is predicted")
    one.add_argument("--nodes", required=True, type=int, metavar="N", help="nodes of the cluster")
    one.add_argument(
        "--machine",
        type=Path,
        metavar="FILE",
        help="one node, as `python -m suites calibrate --out FILE` measures it (required)",
    )
    one.add_argument("--gbit", type=float, metavar="X", help="bandwidth of a node's link in Gbit/s (default: as calibrated)")
    one.add_argument("--actors", type=int, metavar="N", help="actors of each node (default: one per core of the machine)")
    one.add_argument(
        "--simulator-cores",
        type=int,
        metavar="C",
        help="cores of each node for simulators alone: shows their best split into simulators (default: no split)",
    )
    one.add_argument(
        "--serial",
        type=float,
        metavar="S",
        help="share of a simulator's work that more cores do not shorten; for --simulator-cores (default: 0)",
    )
    one.add_argument(
        "--price-per-node-hour", type=float, metavar="P", help="adds the cost of a million samples, in P's currency"
    )


def _setting(parser: ArgumentParser, name: str, about: str, metavar: str | None = None, default: str | None = None) -> None:
    """Add the option of a setting; its type, choices, range and default are those of `TrainConfig`.

    Parameters
    ----------
    default
        what the help says of the default, where the command line has one of its own.
    """
    limits = constraint(TrainConfig, name)
    if default is None:
        value = next(field.default for field in msgspec.structs.fields(TrainConfig) if field.name == name)
        default = f"{value:,}" if isinstance(value, int) else str(value)
    parser.add_argument(
        "--" + name.replace("_", "-"),
        type=limits.kind,
        choices=limits.choices or None,
        metavar=metavar,
        help=f"{', '.join(filter(None, (about, limits.bounds)))} (default: {default})",
    )


def settings(options: Any) -> TrainConfig:
    """Settings from the defaults, the file, the named options and `--set`; later ones win."""
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
    # The check of all settings reports an unknown algorithm.
    algorithm = ALGORITHMS.get(data.get("algo", "ppo"), PPOConfig)
    images = isinstance(data["env"], str) and data["env"].startswith("ALE/")
    data.setdefault("network", {"kind": next(kind for kind in algorithm.networks if kind.startswith("nature") == images)})
    if "actors" not in data:
        data["actors"] = max(1, min(len(os.sched_getaffinity(0)), algorithm.environments))
    if "envs_per_actor" not in data and isinstance(data["actors"], int) and data["actors"] > 0:
        data["envs_per_actor"] = max(1, algorithm.environments // data["actors"])
    data.setdefault("horizon_steps", data.get("stop_steps", 1_000_000))
    return convert(data, TrainConfig, str(options.config) if options.config else "train")


def _resumed(options: Any) -> TrainConfig:
    """Settings that a run started with, with the permitted changes."""
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
    said = [options.env, *(one.partition("=")[2].strip("'\"") for one in options.set)]
    check_trust(before, options.resume, said, trusted=options.trust)
    for name in TrainConfig.__struct_fields__:
        if getattr(config, name) != getattr(before, name) and name not in MAY_CHANGE:
            raise ConfigError(
                f"--resume {options.resume}: {name} was {getattr(before, name)!r} when this run began, and stays so; "
                f"what may change: {', '.join(MAY_CHANGE)}"
            )
    linear = getattr(config.hyperparameters, "learning_rate_schedule", "constant") == "linear"
    if linear and config.stop_steps != before.stop_steps and config.stop_steps > config.horizon_steps:
        raise ConfigError(
            f"--resume {options.resume}: its learning rate falls to zero at {config.horizon_steps:,} steps (horizon_steps), so "
            "further steps would change nothing; begin a new run with the larger stop_steps"
        )
    return config


def check_trust(config: TrainConfig, folder: Path, said: Iterable[str | None], *, trusted: bool) -> None:
    """Check that the code which a run's folder names may be imported.

    The user allows it with `--trust`, or by naming the same code on the command line.

    Raises
    ------
    ConfigError
        if it may not.
    """
    code = [name for name in code_of(config) if name not in set(said)]
    if code and not trusted:
        raise ConfigError(
            f"{folder}: its configuration names code that would be imported, {' and '.join(code)}; "
            "say --trust if you know this folder"
        )


def code_of(config: TrainConfig) -> list[str]:
    """Code of the user's own that settings name, as MODULE:NAME."""
    factory = config.network.factory
    named = [config.env, *([factory] if isinstance(factory, str) else [])]
    return [name for name in named if ":" in name]


def train(options: Any) -> int:
    """Train, and print the result in seconds and steps."""
    from tianji.launch.supervisor import RoleFailed
    from tianji.run.training import check, check_state
    from tianji.run_folder import RunFolder, check_new, state_path

    config = settings(options)
    if options.out is not None:
        check_new(options.out)
    description = check(config)
    print(
        f"{config.algo} on {config.env}: {_groups(config)}{config.actors} actor{'s' * (config.actors > 1)} x "
        f"{config.envs_per_actor} environments, seed {config.seed}",
        flush=True,
    )
    if options.dry_run:
        from tianji.run.preview import preview

        if options.resume is not None:
            check_state(RunFolder(options.resume), config, description)
        print("\n".join(preview(config, description)))
        place = "would keep no files: there is no --out" if options.out is None else f"would write to {options.out}"
        place = f"would go on with the run in {options.resume}" if options.resume is not None else place
        print(f"{place}\ndry run: nothing was started or written")
        return DONE
    try:
        result = _train(options, config)
    except RoleFailed as error:
        print(f"tianji: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        # For instance a full disk or a removed folder. All processes have ended by now.
        print(f"tianji: {error.filename or options.resume or options.out}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    mean = "no episode finished" if result.mean_return is None else f"mean return of the last episodes {result.mean_return:.1f}"
    print(f"{result.steps:,} steps, {result.version:,} updates, {result.episodes:,} episodes in {result.seconds:.1f} s; {mean}")
    if config.stop_return is not None:
        print(_verdict(config.stop_return, result.reached_s, result.reached_steps, result.outcome))
    if (folder := options.resume or options.out) is not None:
        stored = all(state_path(RunFolder(folder).state, group).exists() for group in range(config.groups))
        goes_on = f"`--resume {folder}` goes on with it" if stored else "nothing was stored that `--resume` could go on from"
        own = " --trust" if code_of(config) else ""
        print(f"the run is in {folder}: `tianji evaluate {folder}{own}` plays its policy, {goes_on}")
    return INTERRUPTED if result.outcome == "interrupted" else DONE


def _train(options: Any, config: TrainConfig) -> Result:
    """Train, and show progress."""
    from tianji.launch.supervisor import Trouble
    from tianji.run.display import Display, Live
    from tianji.run.training import train as run_training
    from tianji.run_folder import RunFolder

    folder, live = options.resume or options.out, Live()
    # Training reports if nothing was stored.
    if options.resume is not None and (run_folder := RunFolder(options.resume)).progress.exists():
        live.go_on(run_folder.read_tally())
    with ExitStack() as stack:
        displays = [] if options.quiet else [stack.enter_context(Display(config, live))]
        curves: list[Curves] = []

        def listen(message: Heard) -> None:
            if isinstance(message, Trouble):
                print(f"tianji: {message.text}", file=sys.stderr, flush=True)
            news = live.see(message)
            for display in displays:
                display.show(message, news)
            if news and folder is not None:
                if not curves:
                    # Opened at the first record: the import takes a while, and roles are starting.
                    from tianji.run.tensorboard import Curves

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
    from tianji.policy import load_policy
    from tianji.run.play import Player, games_of
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
        # A run's configuration is as trusted as a file given with --config.
        factory = config.network.factory
    if config is not None:
        check_trust(config, options.policy, (options.env, options.network), trusted=options.trust)
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


def plan(options: Any) -> int:
    """Print what is predicted for a cluster."""
    from rich.console import Console

    from tianji.run import plan as planned
    from tianji.run.training import check
    from tianji.worlds.calibration import load

    if options.machine is None:
        raise ConfigError(
            "plan: --machine is missing; `python -m suites calibrate --out FILE` measures this machine in minutes"
        )
    if not 2 <= options.nodes <= planned.MOST_NODES:
        raise ConfigError(f"--nodes {options.nodes}: a plan is for 2 to {planned.MOST_NODES} nodes")
    for name in ("gbit", "price_per_node_hour"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"--{name.replace('_', '-')} {value:g}: must be a positive number")
    if options.simulator_cores is not None and not 1 <= options.simulator_cores <= planned.MOST_SIMULATOR_CORES:
        raise ConfigError(f"--simulator-cores {options.simulator_cores}: must be 1 to {planned.MOST_SIMULATOR_CORES}")
    if options.simulator_cores is not None and options.actors is not None:
        raise ConfigError("--actors and --simulator-cores exclude each other: a split says how many actors there are")
    if options.serial is not None and (options.simulator_cores is None or not 0 <= options.serial <= 1):
        raise ConfigError(f"--serial {options.serial:g}: a share from 0 to 1, and only with --simulator-cores")
    calibration = load(options.machine)
    machine, assumed = planned.cluster(calibration, options.gbit)
    chosen = Namespace(**dict.fromkeys((*NAMED, "resume", "config")), set=[])
    chosen.env, chosen.algo = options.env, "ppo"
    cores = min(machine.cores, PPOConfig.environments)
    chosen.actors = max(1, int(cores)) if options.actors is None else options.actors
    config = settings(chosen)
    describe = check(config)
    workload, source = planned.known(calibration, config, describe), f"calibrated on {calibration.measured_on}"
    if workload is None:
        print(f"{options.env} is not in {options.machine}: measuring it here for some seconds", file=sys.stderr, flush=True)
        workload, source = options.env, "measured now, on this machine"
        work = planned.measured_now(config, describe)
        calibration = msgspec.structs.replace(calibration, work={workload: work})
    link = machine.link_bytes_per_s * 8 / 1e9
    each = f"{config.actors} actors x {config.envs_per_actor} environments"
    if options.simulator_cores is not None:
        each = f"{options.simulator_cores} simulator cores, rounds of {config.round_steps:,} samples"
    print(f"predicted, not measured: PPO on {options.env}, {options.nodes} nodes of {each}, {link:g} Gbit/s")
    split = {"simulator_cores": options.simulator_cores, "serial": options.serial or 0.0}
    found = list(planned.lines(config, describe, calibration, workload, machine, options.nodes, **split))
    Console().print(planned.table(found, options.nodes, options.price_per_node_hour))
    print("\n".join([f"{planned.rounds_of(options.nodes)} rounds of each node simulated; work {source}", *assumed]))
    return DONE


def disciplines(options: Any) -> int:
    """Print the table of all disciplines."""
    from tianji.disciplines.registry import table

    print("\n".join(table()))
    return DONE


def keys(options: Any) -> int:
    """Make a run's key file."""
    from tianji.channel.base import ChannelError
    from tianji.channel.security import Keys

    try:
        Keys.generate().write(options.file)
    except ChannelError as error:
        raise ConfigError(f"keys: {error}") from None
    print(f"{options.file}: new keys; anyone who has this file can join the run, so copy it to its hosts and nowhere else")
    return DONE


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    return {"train": train, "evaluate": evaluate, "plan": plan, "disciplines": disciplines, "keys": keys}[options.command](
        options
    )


def console() -> int:
    """The `tianji` command."""
    return run("tianji", main)


if __name__ == "__main__":
    sys.exit(console())
