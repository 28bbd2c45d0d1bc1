"""Made-up sessions of the scaling suite whose every number is known beforehand.

Totals grow in straight lines from `KINK_S` on, and slower before: a rate that is taken over the steady window alone is exact.
"""

import dataclasses
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from suites.records.bundle import SCHEMA, Manifest, encode_event
from suites.records.events import (
    Counter,
    Episode,
    Evaluation,
    FirstStep,
    NodeCheck,
    NodeUsage,
    Phase,
    Process,
    Progress,
    Snapshot,
)

SECOND = 10**9
START = 1_000 * SECOND
KINK_S = 1.5
"""Until then everything goes at half its pace."""
EVERY_S = 0.4
EPOCHS = 20
PAYLOAD_PER_SAMPLE = 40.0
CORES = 0.2
TITLES = {
    "tianji": "TianJi",
    "tianji-one-learner": "TianJi, one learner",
    "tianji-curve": "TianJi, encrypted",
    "xingtian": "XingTian-style",
    "rllib": "RLlib",
    "rllib-multi-learner": "RLlib, several learners",
    "tianji-copies": "TianJi, copies",
    "xingtian-copies": "XingTian-style, copies",
}


@dataclass(frozen=True)
class Law:
    """What a system does, by the law that is fitted; and how long it takes to the threshold on one node."""

    single: float
    sigma: float
    kappa: float
    seconds: float = 40.0
    overhead: float = 1.01
    busy: float = 0.5

    def throughput(self, nodes: int) -> float:
        return self.single * nodes / (1 + self.sigma * (nodes - 1) + self.kappa * nodes * (nodes - 1))


LAWS = {
    "tianji": Law(1000.0, 0.01, 0.0005, 40.0, 1.008, 0.62),
    "tianji-one-learner": Law(980.0, 0.12, 0.004, 42.0, 1.012, 0.7),
    "xingtian": Law(900.0, 0.2, 0.006, 60.0, 1.15, 0.75),
    "rllib": Law(300.0, 0.3, 0.01, 150.0, 1.9, 0.3),
    "tianji-copies": Law(1000.0, 0.0, 0.0, busy=0.64),
    "xingtian-copies": Law(900.0, 0.0, 0.0, busy=0.78),
}


@dataclass(frozen=True)
class Setting:
    """Where a session is measured."""

    workload: str = "cartpole-ppo-nodes"
    title: str = "CartPole-v1, PPO, so many environments a node"
    regime: dict = field(default_factory=lambda: {"id": "cpu-bound", "cores": CORES, "link_bits_per_s": None})
    scaling: str = "weak"
    testbed: str = "netns"
    trains: bool = True
    """Whether runs train to a threshold."""
    measured_s: float = 10.0
    payload_factor: float = 1.0


def pace(block: int) -> float:
    """What all runs of a block have in common."""
    return 1 + 0.08 * math.sin(7 * block + 1)


def luck(block: int, system: str, nodes: int) -> float:
    """What one run has for itself: about 2 %."""
    return math.exp(random.Random(f"{block} {system} {nodes}").gauss(0, 0.02))


def rate(system: str, nodes: int, block: int, laws=LAWS) -> float:
    """Different samples a second."""
    return laws[system].throughput(nodes) * pace(block) * luck(block, system, nodes)


def seconds_to_threshold(system: str, nodes: int, block: int, laws=LAWS) -> float:
    """As the throughput grows, but samples are used worse on many nodes."""
    law = laws[system]
    return law.seconds * (law.single / law.throughput(nodes)) ** 0.6 * luck(block, system, nodes)


def _grown(rate_per_s: float, seconds: float) -> float:
    return rate_per_s * (seconds - min(seconds, KINK_S) / 2)


def events(system: str, nodes: int, block: int, setting: Setting, laws=LAWS, budget_s: float = 120.0) -> list:
    law, unique = laws[system], rate(system, nodes, block, laws)
    end = setting.measured_s
    found = [Phase(START - SECOND, "setup", 0), FirstStep(START)]
    found += [
        NodeCheck(
            START - SECOND,
            node=node,
            address=f"10.77.0.{node + 1}",
            cores=setting.regime["cores"],
            cores_measured=None if setting.regime["cores"] is None else 0.196 + 0.001 * ((node + block) % 4),
            link_bits_per_s=setting.regime["link_bits_per_s"],
            link_measured_bits_per_s=(setting.regime["link_bits_per_s"] or 9e9) * (0.97 + 0.002 * node),
            round_trip_s=(60 + node) * 1e-6,
        )
        for node in range(nodes)
    ]
    copies = system.endswith("-copies")
    learners = range(nodes) if copies or system == "tianji" else range(1)
    actors = [f"copy {n} actor g0.a0" if copies else f"actor g{n}.a0" for n in range(nodes)]
    trainers = [f"copy {n} learner g0" if copies else f"learner g{n}" for n in learners]
    for place, role in enumerate(actors):
        at = 0.05 * place
        while at <= end:
            counts = {"samples_produced": _grown(1.03 * unique / len(actors), at)}
            found.append(Progress(START + round(at * SECOND), role, counts))
            at += EVERY_S
    for place, role in enumerate(trainers):
        at = 0.03 * place + 0.1
        while at <= end:
            done = _grown(unique / len(trainers), at)
            counts = {"samples_consumed": EPOCHS * done, "samples_consumed_unique": done}
            found.append(Progress(START + round(at * SECOND), role, counts))
            at += EVERY_S
        found.append(Process(START + round(end * SECOND), role, {"update": law.busy * end}, {"samples": 0.1}, 1.0, 1))
    payload = 0.0 if copies or nodes == 1 else setting.payload_factor * PAYLOAD_PER_SAMPLE * unique
    for place, role in enumerate(trainers):
        value = _grown(payload, end) / (2 * len(trainers))
        found.append(Counter(START + round(end * SECOND), "learner_payload_bytes_sent", value, role))
        if place == 0:
            found.append(Counter(START + round(end * SECOND), "actor_payload_bytes_sent", _grown(payload, end) / 2, actors[0]))
    ray = system.startswith("rllib")
    for node in range(nodes):
        # The first node sends twice what another one does.
        share = (2 if node == 0 else 1) / (nodes + 1)
        for step in range(int(end / 0.5) + 1):
            at = step * 0.5
            handed = law.overhead * _grown(payload, at) * share
            found.append(
                NodeUsage(
                    START + round(at * SECOND),
                    node=node,
                    cpu_s=CORES * 0.9 * at,
                    throttled_s=0.05 * at,
                    daemons_cpu_s=0.04 * at if ray else None,
                    wire_sent_bytes=round(1.05 * handed),
                    wire_received_bytes=round(1.05 * handed / 2),
                    socket_bytes=round(handed),
                    control_bytes=round(300 * at),
                )
            )
    if setting.trains and not copies:
        found += _learning(seconds_to_threshold(system, nodes, block, laws), budget_s)
    return found


def _learning(reached_s: float, budget_s: float) -> list:
    """Twenty snapshots over the budget and one exactly when the policy is good from; episodes as good as the policy."""
    found = []
    times = sorted({*(budget_s * i / 20 for i in range(21)), *([reached_s] if reached_s <= budget_s else [])})
    for version, at in enumerate(times):
        good = at >= reached_s
        steps = round(at * 1000)
        found.append(Snapshot(START + round(at * SECOND), steps, version, f"{steps}"))
        found.append(Evaluation(0, steps, version, "curve", [500.0 if good else 20.0] * 3))
        # A nanosecond apart; the mean of a hundred is that of this policy alone.
        found += [Episode(START + round(at * SECOND) + k, 500.0 if good else 20.0, 10, steps) for k in range(100)]
    return found


def write(folder: Path, system: str, nodes: int, block: int, setting: Setting, laws=LAWS, replica=0, **changes) -> Path:
    """One bundle on disk; `changes` are of its manifest."""
    name = f"{setting.workload}.{setting.scaling}.nodes{nodes}.b{block}.{system}{'-again' * replica}"
    directory = folder / name
    directory.mkdir(parents=True)
    # A copy is told what one node is.
    grown = nodes if setting.scaling == "weak" and not system.endswith("-copies") else 1
    workload = {
        "title": setting.title,
        "env": "CartPole-v1",
        "algo": "ppo",
        "environments": 8 * grown,
        "budget_steps": 200_000,
        "thresholds": {"training": 450.0, "evaluated": 475.0},
        "evaluation": {"averaged": 1},
    }
    manifest = Manifest(
        schema=SCHEMA,
        status="completed",
        suite="scaling",
        profile="standard",
        workload=setting.workload,
        system=system,
        system_title=TITLES[system],
        seed=block,
        replica=replica,
        block=block,
        position=0,
        session="made-up",
        testbed=setting.testbed,
        nodes=nodes,
        scaling=setting.scaling,
        cores=2,
        configuration={"workload": workload, "regime": setting.regime, "system": {}},
        deviations=["Nodes are emulated."] if setting.testbed == "netns" else [],
        environment={
            "cpu_usable": 2,
            "cpu_model": "made-up CPU",
            "load_1min_at_start": 0.1,
            "memory_bytes": 2**34,
            "packages": {"numpy": "2"},
        },
        phases_s={"testbed": 3.0 + nodes / 2, "check": 2.0, "setup": 4.0, "measured": setting.measured_s},
    )
    manifest = msgspec.structs.replace(manifest, **changes)
    (directory / "bundle.json").write_bytes(msgspec.json.encode(manifest))
    lines = [encode_event(event) for event in events(system, nodes, block, setting, laws)]
    (directory / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return directory


def session(folder: Path, setting=None, systems=tuple(LAWS), counts=(1, 2, 3, 4, 6, 8), blocks=5) -> Path:
    """Every system on every number of nodes in every block."""
    setting = setting or Setting()
    for block in range(blocks):
        for nodes in counts:
            for system in systems:
                write(folder, system, nodes, block, setting)
    return folder


def edit(directory: Path, **changes) -> None:
    """Change the manifest of a bundle on disk."""
    path = directory / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


LATENCY = dataclasses.replace(
    Setting(),
    workload="waits-ppo-nodes",
    title="A simulator that waits, PPO, so many environments a node",
    regime={"id": "latency-bound", "cores": CORES, "link_bits_per_s": None},
    trains=False,
)
LINK = dataclasses.replace(
    Setting(),
    workload="pong-impala-nodes",
    title="Images, IMPALA, so many environments a node",
    regime={"id": "link-bound", "cores": None, "link_bits_per_s": 10**9},
    trains=False,
    payload_factor=700.0,
)
