"""Selects the backend of a channel by its URI.

- `shm://PATH`: bodies and headers in shared memory of one host, the handshake over ZeroMQ.
- `ipc://PATH`, `tcp://HOST:PORT`, `inproc://NAME`: bodies and headers in ZeroMQ messages.
- `memory://NAME`: a queue within one process.

`Channels` opens the ends of edges for one process; `tianji.topology` says which ends are connected. Ends may be opened in any
order: an outlet waits for its inlet.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, TypeVar

import zmq

from tianji.channel.base import ChannelError, EdgeSpec, Endpoint, Inlet, Outlet, WeightsInlet, WeightsOutlet
from tianji.channel.direct import DirectOutlet
from tianji.channel.direct_inlet import DirectInlet
from tianji.channel.memory import MemoryInlet, MemoryOutlet, MemoryWeightsInlet, MemoryWeightsOutlet
from tianji.channel.security import Keys, Security
from tianji.channel.shared import SharedInlet, SharedOutlet
from tianji.channel.stream import StreamInlet, StreamOutlet
from tianji.channel.weights import BoardInlet, BoardOutlet, StreamWeightsInlet, StreamWeightsOutlet

E = TypeVar("E", bound=Endpoint)

SCHEMES = ("shm", "tcp", "ipc", "inproc", "memory")


class Channels:
    """Opens ends by URI and closes them together. `memory` and `inproc` names are valid within one object.

    Parameters
    ----------
    keys
        keys of the run. Every tcp edge is then encrypted, and only owners of the same keys can connect.
    plaintext
        allows tcp addresses that other hosts can reach, without keys. Each is logged.
    """

    def __init__(self, keys: Keys | None = None, *, plaintext: bool = False) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.security = Security(self.context, keys, plaintext=plaintext)
        self._open: list[Endpoint] = []
        self._inlets: dict[str, MemoryInlet] = {}
        self._weights: dict[str, MemoryWeightsOutlet] = {}

    def inlet(self, uri: str, spec: EdgeSpec) -> Inlet:
        """Open the consuming end of a chunk edge. Port 0 takes a free port, which the end's `uri` shows.

        Raises
        ------
        ChannelError
            for an address that is not understood, cannot be bound, or needs keys that are missing.
        """
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryInlet(self._inlets, uri, spec))
            case "shm":
                return self._keep(SharedInlet(self.context, uri, spec, self.security))
            case "tcp":
                return self._keep(DirectInlet(self.context, uri, spec, self.security))
            case _:
                return self._keep(StreamInlet(self.context, uri, spec, self.security))

    def outlet(self, uri: str, spec: EdgeSpec, producer: int) -> Outlet:
        """Open the end of producer number `producer`, with its own slots."""
        return self._outlet(uri, spec, producer, None)

    def relay(self, uri: str, spec: EdgeSpec, upstream: Inlet) -> Outlet:
        """Open a producing end that passes on chunks of `upstream` without a copy."""
        return self._outlet(uri, spec, -1, upstream)

    def _outlet(self, uri: str, spec: EdgeSpec, member: int, upstream: Inlet | None) -> Outlet:
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryOutlet(self._inlets, uri, spec, member, upstream))
            case "shm":
                return self._keep(SharedOutlet(self.context, uri, spec, member, self.security, upstream))
            case "tcp":
                return self._keep(DirectOutlet(self.context, uri, spec, member, self.security, upstream))
            case _:
                return self._keep(StreamOutlet(self.context, uri, spec, member, self.security, upstream))

    def weights_outlet(self, uri: str, parameters: int) -> WeightsOutlet:
        """Open the publishing end of a weights edge, for vectors of this length."""
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryWeightsOutlet(self._weights, uri, parameters))
            case "shm":
                return self._keep(BoardOutlet(self.context, uri, parameters, self.security))
            case _:
                return self._keep(StreamWeightsOutlet(self.context, uri, parameters, self.security))

    def weights_inlet(self, uri: str, parameters: int) -> WeightsInlet:
        """Open a reading end of a weights edge."""
        match _scheme(uri):
            case "memory":
                return self._keep(MemoryWeightsInlet(self._weights, uri, parameters))
            case "shm":
                return self._keep(BoardInlet(self.context, uri, parameters, self.security))
            case _:
                return self._keep(StreamWeightsInlet(self.context, uri, parameters, self.security))

    def close(self) -> None:
        """Close all ends, the last one first."""
        while self._open:
            self._open.pop().close()
        self.security.close()
        self.context.term()

    def __enter__(self) -> Channels:
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
