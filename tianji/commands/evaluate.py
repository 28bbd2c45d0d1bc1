"""`tianji evaluate`: play a stored policy, and print its mean return."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from programs.cli import DONE, ConfigError
from tianji.commands.trust import TRUST, check_trust

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("evaluate", help="play a policy greedily")
    one.set_defaults(run=evaluate)
    one.add_argument("policy", type=Path, metavar="RUN|FILE.safetensors", help="a run's folder, or a policy")
    one.add_argument("--env", metavar="ID", help="as for train; needed for a policy that comes without its run")
    one.add_argument(
        "--network", metavar="MODULE:FUNCTION", help="what made the policy's network, if it was trained with network.factory"
    )
    one.add_argument("--trust", action="store_true", help=TRUST)
    one.add_argument("--episodes", type=int, default=20, metavar="N", help="episodes to play (default: %(default)s)")
    one.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the first episode; later ones count up (default: %(default)s)"
    )


def evaluate(options: Namespace) -> int:
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
