"""Measures nodes before a run: all budgets at once, then links and round trips one after the other."""

from __future__ import annotations

import math
import socket
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec
from msgspec import Struct

from suites.testbed.busy import busy
from suites.testbed.control_groups import Group
from suites.testbed.netns import inside
from tianji.launch.node import Node

TOLERANCE = 0.1
"""Largest relative deviation of a measured property."""
PAUSES_S = (0, 0, 0, 5, 10, 20, 40, 60)
"""Seconds before each repeated trial of a property that deviates, because other work may disturb a measurement for a while."""
BUDGET_S = 0.4
LINK_S, FREE_LINK_S = 0.2, 0.05
"""Seconds for which a link is filled: one with a rate, and one without."""
FILLING_S = 0.05
"""Seconds of filling before bytes are counted, because token buckets may be full."""
ROUND_TRIPS = 50
ROUND_TRIPS_S = 0.2
"""Seconds after which no more round trips are begun."""
LIMIT_S = 10.0
"""Seconds after which an operation on a link counts as failed."""
UNEXPLAINED_S = 0.0005
"""Seconds of a round trip that a link's delay need not explain."""
PART_BYTES = 1 << 18
SO_COOKIE = 57
FRAME_SHARE = 1514 / 1448
"""Bytes on the wire for a byte of TCP: full frames of Ethernet with IPv4 and TCP's timestamps."""


class Line(Struct, frozen=True):
    """Measured properties of the link between two nodes."""

    bits_per_s: float
    round_trip_s: float
    cookies: tuple[bytes, ...] = ()
    """Of the connections that showed it (`SO_COOKIE`), both ends."""


def budgets(places: Sequence[tuple[Node, Group]], cores: float) -> list[float]:
    """Core-seconds a second that busy processes get in each group, all groups at once, under a quota of `cores`.

    The quota holds only meanwhile.
    """
    crowd = [node for node, _ in places for _ in range(math.ceil(cores))]
    groups = [group for _, group in places]
    with ExitStack() as stack:
        begin = stack.enter_context(busy(crowd))
        for group in groups:
            stack.callback(group.limit, None)
            group.limit(cores)
        begin()
        # What is left of the quota from before is used up in the first periods.
        time.sleep(BUDGET_S / 8)
        begun, before = time.monotonic(), [group.used().cpu_s for group in groups]
        time.sleep(BUDGET_S)
        took, after = time.monotonic() - begun, [group.used().cpu_s for group in groups]
    return [(later - earlier) / took for earlier, later in zip(before, after, strict=True)]


def line(node: Node, peer: Node, seconds: float) -> Line:
    """One TCP connection from a node to another: how long a byte takes to go and come, then as much as goes.

    Both its ends are this process's.

    Raises
    ------
    RuntimeError
        when the one does not reach the other.
    """
    try:
        with ExitStack() as stack:
            with inside(peer):
                server = stack.enter_context(socket.create_server((peer.address, 0)))
            server.settimeout(LIMIT_S)
            with inside(node):
                there = socket.create_connection(server.getsockname(), LIMIT_S, (node.address, 0))
            there = stack.enter_context(there)
            back = stack.enter_context(server.accept()[0])
            for end in (there, back):
                end.settimeout(LIMIT_S)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            round_trip_s = _round_trip_s(there, back)
            cookies = tuple(end.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8) for end in (there, back))
            return Line(_bytes_per_s(there, back, seconds) * 8 * FRAME_SHARE, round_trip_s, cookies)
    except OSError as error:
        raise RuntimeError(f"node {node.address} does not reach {peer.address}: {error}") from error


def _round_trip_s(there: socket.socket, back: socket.socket) -> float:
    """Median round trip in seconds. One thread does both ends, so that only the links count and no thread is woken."""
    took: list[float] = []
    end = time.perf_counter() + ROUND_TRIPS_S
    while len(took) < ROUND_TRIPS and (not took or time.perf_counter() < end):
        begun = time.perf_counter()
        there.send(b"?")
        back.send(back.recv(1))
        there.recv(1)
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def _bytes_per_s(there: socket.socket, back: socket.socket, seconds: float) -> float:
    sender = threading.Thread(target=fill, args=(there, seconds))
    sender.start()
    found = received_per_s(back)
    sender.join()
    return found


def fill(connection: socket.socket, seconds: float) -> None:
    """Send as much as goes for so long, and end it."""
    end = time.perf_counter() + FILLING_S + seconds
    data = bytes(PART_BYTES)
    while time.perf_counter() < end:
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def received_per_s(connection: socket.socket) -> float:
    """Bytes a second of what another one fills a connection with, once it is filled."""
    room = bytearray(PART_BYTES)
    begun = first = last = 0.0
    moved = 0
    while received := connection.recv_into(room):
        last = time.perf_counter()
        begun = begun or last
        if first:
            moved += received
        elif last > begun + FILLING_S:
            first = last
    return moved / (last - first) if moved else 0.0


def is_off(measured: float, asked: float) -> bool:
    """Whether it is more than the tolerance from what was asked for."""
    return abs(measured - asked) > TOLERANCE * asked


def checked_budgets(places: Sequence[tuple[Node, Group]], cores: float) -> list[float]:
    """Measure as `budgets`, and repeat the measurement if one deviates.

    Raises
    ------
    RuntimeError
        when one stays off.
    """
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        found = budgets(places, cores)
        if not any(is_off(share, cores) for share in found):
            return found
    node, share = next((node, share) for (node, _), share in zip(places, found, strict=True) if is_off(share, cores))
    raise RuntimeError(
        f"testbed: node {node.address} gets {share:.3f} of a core, not {cores:g}; does other work load this machine?"
    )


def checked_line(node: Node, peer: Node, bits_per_s: int | None, delay_s: float | None) -> Line:
    """Measure as `line`, and repeat the measurement if the rate deviates.

    Parameters
    ----------
    delay_s
        of both nodes together; None: none was asked for.

    Raises
    ------
    RuntimeError
        when the rate stays off, or the delay is.
    """
    cookies: tuple[bytes, ...] = ()
    for pause_s in PAUSES_S:
        time.sleep(pause_s)
        found = line(node, peer, FREE_LINK_S if bits_per_s is None else LINK_S)
        cookies += found.cookies
        if bits_per_s is None or not is_off(found.bits_per_s, bits_per_s):
            break
    if bits_per_s is not None and is_off(found.bits_per_s, bits_per_s):
        raise RuntimeError(
            f"testbed: node {node.address} has a link of {found.bits_per_s / 1e6:.1f} Mbit/s, not of {bits_per_s / 1e6:.1f}"
        )
    took = found.round_trip_s
    if delay_s is not None and not delay_s * (1 - TOLERANCE) <= took <= delay_s * (1 + TOLERANCE) + UNEXPLAINED_S:
        raise RuntimeError(f"testbed: node {node.address} has a round trip of {took * 1e3:.2f} ms, not of {delay_s * 1e3:.2f}")
    return msgspec.structs.replace(found, cookies=cookies)


def neighbours(nodes: Sequence[Node], home: Node) -> list[tuple[Node, Node]]:
    """Whom each node is measured with: the next one; one that is alone, with the launcher's home."""
    return [(node, nodes[(number + 1) % len(nodes)] if len(nodes) > 1 else home) for number, node in enumerate(nodes)]
