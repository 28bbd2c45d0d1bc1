"""Simulates a run of many groups with a Root, a node each: `python -m benchmarks.many_groups --groups 1,64,4096`.

Times of work are stated on the command line, so a line says where this topology bends if work takes these times, and what the
simulation itself costs. Weights are those of the network of `cartpole-ppo-zoo`. `--fan-in` puts Roots in a tree.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tianji.config import PPOConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription
from tianji.messages import Done, FromRole
from tianji.simulation.machines import Machine
from tianji.simulation.world import Simulation

CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, Actions.of(2))
STEPS, ENVIRONMENTS = 32, 8
"""Steps of a fragment, and environments of an actor."""


@dataclass(frozen=True)
class Stated:
    """Times of work, in seconds."""

    fragment_s: float
    round_s: float
    model_s: float
    """Of a mean, for each model in it."""

    def fragment(self, actor: int) -> tuple[float, float]:
        return 0.0, self.fragment_s

    def round(self, group: int, samples: int) -> float:
        return self.round_s

    def mean(self, models: int) -> float:
        return models * self.model_s


@dataclass(frozen=True)
class Outcome:
    """What a simulation gave, and what it cost."""

    steps_per_s: float
    """Environment steps a second of the simulated clock."""
    processor_s: float
    """Processor time of the simulation."""


def simulated(
    groups: int, rounds: int, actors: int, discipline: str, machine: Machine, times: Stated, fan_in: int | None = None
) -> Outcome:
    """Simulate so many rounds of every group."""
    config = TrainConfig(
        env=CARTPOLE.env,
        groups=groups,
        fan_in=fan_in,
        actors=actors,
        envs_per_actor=ENVIRONMENTS,
        chunk_slots=4,
        ppo=PPOConfig(rollout_steps=STEPS, minibatch_size=STEPS * ENVIRONMENTS * actors),
        discipline=discipline,
        stop_steps=rounds * groups * actors * STEPS * ENVIRONMENTS,
        snapshot_every_steps=1 << 50,
    )

    def ends(message: FromRole) -> str | None:
        return "steps" if isinstance(message, Done) else None

    began = time.process_time()
    run = Simulation(config, CARTPOLE, times, machine=machine, nodes=groups, on_message=ends)
    run.run()
    return Outcome(config.stop_steps / (run.now_ns / 1e9), time.process_time() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each number of groups."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_groups", description="Simulate many groups with a Root.")
    parser.add_argument("--groups", default="1,8,64", metavar="N,M,...", help="numbers of groups (default: %(default)s)")
    parser.add_argument(
        "--fan-in", default="none", metavar="N,M,...", help="most children of a Root; none: one Root (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="rounds of each group (default: %(default)s)")
    parser.add_argument("--actors", type=int, default=1, metavar="N", help="actors of each group (default: %(default)s)")
    parser.add_argument("--discipline", default="strict", metavar="NAME", help="(default: %(default)s)")
    parser.add_argument("--gbit", type=float, default=10.0, metavar="X", help="bandwidth of a link (default: %(default)s)")
    parser.add_argument("--latency-us", type=float, default=50.0, metavar="X", help="one way (default: %(default)s)")
    parser.add_argument(
        "--fragment-ms", type=float, default=50.0, metavar="X", help="time of a fragment (default: %(default)s)"
    )
    parser.add_argument("--round-ms", type=float, default=20.0, metavar="X", help="time of a round (default: %(default)s)")
    parser.add_argument(
        "--model-us", type=float, default=10.0, metavar="X", help="time of a mean, for each model in it (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    machine = Machine(latency_seconds=options.latency_us / 1e6, link_bytes_per_s=options.gbit * 1e9 / 8)
    times = Stated(options.fragment_ms / 1e3, options.round_ms / 1e3, options.model_us / 1e6)
    print("| groups | fan-in | steps/s | a group's share of one alone | processor time, s | peak memory so far, MB |")
    print("|---|---|---|---|---|---|")
    numbers = [int(number) for number in options.groups.split(",")]
    widths = [None if width == "none" else int(width) for width in options.fan_in.split(",")]
    alone = simulated(1, options.rounds, options.actors, options.discipline, machine, times).steps_per_s
    for groups, fan_in in itertools.product(numbers, widths):
        found = simulated(groups, options.rounds, options.actors, options.discipline, machine, times, fan_in)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        share = found.steps_per_s / groups / alone
        cells = (
            groups,
            fan_in or "none",
            f"{found.steps_per_s:,.0f}",
            f"{share:.3f}",
            f"{found.processor_s:.1f}",
            f"{peak:.0f}",
        )
        print(f"| {' | '.join(map(str, cells))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
