"""`tianji plan`: print what is predicted for a cluster."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from programs.cli import DONE, ConfigError
from tianji.commands.settings import NAMED, settings
from tianji.hyperparameters import PPOConfig

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add(commands: _SubParsersAction[Any]) -> None:
    """Add the command to those of `tianji`."""
    one = commands.add_parser("plan", help="predict what each discipline and topology would give on a cluster")
    one.set_defaults(run=plan)
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


def plan(options: Namespace) -> int:
    """Print what is predicted for a cluster."""
    from rich.console import Console

    from tianji.run.training import check
    from tianji.simulation import planning as planned
    from tianji.simulation.calibration import load

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
