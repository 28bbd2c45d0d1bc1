"""From a URI to a backend.

| address | bodies | headers |
|---|---|---|
| `shm://PATH` | shared memory of one host | rings beside them; the handshake over ZeroMQ |
| `ipc://PATH`, `tcp://HOST:PORT`, `inproc://NAME` | ZeroMQ messages | ZeroMQ messages |
| `memory://NAME` | one process | a queue |

A `Network` opens the ends of edges for one process; who is joined to whom is the topology's business. Ends may be opened
in any order: an outlet waits for its inlet.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

import zmq

from tianji.channel.base import ChannelError, EdgeSpec, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.channel.memory import MemoryInlet, MemoryOutlet, MemoryWeightsInlet, MemoryWeightsOutlet
from tianji.channel.security import Keys, Security
from tianji.channel.shared import SharedInlet, SharedOutlet
from tianji.channel.stream import StreamInlet, StreamOutlet
from tianji.channel.weights import BoardInlet, BoardOutlet, StreamWeightsInlet, StreamWeightsOutlet

E = TypeVar("E", bound=Endpoint)

SCHEMES = ("shm", "tcp", "ipc", "inproc", "memory")


class Network:
    """Opens ends by URI and closes them all together; `memory` and `inproc` names meet within one network.

    Parameters
    ----------
    keys
        of the run: every tcp edge is then encrypted, and open to owners of the same keys alone.
    plaintext
        allows tcp addresses that other hosts can reach without keys; each is logged.
    """

    def __init__(self, keys: Keys | None = None, *, plaintext: bool = False) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.security = Security(self.context, keys, plaintext=plaintext)
        self._open: list[Endpoint] = []
        self._inlets: dict[str, MemoryInlet] = {}
        self._weights: dict[str, MemoryWeightsOutlet] = {}

    def inlet(self, uri: str, spec: EdgeSpec) -> Inlet:
        """The consuming end of a chunk edge. Port 0 takes a free one, which stands in the end's `uri`.

        Raises
        ------
        ChannelError
            for an address that is not understood, cannot be bound, or needs keys that there are not.
        """
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryInlet(self._inlets, uri, spec))
            case "shm":
                return self._keep(SharedInlet(self.context, uri, spec, self.security))
            case _:
                return self._keep(StreamInlet(self.context, uri, spec, self.security))

    def outlet(self, uri: str, spec: EdgeSpec, producer: int) -> Outlet:
        """The end of producer number `producer`, with slots of its own to write."""
        return self._outlet(uri, spec, producer, None)

    def relay(self, uri: str, spec: EdgeSpec, upstream: Inlet) -> Outlet:
        """A producing end that passes on chunks of `upstream`, where they lie."""
        return self._outlet(uri, spec, -1, upstream)

    def _outlet(self, uri: str, spec: EdgeSpec, member: int, upstream: Inlet | None) -> Outlet:
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryOutlet(self._inlets, uri, spec, member, upstream))
            case "shm":
                return self._keep(SharedOutlet(self.context, uri, spec, member, self.security, upstream))
            case _:
                return self._keep(StreamOutlet(self.context, uri, spec, member, self.security, upstream))

    def weights_outlet(self, uri: str, parameters: int) -> WeightsOutlet:
        """The publishing end of a weights edge, for vectors of this many parameters."""
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryWeightsOutlet(self._weights, uri, parameters))
            case "shm":
                return self._keep(BoardOutlet(self.context, uri, parameters, self.security))
            case _:
                return self._keep(StreamWeightsOutlet(self.context, uri, parameters, self.security))

    def weights_inlet(self, uri: str, parameters: int) -> WeightsInlet:
        """A reading end of a weights edge."""
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryWeightsInlet(self._weights, uri, parameters))
            case "shm":
                return self._keep(BoardInlet(self.context, uri, parameters, self.security))
            case _:
                return self._keep(StreamWeightsInlet(self.context, uri, parameters, self.security))

    def close(self) -> None:
        """Close what was opened, last first."""
        while self._open:
            self._open.pop().close()
        self.security.close()
        self.context.term()

    def __enter__(self) -> Network:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _keep(self, endpoint: E) -> E:
        self._open.append(endpoint)
        return endpoint


def _scheme(uri: Any) -> str:
    scheme, mark, rest = str(uri).partition("://")
    if scheme not in SCHEMES or not mark or not rest:
        raise ChannelError(f"no channel for {str(uri)!r}; known schemes: {', '.join(SCHEMES)}")
    return scheme
