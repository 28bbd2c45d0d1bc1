"""Ends of edges for tests, all in one process, driven until a condition holds."""

import tempfile
import time
from collections import defaultdict

import numpy as np

from suites.components.opaque import opaque_layout
from tianji.channel.base import ChannelError, EdgeSpec, Inlet, Outlet
from tianji.channel.registry import Channels
from tianji.channel.security import Keys
from tianji.channel.waiter import Waiter
from tianji.layout import ChunkLayout, Field
from tianji.messages import ChunkHeader, SlotRef

DEADLINE_S = 20
SCHEMES = ["shm", "tcp", "ipc", "inproc", "memory", "curve"]
"""Backends; `curve` is tcp with keys."""
SLOTS, PRODUCERS, PARAMETERS = 4, 3, 5


class Bench:
    """A network, one address of a backend, and what has come so far at each end."""

    def __init__(self, scheme, stack, size_bytes=64, slots=SLOTS, producers=PRODUCERS, **channels):
        if scheme == "curve":
            scheme, channels = "tcp", {"keys": Keys.generate(), **channels}
        self.scheme = scheme
        self.channels = stack.enter_context(Channels(**channels))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tj"))
        self.base = {"shm": f"shm://{folder}/", "ipc": f"ipc://{folder}/", "tcp": "tcp://127.0.0.1:"}.get(
            scheme, f"{scheme}://test-"
        )
        self.spec = EdgeSpec(opaque_layout(size_bytes), slots, producers)
        self.got = defaultdict(list)
        self.free = defaultdict(list)
        self.ends = []
        stack.callback(self.ends.clear)

    def address(self, name):
        return self.base + ("0" if self.scheme == "tcp" else name)

    def inlet(self, name="a", spec=None):
        if "://" in name:
            return self.patiently(lambda: self.channels.inlet(name, spec or self.spec))
        return self.keep(self.channels.inlet(self.address(name), spec or self.spec))

    def patiently(self, bind):
        """Bind an address that was in use a moment ago: ZeroMQ lets go of a port in its own time."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self.keep(bind())
            except ChannelError as error:
                if "cannot bind" not in str(error) or time.monotonic() >= deadline:
                    raise
                self.quiet(0.02)

    def outlet(self, inlet, producer=0, spec=None):
        return self.keep(self.channels.outlet(getattr(inlet, "uri", inlet), spec or self.spec, producer))

    def relay(self, inlet, upstream):
        return self.keep(self.channels.relay(inlet.uri, self.spec, upstream))

    def keep(self, end):
        self.ends.append(end)
        return end

    def close(self, end):
        self.ends.remove(end)
        end.close()

    def look(self):
        """Take in at every end what has come."""
        for end in self.ends:
            if isinstance(end, Inlet):
                self.got[end] += end.receive()
            elif isinstance(end, Outlet):
                self.free[end] += end.credits()

    def until(self, condition, deadline_s=DEADLINE_S):
        """Drive all ends until the condition holds."""
        deadline = time.monotonic() + deadline_s
        with Waiter(self.ends) as waiter:
            while True:
                self.look()
                if condition():
                    return
                assert time.monotonic() < deadline, f"got {dict(self.got)}, free {dict(self.free)}"
                # Not longer, because a thread or process of the test may change what the condition asks for.
                waiter.wait(0.05)

    def quiet(self, seconds=0.15):
        """Drive all ends for a while in which nothing must happen."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end)

    def write(self, outlet, sequence=0, body=b"", producer=None, **wrong):
        """Build a chunk in the next free slot; its header, unsent."""
        ref = self.free[outlet].pop(0)
        outlet.slot(ref)[: len(body)] = body
        fields = {
            "producer": ref.arena if producer is None else producer,
            "sequence": sequence,
            "version": 0,
            "layout": self.spec.layout.id,
            "count": 1,
            "ragged_rows": len(body),
            "size_bytes": len(body),
            "slot": ref,
        }
        return ChunkHeader(**{**fields, **wrong})

    def body(self, inlet, chunk):
        return bytes(inlet.body(chunk.slot)[: chunk.size_bytes])

    def pair(self):
        """An inlet and a producer that has all its credit."""
        inlet = self.inlet()
        outlet = self.outlet(inlet)
        self.until(lambda: len(self.free[outlet]) == self.spec.slots)
        return inlet, outlet


def header(spec, slot=0, producer=1, size=6, **more):
    """Header of a chunk that nobody wrote. `slot` may name one of another arena."""
    fields = {"producer": producer, "sequence": 0, "version": 0, "layout": spec.layout.id, "count": 1}
    fields |= {"ragged_rows": size, "size_bytes": size, "slot": slot if isinstance(slot, SlotRef) else SlotRef(producer, slot)}
    return ChunkHeader(**{**fields, **more})


def text(number):
    """A body that says which it is."""
    return f"body {number}".encode()


def vector(value):
    return np.full(PARAMETERS, value, np.float32)


def structured_spec(slots=SLOTS, producers=1):
    """An edge for chunks with a fixed part and a ragged one."""
    layout = ChunkLayout([Field("reward", "<f4", (8,)), Field("extra", "<u2", (10, 3))])
    return EdgeSpec(layout, slots, producers)
