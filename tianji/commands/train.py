"""`tianji train`: train, show progress, and print the result in seconds and steps."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, FAILED, INTERRUPTED
from tianji.commands.settings import add_setting, settings
from tianji.commands.trust import TRUST, code_of
from tianji.config import TrainConfig
from tianji.hyperparameters import DQNConfig, PPOConfig

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tianji.launch.events import Heard
    from tianji.run.curves import Curves
    from tianji.run.watch import Result


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("train", help="train a policy")
    one.set_defaults(run=train)
    environments = f"{PPOConfig.environments}, or {DQNConfig.environments} for dqn"
    one.add_argument(
        "--env",
        metavar="ID",
        help="a Gymnasium environment: a registered id, or MODULE:CLASS of your own (required)",
    )
    one.add_argument(
        "--env-arg", action="append", default=[], metavar="NAME=VALUE", help="an argument of the environment's constructor"
    )
    add_setting(one, "algo", "the algorithm")
    one.add_argument("--config", type=Path, metavar="FILE.toml", help="settings, as `tianji.TrainConfig` has them")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, e.g. ppo.learning_rate=1e-3")
    add_setting(one, "actors", "actor processes of each group", "N", default=f"one per core, at most {environments}")
    add_setting(one, "envs_per_actor", "environments of each actor", "M", default=f"{environments}, divided by the actors")
    add_setting(one, "groups", "learners with actors of their own, averaged by a Root", "G")
    add_setting(one, "world", "real processes, or all roles in one process, repeatable bit for bit")
    add_setting(one, "seed", "seed of the run", "S")
    add_setting(one, "stop_return", "mean return of the last 100 episodes to stop at", "R", default="no such limit")
    add_setting(one, "stop_steps", "environment steps to stop at", "N")
    add_setting(one, "stop_seconds", "seconds to stop after", "T", default="no such limit")
    add_setting(one, "device", "device of the learner")
    add_setting(one, "launcher", "where processes run: this host, or a running Ray cluster")
    add_setting(one, "ray_address", "address of the Ray cluster", "HOST:PORT")
    one.add_argument("--out", type=Path, metavar="DIR", help="a new folder for the run: policy, state, curves, result")
    one.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder, with its settings")
    one.add_argument("--dry-run", action="store_true", help="check everything, show what would run, and start nothing")
    one.add_argument("--trust", action="store_true", help=TRUST)
    one.add_argument("--quiet", action="store_true", help="show nothing while it goes on")


def train(options: Namespace) -> int:
    """Train, and print the result in seconds and steps."""
    from tianji.launch.events import RoleFailed
    from tianji.run.training import check, check_state, formed, settled
    from tianji.run_folder import RunFolder, check_new, state_path

    config = settings(options)
    if options.out is not None:
        check_new(options.out)
    description = check(config)
    config = formed(config, description)
    print(
        f"{config.algo} on {config.env}: {_groups(config)}{config.actors} actor{'s' * (config.actors > 1)} x "
        f"{config.envs_per_actor} environments{' as one vector' * bool(description.autoreset)}, seed {config.seed}",
        flush=True,
    )
    if options.dry_run:
        config = settled(config, description)
        from tianji.run.preview import preview

        if options.resume is not None:
            check_state(RunFolder(options.resume), config, description, print)
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


def _train(options: Namespace, config: TrainConfig) -> Result:
    """Train, and show progress."""
    from tianji.launch.events import Trouble
    from tianji.run.display import Display, Live
    from tianji.run.loggers import LOGGERS
    from tianji.run.training import train as run_training
    from tianji.run_folder import RunFolder

    folder, live = options.resume or options.out, Live()
    for name in config.loggers:
        LOGGERS.get(name)  # An unknown one is refused before anything starts.
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
                    from tianji.run.curves import Curves

                    plain = msgspec.to_builtins(config)
                    made = [LOGGERS.get(name)(folder, plain) for name in config.loggers]
                    curves.append(stack.enter_context(Curves(made)))
                curves[0].add(live)

        return run_training(config, listen, out=folder, resume=options.resume is not None)


def _groups(config: TrainConfig) -> str:
    return f"{config.groups} groups of " if config.groups > 1 else ""


def _verdict(threshold: float, reached_s: float | None, steps: int | None, outcome: str) -> str:
    if reached_s is not None and steps is not None:
        return f"reached a mean of {threshold:g} over 100 episodes after {reached_s:.2f} s and {steps:,} steps"
    ended = "interrupted" if outcome == "interrupted" else f"ended by its limit of {outcome}"
    return f"{ended} before a mean of {threshold:g} over 100 episodes"
