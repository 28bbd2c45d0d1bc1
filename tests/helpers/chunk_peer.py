"""Peer in a separate process, which reports when it reaches a stage and then waits to be killed.

`python chunk_peer.py produce|consume URI STAGE`: a line on standard output tells that the stage is reached.
"""

import faulthandler
import signal
import sys

from edges import DEADLINE_S, text

from suites.components.opaque import opaque_layout
from tianji.channel.base import EdgeSpec
from tianji.channel.registry import Channels
from tianji.channel.waiter import Waiter
from tianji.messages import ChunkHeader

SPEC = EdgeSpec(opaque_layout(64), 4, 3)
PRODUCER_STAGES = ["joined", "writing", "sent", "starved"]
CONSUMER_STAGES = ["bound", "received", "reading", "released", "credited"]


def stand_still(stage):
    faulthandler.cancel_dump_traceback_later()
    print(stage, flush=True)
    signal.alarm(10 * DEADLINE_S)  # Should nobody be left to kill it.
    signal.pause()


def wait_for(end, take):
    with Waiter([end]) as waiter:
        while not (found := take()):
            assert waiter.wait(DEADLINE_S)
        return found


def produce(channels, uri, stage):
    outlet = channels.outlet(uri, SPEC, 0)
    free = wait_for(outlet, outlet.credits)
    if stage == "joined":
        stand_still(stage)
    for sequence in range(3 if stage != "starved" else 4):
        ref = free.pop(0)
        outlet.slot(ref)[: len(text(sequence))] = text(sequence)
        size = len(text(sequence))
        outlet.send([ChunkHeader(0, sequence, 0, SPEC.layout.id, 1, size, size, ref)])
    outlet.flush()
    if stage == "writing":
        outlet.slot(free[0])[:9] = b"half a bo"
    stand_still(stage)


def consume(channels, uri, stage):
    inlet = channels.inlet(uri, SPEC)
    if stage == "bound":
        stand_still(stage)
    with Waiter([inlet]) as waiter:
        while not inlet.pending():
            waiter.wait(DEADLINE_S)
    if stage == "received":  # Something has come in, and nobody has looked at it.
        stand_still(stage)
    chunks = wait_for(inlet, inlet.receive)
    assert bytes(inlet.body(chunks[0].slot)[:6]) == b"body 0"
    if stage != "reading":
        inlet.release([chunks[0].slot])
        if stage == "credited":
            inlet.flush()
    stand_still(stage)


if __name__ == "__main__":
    # Says where it hangs before the test gives up.
    faulthandler.dump_traceback_later(0.7 * DEADLINE_S)
    side, uri, stage = sys.argv[1:]
    with Channels() as channels:
        {"produce": produce, "consume": consume}[side](channels, uri, stage)
