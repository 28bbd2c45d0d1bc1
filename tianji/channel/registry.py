"""From a URI to a backend: `ipc://PATH` and `memory://NAME`.

A `Network` opens both kinds of edges for one process; who is joined to whom is the topology's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import zmq

from tianji.channel.arena import WeightStore
from tianji.channel.base import ChannelError, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.channel.bell import BellWeightsInlet, BellWeightsOutlet
from tianji.channel.memory import MemoryInlet, MemoryOutlet, MemoryWeightsInlet, MemoryWeightsOutlet
from tianji.channel.zmq import ZmqInlet, ZmqOutlet
from tianji.messages import SlotRef

E = TypeVar("E", bound=Endpoint)
M = TypeVar("M")


@dataclass(frozen=True)
class SharedWeights:
    """Where the weights of an `ipc` edge stand, and a bell for each reader."""

    store: WeightStore
    bells: tuple[int, ...]


class Network:
    """Opens endpoints by URI and closes them all together; within one process, `memory` names meet here."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._open: list[Endpoint] = []
        self._inlets: dict[str, MemoryInlet] = {}
        self._weights: dict[str, MemoryWeightsOutlet] = {}

    def inlet(self, uri: str) -> Inlet:
        """The consuming end of a chunk edge; it must be opened before a `memory` outlet of its name."""
        if self._scheme(uri) == "ipc":
            return self._keep(ZmqInlet(self.context, uri))
        self._inlets[uri] = inlet = MemoryInlet()
        return self._keep(inlet)

    def outlet(self, uri: str, initial: Sequence[SlotRef] = ()) -> Outlet:
        """A producing end, with the slots that it may write at first."""
        if self._scheme(uri) == "ipc":
            return self._keep(ZmqOutlet(self.context, uri, initial))
        outlet = MemoryOutlet(initial)
        outlet.connect(self._find(self._inlets, uri))
        return self._keep(outlet)

    def weights_outlet(self, uri: str, shared: SharedWeights | None = None) -> WeightsOutlet:
        """The publishing end of a weights edge; `ipc` needs `shared`."""
        if self._scheme(uri) == "ipc":
            where = _needed(shared, uri)
            return self._keep(BellWeightsOutlet(where.store, where.bells))
        self._weights[uri] = outlet = MemoryWeightsOutlet()
        return self._keep(outlet)

    def weights_inlet(self, uri: str, shared: SharedWeights | None = None, reader: int = 0) -> WeightsInlet:
        """The reading end number `reader` of a weights edge."""
        if self._scheme(uri) == "ipc":
            where = _needed(shared, uri)
            return self._keep(BellWeightsInlet(where.store, where.bells[reader]))
        return self._keep(MemoryWeightsInlet(self._find(self._weights, uri)))

    def close(self) -> None:
        """Close what was opened, last first."""
        while self._open:
            self._open.pop().close()
        self.context.term()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _keep(self, endpoint: E) -> E:
        self._open.append(endpoint)
        return endpoint

    @staticmethod
    def _scheme(uri: str) -> str:
        scheme = uri.partition("://")[0]
        if scheme not in ("ipc", "memory"):
            raise ChannelError(f"no channel for {uri!r}; known schemes: ipc, memory")
        return scheme

    @staticmethod
    def _find(named: dict[str, M], uri: str) -> M:
        if uri not in named:
            raise ChannelError(f"nothing is bound to {uri}")
        return named[uri]


def _needed(shared: SharedWeights | None, uri: str) -> SharedWeights:
    if shared is None:
        raise ChannelError(f"{uri}: a weights edge of this kind needs shared memory and bells")
    return shared
