"""What happened in a run: the lines of `events.jsonl`."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

PhaseName = Literal["testbed", "check", "company", "setup", "train", "measured", "teardown"]


class Event(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event"):
    """Base of all events; `ns` is monotonic time on the host of the run."""

    ns: int


class Phase(Event, frozen=True, tag="phase"):
    """A phase begins."""

    name: PhaseName
    wall_ns: int


class FirstStep(Event, frozen=True, tag="first_step"):
    """The measured clock starts."""


class Episode(Event, frozen=True, tag="episode"):
    """An episode ended."""

    episode_return: float = msgspec.field(name="return")
    length: int = 0
    steps: int = 0
    """Environment steps of all actors so far."""


class Snapshot(Event, frozen=True, tag="snapshot"):
    """A policy was published."""

    steps: int
    version: int
    file: str


class Process(Event, frozen=True, tag="process"):
    """A process accounted for its time."""

    role: str
    busy_s: dict[str, float]
    wait_s: dict[str, float]
    cpu_s: float
    peak_rss_bytes: int


class Progress(Event, frozen=True, tag="progress"):
    """How far a process was: totals since its start."""

    role: str
    counts: dict[str, float]


class Counter(Event, frozen=True, tag="counter"):
    """A total of the run, or of one process."""

    name: str
    value: float
    role: str = ""


class NodeCheck(Event, frozen=True, kw_only=True, tag="node_check"):
    """What a node was found to be, by measurement, before the run; None: it has no such limit, or it could not be measured."""

    node: int
    address: str
    cores: float | None = None
    """Its budget."""
    cores_measured: float | None = None
    """Core-seconds a second that a busy process got."""
    link_bits_per_s: int | None = None
    link_measured_bits_per_s: float | None = None
    """Of one TCP connection from this node to another one, Ethernet frames and all."""
    round_trip_s: float | None = None


class NodeUsage(Event, frozen=True, kw_only=True, tag="node_usage"):
    """What a node has used by then, since it was made; None: not known there. The first one comes before the system starts."""

    node: int
    cpu_s: float | None = None
    """Of the system's processes."""
    throttled_s: float | None = None
    """For which they had used up their budget."""
    daemons_cpu_s: float | None = None
    """Of daemons that stand outside the budget."""
    wire_sent_bytes: int | None = None
    """That left by its link, frames with their headers."""
    wire_received_bytes: int | None = None
    socket_bytes: int | None = None
    """Handed to TCP by the system's processes, for other nodes."""
    control_bytes: int | None = None
    """Handed to TCP by them for the launcher: what is told, not what travels."""


class Histogram(Event, frozen=True, tag="histogram"):
    """How many there were of each value."""

    name: str
    counts: dict[int, int]


class Usage(Event, frozen=True, tag="usage"):
    """What the whole process tree had used by then."""

    cpu_s: float
    rss_bytes: int


class Evaluation(Event, frozen=True, tag="evaluation"):
    """Greedy episodes of one snapshot, played after the run."""

    steps: int
    version: int
    purpose: Literal["curve", "confirm"]
    returns: list[float]


class Transfer(Event, frozen=True, kw_only=True, tag="transfer"):
    """Messages of one size were moved for about a window."""

    size_bytes: int
    messages: int
    """Moved in all; broadcast vectors count once for each explorer."""
    intervals: float
    """Messages that were moved in the seconds: those after the first."""
    seconds: float
    cpu_s: float
    """Of all processes, for all messages."""
    tcp_bytes: float | None
    """Handed to TCP, either direction, for all messages."""


class Delays(Event, frozen=True, kw_only=True, tag="delays"):
    """How long single messages took."""

    kind: Literal["round_trip", "broadcast"]
    size_bytes: int
    count: int
    percentiles_ns: list[int]
    """0 to 100: the least, ..., the most."""


AnyEvent = (
    Phase
    | FirstStep
    | Episode
    | Snapshot
    | Progress
    | Process
    | Counter
    | Histogram
    | Usage
    | NodeCheck
    | NodeUsage
    | Evaluation
    | Transfer
    | Delays
)
