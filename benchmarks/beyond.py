"""Predicts throughput on up to 4,096 nodes, where it bends and what binds: `python -m benchmarks.beyond --out FILE`.

It simulates the experiment `ppo-cpu-weak` of the scaling suite. What work takes comes from the recorded cells on one and two
nodes, as means, because those records keep no distributions. Everything that is printed or written is predicted.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from baselines.workload import Workload
from programs.cli import ConfigError
from suites.records import archive, forecasts
from suites.records import machine as machines
from suites.records.bundle import Bundle, BundleError
from suites.records.events import Counter, Process
from suites.records.forecasts import Forecasts, Point, Topology
from suites.session import catalogue
from suites.statistics import usl
from tianji.config import PPOConfig, TrainConfig
from tianji.environments.actions import Actions
from tianji.environments.description import EnvDescription
from tianji.simulation.forecast import ENDLESS, forecast
from tianji.simulation.machines import Machine

EXPERIMENT, WORKLOAD = "ppo-cpu-weak", "cartpole-ppo-nodes"
RECORDED = Path("results/reference/scaling/ppo-five-blocks.parquet")
CARTPOLE = EnvDescription("CartPole-v1", (4,), "<f4", 0, Actions.of(2))
LATENCY_S = 50e-6
SYSTEMS = {("groups", "strict"): "tianji", ("one learner", "strict"): "tianji-one-learner"}
"""Systems of the scaling suite that run like this."""
TOPOLOGIES: tuple[Topology, ...] = ("groups", "one learner")
DISCIPLINES = ("strict", "relaxed")
SMALL, BEYOND = (1, 2, 3, 4, 6, 8), (16, 64, 256, 1024, 4096)
EXTRAPOLATED_TO = 512
COSTLY = {("groups", "relaxed"): 256}
"""Most nodes, where more would cost minutes each. Relaxed groups never wait for the Root, so more would tell little."""
WARM_UP = 2
"""Rounds before a window, at least. Times are constant, so a run is soon as it stays."""
AT_A_TIME = 1 << 12
"""Rounds of a window, over all nodes: with many nodes there are fewer of each."""
FEWEST_ROUNDS, MOST_ROUNDS = 4, 32


@dataclass(frozen=True)
class Recorded:
    """Times of work as recorded cells have them, in seconds of a core (`tianji.simulation.stand_ins.Times`)."""

    fragment_s: float
    samples_s: float
    """Of a learner's updates, with the buffer's work, for each sample of the round."""
    message_s: float
    model_s: float
    """Of a mean, for each model in it, and of an adoption."""
    cores: float
    """Budget of a node."""
    link_bits_per_s: float

    def fragment(self, actor: int) -> tuple[float, float]:
        return self.fragment_s, 0.0

    def round(self, group: int, samples: int) -> float:
        return samples * self.samples_s

    def mean(self, groups: int) -> float:
        return groups * self.model_s


MESSAGES_ACTOR, MESSAGES_LEARNER = 1, 4
"""Messages of a round of a group with one actor. The actor sends a chunk. It goes on to the learner, the slot comes back over
both edges, and weights follow."""


def recorded(bundles: Iterable[Bundle]) -> Recorded:
    """Times of work from cells on one node, and for the Root on two.

    A process that computes alone on a node with a budget of c cores gets c seconds of a core a second. Strict roles compute one
    after another, so their busy seconds times c are seconds of a core. Sending is part of the work of a fragment or a round,
    except for what a message costs at the Root: that is what grows with the nodes.

    Raises
    ------
    ConfigError
        if there are no such cells.
    """
    cells = [b for b in bundles if (b.manifest.workload, b.manifest.system) == (EXPERIMENT, "tianji")]
    single, double = ([b for b in cells if b.manifest.nodes == nodes] for nodes in (1, 2))
    if not single or not double:
        raise ConfigError(f"these sessions have no cells of {EXPERIMENT} with `tianji` on one node and on two")
    regime = single[0].manifest.configuration["regime"]
    samples = fmean(_count(b, "learner_steps", "learner g0") for b in single)
    per_round = PPO_STEPS * single[0].manifest.configuration["workload"]["environments"]
    rounds = samples / per_round
    cores = float(regime["cores"])

    def busy(cells: Sequence[Bundle], role: str, *causes: str) -> float:
        return cores * fmean(_busy(b, role, causes) for b in cells)

    # A Root's message to a group, of which each mean has two here. It is what counts with many nodes.
    means = fmean(_count(b, "root_means_published", "root") for b in double)
    message_s = busy(double, "root", "send") / means / 2
    fragment_s = busy(single, "actor g0.a0", "env", "infer", "send") / rounds
    round_s = (busy(single, "learner g0", "update", "send") + busy(single, "buffer g0", "send")) / rounds
    return Recorded(
        fragment_s=fragment_s - MESSAGES_ACTOR * message_s,
        samples_s=(round_s - MESSAGES_LEARNER * message_s) / per_round,
        message_s=message_s,
        model_s=busy(double, "root", "update") / means / 2,
        cores=cores,
        link_bits_per_s=float(regime["link_bits_per_s"]),
    )


PPO_STEPS = 32
"""Steps of a fragment in this workload."""


def _busy(bundle: Bundle, role: str, causes: Sequence[str]) -> float:
    process = next(e for e in bundle.events if isinstance(e, Process) and e.role == role)
    return sum(process.busy_s.get(cause, 0.0) for cause in causes)


def _count(bundle: Bundle, name: str, role: str) -> float:
    return next(e.value for e in bundle.events if isinstance(e, Counter) and (e.name, e.role) == (name, role))


def point(workload: Workload, times: Recorded, topology: Topology, discipline: str, gbit: float, nodes: int) -> Point:
    """Simulate a number of nodes."""
    groups = nodes if topology == "groups" else 1
    config = TrainConfig(
        env=workload.env,
        groups=groups,
        actors=nodes // groups,
        envs_per_actor=workload.environments,
        chunk_slots=2 if discipline == "strict" else 8,
        fusion_rounds=workload.fusion_rounds,
        # As recorded.
        placement="apart",
        network=workload.network,
        ppo=workload.ppo or PPOConfig(),
        discipline=discipline,
        stop_steps=ENDLESS,
    )
    machine = Machine(
        cores=times.cores,
        message_seconds=times.message_s,
        latency_seconds=LATENCY_S,
        link_bytes_per_s=gbit * 1e9 / 8,
    )
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, AT_A_TIME // nodes))
    if groups > 1:
        # Whole exchanges with the Root.
        rounds = -(-rounds // workload.fusion_rounds) * workload.fusion_rounds
    found = forecast(config, CARTPOLE, times, machine, nodes, rounds, warm_up=WARM_UP)
    return Point(
        topology=topology,
        discipline=discipline,
        gbit=gbit,
        nodes=nodes,
        rounds=rounds,
        samples_per_s=found.steps_per_s,
        age_rounds=found.age_rounds,
        binds=found.binds,
        system=SYSTEMS.get((topology, discipline)),
    )


Cell = tuple[Topology, str, float, int]
"""Topology, discipline, bandwidth in Gbit/s, and nodes."""


def _most(cell: Cell) -> int:
    """Most nodes to simulate in such a cell."""
    topology, rule, _, _ = cell
    return COSTLY.get((topology, rule), BEYOND[-1])


@dataclass(frozen=True)
class Extrapolation:
    """A law fitted to small runs, against the simulation of a large one."""

    sigma: float
    kappa: float
    law: float
    simulated: float

    @property
    def ratio(self) -> float:
        """Extrapolated over simulated throughput."""
        return self.law / self.simulated


def extrapolated(points: Iterable[Point], nodes: int) -> Extrapolation:
    """Fit the Universal Scalability Law to the points on 1 to 8 nodes, and compare it with the point on `nodes`."""
    own = {one.nodes: one.samples_per_s for one in points}
    small = [n for n in SMALL if n in own]
    law = usl.fit(small, [own[n] for n in small])
    return Extrapolation(law.sigma, law.kappa, float(law.throughput(nodes)), own[nodes])


def lines(points: Sequence[Point]) -> list[str]:
    """A Markdown table of points, and after it what extrapolations are worth."""
    found = ["| predicted: topology | discipline | Gbit/s | nodes | samples/s | a node's share of one | binds |"]
    found.append("|---|---|---|---|---|---|---|")
    for one in points:
        alone = next(p for p in points if p.nodes == 1 and (p.topology, p.discipline) == (one.topology, one.discipline))
        share = one.samples_per_s / one.nodes / alone.samples_per_s
        cells = f"{one.nodes:,} | {one.samples_per_s:,.0f} | {share:.3f} | {one.binds}"
        found.append(f"| {one.topology} | {one.discipline} | {one.gbit:g} | {cells} |")
    for topology, discipline in dict.fromkeys((p.topology, p.discipline) for p in points):
        # Small runs are simulated at the measured bandwidth alone.
        own = [p for p in points if (p.topology, p.discipline, p.gbit) == (topology, discipline, points[0].gbit)]
        if {EXTRAPOLATED_TO, *SMALL} <= {p.nodes for p in own}:
            law = extrapolated(own, EXTRAPOLATED_TO)
            found.append(
                f"{topology}, {discipline}, {points[0].gbit:g} Gbit/s: a law fitted to 1 to 8 simulated nodes (sigma "
                f"{law.sigma:.5f}, kappa {law.kappa:.7f}) gives {law.law:,.0f} samples/s on {EXTRAPOLATED_TO} nodes; "
                f"the simulation gives {law.simulated:,.0f}: {law.ratio:.2f} times as many by the law"
            )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the predictions, and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beyond", description="Predict throughput on up to 4,096 nodes.")
    parser.add_argument("--recorded", type=Path, default=RECORDED, metavar="FILE", help="sealed session (default: %(default)s)")
    parser.add_argument("--most", type=int, default=BEYOND[-1], metavar="N", help="most nodes (default: %(default)s)")
    parser.add_argument("--disciplines", default=",".join(DISCIPLINES), metavar="A,B", help="(default: %(default)s)")
    parser.add_argument("--gbit", default="1,10,100", metavar="X,Y,...", help="bandwidths of links (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar=f"FILE{forecasts.SUFFIX}", help="a file for the predictions")
    options = parser.parse_args(arguments)
    try:
        if options.out is not None and not options.out.name.endswith(forecasts.SUFFIX):
            raise ConfigError(f"--out {options.out}: its name must end with {forecasts.SUFFIX}, by which reports find it")
        if not options.recorded.is_file():
            raise ConfigError(f"--recorded {options.recorded}: no such file")
        rules = [rule for rule in DISCIPLINES if rule in options.disciplines.split(",")]
        try:
            bandwidths = [float(text) for text in options.gbit.split(",")]
        except ValueError:
            raise ConfigError(f"--gbit {options.gbit}: numbers are needed, for instance 1,10") from None
        if not rules or min(bandwidths) <= 0:
            raise ConfigError(f"--disciplines are of {', '.join(DISCIPLINES)}, and --gbit above 0")
        times = recorded(archive.read(options.recorded))
    except (ConfigError, BundleError) as error:
        print(f"beyond: {error}", file=sys.stderr)
        return 2
    commit = machines.manifest()["git_commit"] or "unknown"
    workload = catalogue.load(WORKLOAD)
    link = times.link_bits_per_s / 1e9
    sizes = [(link, n) for n in (*SMALL, EXTRAPOLATED_TO)] + [(gbit, n) for gbit in bandwidths for n in BEYOND]
    cells: list[Cell] = [(topology, rule, *size) for topology in TOPOLOGIES for rule in rules for size in sizes]
    cells = [cell for cell in cells if cell[-1] <= min(options.most, _most(cell))]
    with ProcessPoolExecutor() as pool:
        # The longest first, so that no core is idle at the end.
        order = sorted(cells, key=lambda cell: -cell[-1])
        tasks = {cell: pool.submit(point, workload, times, *cell) for cell in order}
        points = [tasks[cell].result() for cell in cells]
    print("\n".join(lines(points)))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time {usage.ru_utime:.0f} s, peak memory of a process {usage.ru_maxrss / 1024:.0f} MB")
    if options.out is not None:
        command = shlex.join(["python", "-m", "benchmarks.beyond", *(sys.argv[1:] if arguments is None else arguments)])
        stated = {"fragment": times.fragment_s, "sample": times.samples_s, "message": times.message_s, "model": times.model_s}
        forecasts.write(
            Forecasts(
                schema=forecasts.SCHEMA,
                experiment=EXPERIMENT,
                testbed="netns",
                link_gbit=link,
                command=command,
                commit=commit,
                measured_from=options.recorded.name,
                times_s=stated,
                points=points,
            ),
            options.out,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
