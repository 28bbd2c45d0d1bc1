"""Brokers, one on each node, which forward messages and read only their addresses.

The learner's node has the `HomeBroker`, and every other node has an `OutpostBroker`. Between them, tcp carries fragments with
their bodies, and weights once for each node.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from functools import partial

import zmq

from baselines.xingtian.abroad import LatestWeights, WeightsLink, pack, take_weights, unpack
from baselines.xingtian.assignment import Assignment, Doors
from baselines.xingtian.mail import meet, open_control, open_inlet, open_outlet
from baselines.xingtian.memory import NodeMemory
from baselines.xingtian.messages import addressees, brings_weights, labelled
from tianji.channel.security import Security
from tianji.channel.zmq import HEADERS_BYTES, address
from tianji.messages import Hello, Start, Stop, decode_to_role, encode
from tianji.telemetry import Account


def run(assignment: Assignment, hello: Hello) -> None:
    """Make the node's memory, and serve until the launcher says stop."""
    a = assignment
    with (
        zmq.Context() as context,
        closing(Security(context, a.run_keys, plaintext=a.keys is None)) as security,
        NodeMemory(a) as memory,
        open_control(context, a.control_uri, a.run_keys) as control,
        ExitStack() as stack,
    ):
        broker: HomeBroker | OutpostBroker
        if a.node:
            broker = OutpostBroker(context, a.doors, a.explorers(a.node), compress=a.compress)
        else:
            broker = HomeBroker(context, a.doors, a.explorers(0))
        stack.enter_context(broker)
        bound = dict(memory.addresses)
        if a.nodes > 1:
            bound[_name(a.node)] = broker.open_abroad(a, security, memory)
        addresses = meet(control, hello.role, bound)
        if addresses is None:
            control.send(encode(broker.account.report(hello.role, {})))
            return
        if a.nodes > 1:
            broker.link({node: addresses[_name(node)] for node in range(a.nodes)})
        broker.serve(control, hello)


def _name(node: int) -> str:
    return f"broker of node {node}"


class Broker(ABC):
    """Base of brokers: sleeps until a message arrives, and handles it by its socket.

    A context manager: its sockets are closed with it.

    Parameters
    ----------
    explorers
        of its node.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], doors: Doors, explorers: Iterable[int]) -> None:
        self.account, self.forwarded = Account(), 0
        self._context, self._doors, self._numbers = context, doors, list(explorers)
        self._open = ExitStack()
        self._poller = zmq.Poller()
        self._handlers: dict[zmq.Socket[bytes], Callable[[], None]] = {}
        self._explorers: dict[int, zmq.Socket[bytes]] = {}

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def open_abroad(self, assignment: Assignment, security: Security, memory: NodeMemory) -> str:
        """Bind what brokers of other nodes push to, on a port that is free; where."""
        self._assignment, self._security, self._memory = assignment, security, memory
        largest_bytes = max(HEADERS_BYTES, assignment.layout.capacity_bytes, 4 * assignment.parameters)
        socket = open_inlet(self._context, f"tcp://{assignment.host}:0", security, largest_bytes)
        self._abroad = self._listen(socket, self._on_foreign)
        return address(self._abroad)

    @abstractmethod
    def link(self, brokers: Mapping[int, str]) -> None:
        """Connect to brokers of other nodes: their addresses, by node."""

    @abstractmethod
    def _on_foreign(self) -> None:
        """Something has come from another node."""

    def _listen(self, socket: zmq.Socket[bytes], handle: Callable[[], None]) -> zmq.Socket[bytes]:
        """Have what comes here handled."""
        self._open.enter_context(socket)
        self._handlers[socket] = handle
        self._poller.register(socket, zmq.POLLIN)
        return socket

    def _outlet(self, uri: str, security: Security | None = None, limit: int = 0) -> zmq.Socket[bytes]:
        return self._open.enter_context(open_outlet(self._context, uri, security, limit))

    def _connect(self) -> None:
        """Connect to the sockets of this node, which are all bound by now."""
        self._explorers = {i: self._outlet(self._doors.explorer(i)) for i in self._numbers}

    def counters(self) -> dict[str, float]:
        """Counters of forwarded messages."""
        return {"messages_forwarded": float(self.forwarded)}

    def serve(self, control: zmq.Socket[bytes], hello: Hello) -> None:
        """Report in, and pass on what comes until the launcher says stop."""
        control.send(encode(hello))
        if isinstance(decode_to_role(control.recv()), Start):
            self._connect()
            self._forward(control)
        control.send(encode(self.account.report(hello.role, self.counters())))

    def _forward(self, control: zmq.Socket[bytes]) -> None:
        clock, account, handlers = time.monotonic_ns, self.account, self._handlers
        self._poller.register(control, zmq.POLLIN)
        while True:
            before = clock()
            ready = dict(self._poller.poll())
            woken = clock()
            account.wait_ns["samples"] += woken - before
            for socket in ready:
                if socket is not control:
                    handlers[socket]()
            account.busy_ns["send"] += clock() - woken
            if control in ready and isinstance(decode_to_role(control.recv()), Stop):
                return

    def _hand_out(self, to: bytes, notice: bytes) -> None:
        """Pass a notice on to those of this node who are meant."""
        for index in addressees(to):
            if (explorer := self._explorers.get(index)) is not None:
                explorer.send(notice, zmq.NOBLOCK)
                self.forwarded += 1


class HomeBroker(Broker):
    """On the learner's node."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], doors: Doors, explorers: Iterable[int]) -> None:
        super().__init__(context, doors, explorers)
        self._upward = self._listen(open_inlet(context, doors.upward), self._on_fragment)
        self._downward = self._listen(open_inlet(context, doors.downward), self._on_notice)
        self._links: list[WeightsLink] = []

    def link(self, brokers: Mapping[int, str]) -> None:
        a = self._assignment
        latest = LatestWeights(self._memory.store, a.parameters)
        for node, uri in brokers.items():
            if node:
                link = WeightsLink(self._outlet(uri, self._security, limit=1), latest, frozenset(a.explorers(node)))
                self._links.append(link)
                self._handlers[link.socket] = partial(self._flush, link)

    def _connect(self) -> None:
        super()._connect()
        self._learner = self._outlet(self._doors.learner)

    def counters(self) -> dict[str, float]:
        own = super().counters()
        if self._links:
            own["payload_bytes_sent"] = float(sum(link.payload_bytes for link in self._links))
            own["weights_sent"] = float(sum(link.vectors for link in self._links))
        return own

    def _on_fragment(self) -> None:
        self._learner.send(self._upward.recv(), zmq.NOBLOCK)
        self.forwarded += 1

    def _on_notice(self) -> None:
        to, notice = self._downward.recv_multipart()
        # First those who are further away.
        meant = frozenset(addressees(to)) if self._links else frozenset()
        for link in self._links:
            if meant & link.explorers:
                link.put(to, notice, weights=brings_weights(to))
                self.forwarded += 1
                self._flush(link)
        self._hand_out(to, notice)

    def _flush(self, link: WeightsLink) -> None:
        """Send what waits; where that cannot be, be woken when it can."""
        waits, watched = link.flush(), link.socket in self._poller
        if waits and not watched:
            self._poller.register(link.socket, zmq.POLLOUT)
        elif watched and not waits:
            self._poller.unregister(link.socket)

    def _on_foreign(self) -> None:
        """A fragment: to the slot here that it had there, and its header to the learner."""
        where, header, packed = self._abroad.recv_multipart(copy=False)
        slot, size_bytes = labelled(where.bytes)
        unpack(packed.buffer, self._memory.body(slot, size_bytes))
        self._learner.send(header.bytes, zmq.NOBLOCK)
        self.forwarded += 1


class OutpostBroker(Broker):
    """On another node.

    Parameters
    ----------
    compress
        whether large bodies are compressed: here, where no environment is stepped and nothing is trained.
    """

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], doors: Doors, explorers: Iterable[int], *, compress: bool
    ) -> None:
        super().__init__(context, doors, explorers)
        self._compress = compress
        self._upward = self._listen(open_inlet(context, doors.upward), self._on_fragment)
        self._payload_bytes = self._saved_bytes = 0

    def link(self, brokers: Mapping[int, str]) -> None:
        self._home = self._outlet(brokers[0], self._security)

    def counters(self) -> dict[str, float]:
        return {
            **super().counters(),
            "payload_bytes_sent": float(self._payload_bytes),
            "payload_bytes_saved": float(self._saved_bytes),
        }

    def _on_fragment(self) -> None:
        """Its body goes along, from where it lies. Its slot is not written again before the learner has trained on it."""
        where, header = self._upward.recv_multipart()
        slot, size_bytes = labelled(where)
        packed = pack(self._memory.body(slot, size_bytes), compress=self._compress)
        self._home.send_multipart([where, header, packed], zmq.NOBLOCK, copy=False)
        self._payload_bytes += len(packed)
        self._saved_bytes += size_bytes - len(packed)
        self.forwarded += 1

    def _on_foreign(self) -> None:
        """New weights for the store, and notices."""
        frames = self._abroad.recv_multipart(copy=False)
        for to, notice in take_weights(frames, self._memory.store, self._assignment.parameters):
            self._hand_out(to, notice)
