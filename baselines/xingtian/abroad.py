"""Traffic between brokers over tcp: bodies of fragments to the learner's node, weights and notices from it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import numpy as np
import zmq

from tianji.channel.board import WeightBoard
from tianji.messages import ProtocolError

COMPRESS_FROM_BYTES = 1 << 20
"""Larger bodies are compressed. Smaller ones never are: the time is not worth it."""

_stamp = struct.Struct("<q")
NONE = -1
"""Stands for a version where no weights are sent."""


def can_compress() -> bool:
    """Whether LZ4 is installed."""
    return find_spec("lz4") is not None


def pack(body: memoryview, *, compress: bool) -> memoryview | bytes:
    """A body as it travels: from where it lies, or compressed, if it is large and becomes smaller by that."""
    if compress and len(body) > COMPRESS_FROM_BYTES:
        import lz4.block  # Need not be installed for anything else.

        packed: bytes = lz4.block.compress(body, mode="fast", store_size=False)
        if len(packed) < len(body):
            return packed
    return body


def unpack(packed: memoryview, body: memoryview) -> None:
    """Write what has come to where it belongs; `ProtocolError` when it is not a body of this size."""
    if len(packed) < len(body):
        import lz4.block

        try:
            packed = memoryview(lz4.block.decompress(packed, uncompressed_size=len(body)))
        except lz4.block.LZ4BlockError as error:
            raise ProtocolError(f"not a body of {len(body)} bytes: {error}") from error
    if len(packed) != len(body):
        raise ProtocolError(f"a body of {len(packed)} bytes where {len(body)} were announced")
    body[:] = packed


class LatestWeights:
    """The newest vector of a store as a frame, made once for all nodes that it is sent to.

    It is a copy: a learner off policy may write the store twice before a slow link has taken the vector.
    """

    def __init__(self, store: WeightBoard, parameters: int) -> None:
        self._store, self._parameters = store, parameters
        self._version, self._frame = NONE, zmq.Frame()

    def get(self) -> tuple[int, zmq.Frame]:
        """Version and vector."""
        if self._store.version != self._version:
            vector = np.empty(self._parameters, "<f4")
            version = self._store.read(vector)
            assert version is not None
            self._version, self._frame = version, zmq.Frame(vector.data.cast("B"))
        return self._version, self._frame


class WeightsLink:
    """The way to the broker of another node: notices for its explorers, and the weights once for all of them.

    Little waits in the socket, and the rest here: what a slow link has not taken goes together, with the newest weights only.

    Parameters
    ----------
    socket
        one that lets few messages wait.
    explorers
        of that node.
    """

    def __init__(self, socket: zmq.Socket[bytes], latest: LatestWeights, explorers: frozenset[int]) -> None:
        self.socket, self.explorers = socket, explorers
        self.payload_bytes = self.vectors = 0
        """Bytes and vectors handed to the socket."""
        self._latest = latest
        self._version = NONE
        """Sent last."""
        self._waiting: list[bytes] = []
        self._weights_due = False

    def put(self, to: bytes, notice: bytes, *, weights: bool) -> None:
        """Add a notice to what is to be sent."""
        self._waiting += (to, notice)
        self._weights_due |= weights

    def flush(self) -> bool:
        """Send what waits; whether it still does."""
        if not self._waiting:
            return False
        version, vector = self._latest.get() if self._weights_due else (NONE, zmq.Frame())
        if version == self._version:  # It went with an earlier notice.
            version, vector = NONE, zmq.Frame()
        try:
            self.socket.send_multipart([_stamp.pack(version), vector, *self._waiting], zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return True
        if version != NONE:
            self._version = version
            self.vectors += 1
            self.payload_bytes += len(vector)
        self._waiting, self._weights_due = [], False
        return False


def take_weights(frames: Sequence[zmq.Frame], store: WeightBoard, parameters: int) -> Iterator[tuple[bytes, bytes]]:
    """Write the weights of a link's message to this node's store, if it brings any; then its notices, and whom they are for.

    Raises
    ------
    ProtocolError
        when it is not such a message.
    """
    if len(frames) % 2 or len(frames[0]) != _stamp.size:
        raise ProtocolError(f"not weights and notices: {len(frames)} frames, the first of {len(frames[0])} bytes")
    (version,) = _stamp.unpack(frames[0].bytes)
    if version != NONE:
        if len(frames[1]) != 4 * parameters:
            raise ProtocolError(f"weights of {len(frames[1])} bytes where there are {parameters} parameters")
        store.write(version, np.frombuffer(frames[1].buffer, "<f4"))
    for to, notice in zip(frames[2::2], frames[3::2], strict=True):
        yield to.bytes, notice.bytes
