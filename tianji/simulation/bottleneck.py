"""What binds a simulated run: the part that its learners spend most of their time on, or wait for.

Shares are of the time of a window, and come from the simulation's own accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FULL = 0.95
"""Share from which on a resource is called full."""


@dataclass(frozen=True)
class Shares:
    """Shares of a window's time, each between 0 and 1.

    Those of learners and actors are means over all of them. The hub is the node that all others send to: the Root's, or the
    only learner's.
    """

    update: float
    """Learners train."""
    send: float = 0.0
    """Learners hand over messages."""
    samples: float = 0.0
    """Learners wait for samples."""
    barrier: float = 0.0
    """Learners wait for the Root's mean."""
    sampling: float = 0.0
    """Actors compute."""
    simulators: float = 0.0
    """Actors wait for their simulators."""
    root: float = 0.0
    """The Root's process computes."""
    hub_out: float = 0.0
    """The hub's link carries what leaves it."""
    hub_in: float = 0.0
    """The hub's link carries what reaches it."""
    hub: str = field(default="learner", kw_only=True)
    """Role that the hub's link belongs to, `Root` or `learner`."""


def binds(shares: Shares) -> str:
    """Name what binds: `learner`, `learner's messages`, `sampling`, `simulators`, `slowest actor`, `slowest group`, `Root's
    core`, or a link of the hub with its direction.

    The largest part of the learners' time decides. Where they wait, it is divided among what they can wait for. What remains of
    it is the time by which the slowest actor or group is later than the mean one. A resource of the hub that is full without
    being the answer is named too: nothing waits for it, and yet more nodes cannot use it.
    """
    links = {f"{shares.hub}'s link, out": shares.hub_out, f"{shares.hub}'s link, in": shares.hub_in}
    core = {"Root's core": shares.root} if shares.hub == "Root" else {}
    parts = {"learner": shares.update, "learner's messages": shares.send, "samples": shares.samples, "barrier": shares.barrier}
    found = _largest(parts)
    if found == "samples":
        of_samples = {"sampling": shares.sampling, "simulators": shares.simulators}
        # Groups exchange samples within a node, so the hub's link is not on their way.
        of_samples |= links if shares.hub == "learner" else {}
        found = _largest(of_samples | {"slowest actor": shares.samples - sum(of_samples.values())})
    elif found == "barrier":
        of_barrier = core | links
        found = _largest(of_barrier | {"slowest group": shares.barrier - sum(of_barrier.values())})
    full = [name for name, share in (core | links).items() if share >= FULL and name != found]
    return "; ".join([found, *(f"{name} is full" for name in full)])


def _largest(parts: dict[str, float]) -> str:
    return max(parts, key=lambda name: parts[name])
