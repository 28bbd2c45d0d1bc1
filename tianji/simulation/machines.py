"""Machines of the simulated world: nodes whose processes share cores, and links between them.

Times are whole nanoseconds on the clock of the simulation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from msgspec import Struct

QUANTUM_NS = 5_000_000
"""Longest piece of computation. Its speed follows from the load at its start, so a change of load counts after this time."""

PERIODS_KEPT = 1000
"""Latest periods of a quota of which a node knows how much was used."""


class Machine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A kind of node. The defaults are of a machine that costs nothing but the work itself.

    In a file they are left out, as JSON has no infinity.
    """

    cores: float = math.inf
    """Number of cores, or a share of one."""
    period_seconds: float = 0.0
    """Period of a quota: in each, processes compute at full speed until together they have used `cores` times the period. 0:
    cores are shared evenly at every moment."""
    wake_seconds: float = 0.0
    """From the arrival of a message at a process that waits to its first instruction."""
    hop_seconds: float = 0.0
    """From the sending of a message to its arrival at another process of the node."""
    message_seconds: float = 0.0
    """Computation for a message, of which its sender and its receiver do half each."""
    copy_bytes_per_s: float = math.inf
    """Speed at which a sender copies bodies."""
    latency_seconds: float = 0.0
    """Of the link to another node, one way."""
    link_bytes_per_s: float = math.inf
    """Bandwidth of a node's link, each way."""


@dataclass
class Node:
    """One node: who computes on it until when, and until when its link is busy each way."""

    machine: Machine
    out_ns: int = 0
    """Time at which everything that was sent has left."""
    in_ns: int = 0
    """Time at which everything that arrived has been taken in."""
    out_busy_ns: int = 0
    """For how long its link has carried what leaves it."""
    in_busy_ns: int = 0
    """For how long its link has carried what reaches it."""
    processes: int = 0
    """Number of processes on it."""
    _until: dict[Hashable, int] = field(default_factory=dict)
    """By process, the end of its latest piece of computation."""
    _used: dict[int, int] = field(default_factory=dict)
    """By period of a quota, how much of it is used."""

    @property
    def crowded(self) -> bool:
        """Whether a process may have to share a core."""
        return self.processes > self.machine.cores

    def compute(self, process: Hashable, start_ns: int, work_ns: int, *, last: bool = False) -> int:
        """Begin a piece of a process's computation that takes so long on a core of its own, and return its end.

        Processes share cores evenly (processor sharing): with n of them on c cores each has the speed min(1, c / n). A process
        whose piece ends at this very time counts, because it goes on with the next, unless that was the last one. With a quota
        they compute side by side until it is used up (as by Linux' CFS bandwidth control), and go on in the next period.
        """
        took = work_ns
        if self.crowded and self.machine.period_seconds:
            return self._within_quota(start_ns, work_ns)
        if self.crowded:
            others = sum(end >= start_ns for other, end in self._until.items() if other != process)
            took = math.ceil(work_ns * max(1.0, (others + 1) / self.machine.cores))
            self._until[process] = start_ns + took - last
        return start_ns + took

    def _within_quota(self, now_ns: int, work_ns: int) -> int:
        """Take a piece out of the periods' quotas from this time on, and return its end."""
        period_ns = round(self.machine.period_seconds * 1e9)
        quota_ns = max(1, round(self.machine.cores * period_ns))
        while True:
            number = now_ns // period_ns
            used_ns = self._used.get(number, 0)
            piece_ns = min(work_ns, quota_ns - used_ns, (number + 1) * period_ns - now_ns)
            self._used[number] = used_ns + piece_ns
            work_ns -= piece_ns
            if not work_ns:
                break
            now_ns = (number + 1) * period_ns
        # Clocks of processes are little apart, so that nobody asks for periods long ago.
        while len(self._used) > PERIODS_KEPT:
            del self._used[next(iter(self._used))]
        return now_ns + piece_ns


def carried(source: Node, target: Node, size_bytes: int, sent_ns: int) -> int:
    """Time at which a message arrives that one node sends to another.

    It waits until earlier ones have left the source's link. Its first bit then takes the latency, and it waits until the
    target's link has taken earlier ones in. A fast link passes on what arrives at once, so the slower of the two links sets
    the time for all bits.
    """
    out, into = source.machine, target.machine
    source.out_ns = max(source.out_ns, sent_ns)
    first_ns = source.out_ns + math.ceil(out.latency_seconds * 1e9)
    leaves_ns = math.ceil(size_bytes / out.link_bytes_per_s * 1e9)
    arrives_ns = math.ceil(size_bytes / min(out.link_bytes_per_s, into.link_bytes_per_s) * 1e9)
    source.out_ns += leaves_ns
    source.out_busy_ns += leaves_ns
    target.in_ns = max(target.in_ns, first_ns) + arrives_ns
    target.in_busy_ns += arrives_ns
    return target.in_ns
