"""The `doctor` command: what this machine can and cannot measure, on one screen."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from suites.components.revision import Revision, Worker
from suites.components.session import both, in_turns
from suites.records import machine
from suites.statistics.comparison import Side
from suites.testbed import netns, registry

State = Literal["yes", "no", "careful"]
PARTS = ("sampling", "updates-ppo", "channel-shm")
TURNS, SECONDS = 16, 0.1
"""Number of turns of each part and side, and seconds of each turn."""
NOISY = 0.10
"""A difference that five blocks cannot tell apart: above this, results here are hard to publish."""
BLOCKS = 5
ENOUGH_CORES = 2
MEMORY_BYTES = 8 << 30


class Ability(NamedTuple):
    """One line."""

    what: str
    state: State
    says: str


def findings(*, measure: bool) -> Iterator[Ability]:
    """Everything, in the order of the screen.

    Parameters
    ----------
    measure
        whether the noise floor is measured, which takes a quarter of a minute.
    """
    found = machine.manifest()
    yield from hardware(found)
    emulated = registry.unavailable("netns")
    yield Ability("eight emulated nodes", "no" if emulated else "yes", emulated or "scaling suite: --testbed netns")
    hosts = netns.unavailable()
    yield Ability("two emulated hosts", "no" if hosts else "yes", hosts or "transmission suite: links of 1 Gbit/s and unshaped")
    delays = None if hosts else netns.delays()
    if delays is not None:
        yield Ability(
            "delays on links",
            "yes" if delays else "no",
            "netem" if delays else "this kernel has no netem: links have a rate, and no delay",
        )
    yield gpu()
    if measure:
        yield noise()


def hardware(found: dict[str, Any]) -> Iterator[Ability]:
    """Abilities that depend on cores, memory and other load."""
    cores, quota = found["cpu_usable"], found["cpu_quota_cores"]
    few = cores < ENOUGH_CORES or (quota is not None and quota < ENOUGH_CORES)
    limit = "" if quota is None else f", of which a quota grants {quota:g}"
    words = "; actors and learner take turns" if few else ""
    yield Ability(
        "cores", "careful" if few else "yes", f"{cores} usable of {found['cpu_count']}{limit}: {found['cpu_model']}{words}"
    )
    memory = found["memory_bytes"]
    little = memory < MEMORY_BYTES
    yield Ability(
        "memory", "careful" if little else "yes", f"{memory / 2**30:.1f} GiB" + ("; RLlib on nodes needs 8" if little else "")
    )
    load = found["load_1min_at_start"]
    busy = load > 0.5 * cores
    yield Ability(
        "idle",
        "careful" if busy else "yes",
        f"load {load} over one minute" + ("; other work makes results noisy" if busy else ""),
    )


def gpu() -> Ability:
    """Whether updates can be computed on a GPU."""
    if find_spec("torch") is None:
        return Ability("GPU", "no", "torch is not installed")
    import torch

    if not torch.cuda.is_available():
        return Ability("GPU", "no", "torch finds no CUDA device: 84x84 Atari trains at a few hundred steps/s")
    return Ability("GPU", "yes", str(torch.cuda.get_device_name(0)))


def noise() -> Ability:
    """The same code against itself, in turns."""
    own = Revision("this revision", sys.executable, machine.ROOT)
    sides: tuple[Side, ...] = ("base", "head")
    with ExitStack() as stack:
        workers = {side: stack.enter_context(Worker(own)) for side in sides}
        for worker in workers.values():
            worker.hello()
        for name in PARTS:
            both(workers, {"prepare": name, "seed": 0})
        pairs = in_turns(workers, PARTS, TURNS, SECONDS)
    return judged({name: [math.log(one / other) for one, other in found] for name, found in pairs.items()})


def judged(logs: Mapping[str, Sequence[float]]) -> Ability:
    """Smallest difference that can be detected, from ratios of the same code to itself."""
    spread = {name: statistics.stdev(values) for name, values in logs.items()}
    # Student's t on the logarithms of five ratios.
    from scipy.special import stdtrit

    apart = math.expm1(float(stdtrit(BLOCKS - 1, 0.975)) * max(spread.values()) / math.sqrt(BLOCKS))
    said = ", ".join(f"{name} {value:.1%}" for name, value in spread.items())
    state: State = "careful" if apart > NOISY else "yes"
    return Ability(
        "noise floor",
        state,
        f"the same against itself scatters by {said} (turns of {SECONDS:g} s); "
        f"{BLOCKS} blocks like these tell {apart:.0%} apart"
        + ("; run it again when the machine is quiet" if state == "careful" else ""),
    )
