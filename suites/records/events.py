"""Events of a run: the lines of `events.jsonl`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from suites.records.limits import Amount, Count, Nanoseconds, Number, Place, Positive, Text

Named = Annotated[dict[Text, Amount], Meta(max_length=1000)]
"""Amounts by name."""
PhaseName = Literal["testbed", "check", "company", "setup", "train", "measured", "teardown"]


class Event(Struct, frozen=True, forbid_unknown_fields=True, tag_field="event"):
    """Base of all events; `ns` is monotonic time on the host of the run."""

    ns: Nanoseconds


class Phase(Event, frozen=True, tag="phase"):
    """A phase begins."""

    name: PhaseName
    wall_ns: Nanoseconds


class FirstStep(Event, frozen=True, tag="first_step"):
    """The measured clock starts."""


class Episode(Event, frozen=True, tag="episode"):
    """An episode ended."""

    episode_return: Number = msgspec.field(name="return")
    length: Count = 0
    steps: Count = 0
    """Environment steps of all actors so far."""


class Snapshot(Event, frozen=True, tag="snapshot"):
    """A policy was published."""

    steps: Count
    version: Count
    file: Place


class Process(Event, frozen=True, tag="process"):
    """A process accounted for its time."""

    role: Text
    busy_s: Named
    wait_s: Named
    cpu_s: Amount
    peak_rss_bytes: Count


class Progress(Event, frozen=True, tag="progress"):
    """Progress of a process: totals since its start."""

    role: Text
    counts: Named


class Counter(Event, frozen=True, tag="counter"):
    """A total of the run, or of one process."""

    name: Text
    value: Number
    role: Text = ""


class NodeCheck(Event, frozen=True, kw_only=True, tag="node_check"):
    """Measured properties of a node before the run. None: it has no such limit, or it could not be measured."""

    node: Count
    address: Text
    cores: Amount | None = None
    """Its budget of cores."""
    cores_measured: Amount | None = None
    """Core-seconds a second that a busy process got."""
    link_bits_per_s: Count | None = None
    link_measured_bits_per_s: Amount | None = None
    """Rate of one TCP connection from this node to another one, with Ethernet frames."""
    round_trip_s: Amount | None = None


class NodeUsage(Event, frozen=True, kw_only=True, tag="node_usage"):
    """Resources that a node has used since it was made; None: unknown. The first event precedes the start of the system."""

    node: Count
    cpu_s: Amount | None = None
    """CPU seconds of the system's processes."""
    throttled_s: Amount | None = None
    """Seconds for which they were throttled because their budget was used up."""
    daemons_cpu_s: Amount | None = None
    """CPU seconds of daemons outside the budget."""
    wire_sent_bytes: Count | None = None
    """Bytes sent over its link, with the headers of frames."""
    wire_received_bytes: Count | None = None
    socket_bytes: Count | None = None
    """Handed to TCP by the system's processes, for other nodes."""
    control_bytes: Count | None = None
    """Handed to TCP by them for the launcher: what is told, not what travels."""


class Histogram(Event, frozen=True, tag="histogram"):
    """Count of each value of a distribution."""

    name: Text
    counts: Annotated[dict[Count, Count], Meta(max_length=10_000)]


class Usage(Event, frozen=True, tag="usage"):
    """Resources that the whole process tree has used."""

    cpu_s: Amount
    rss_bytes: Count


class Evaluation(Event, frozen=True, tag="evaluation"):
    """Greedy episodes of one snapshot, played after the run."""

    steps: Count
    version: Count
    purpose: Literal["curve", "confirm"]
    returns: Annotated[list[Number], Meta(min_length=1, max_length=10_000)]


class Transfer(Event, frozen=True, kw_only=True, tag="transfer"):
    """Messages of one size were moved for about a window."""

    size_bytes: Positive
    messages: Positive
    """Moved in all; broadcast vectors count once for each explorer."""
    intervals: Amount
    """Messages that were moved in the seconds: those after the first."""
    seconds: Annotated[float, Meta(ge=1e-9, le=1e9)]
    cpu_s: Amount
    """CPU seconds of all processes, for all messages."""
    tcp_bytes: Amount | None
    """Handed to TCP, either direction, for all messages."""


class Delays(Event, frozen=True, kw_only=True, tag="delays"):
    """Delays of single messages."""

    kind: Literal["round_trip", "broadcast"]
    size_bytes: Positive
    count: Count
    percentiles_ns: Annotated[list[Nanoseconds], Meta(min_length=101, max_length=101)]
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
