"""The broker: passes messages on between explorers and the learner, and reads nothing but who they are for."""

from __future__ import annotations

import time

import zmq

from baselines.xingtian.assignment import Wiring
from baselines.xingtian.mail import open_control, open_inlet, open_outlet
from baselines.xingtian.messages import addressees
from tianji.messages import Hello, Start, Stop, decode_to_role, encode
from tianji.telemetry import Account


def run(wiring: Wiring, hello: Hello) -> None:
    """Serve until the launcher says stop."""
    account, forwarded = Account(), 0
    with (
        zmq.Context() as context,
        open_control(context, wiring.control) as control,
        open_inlet(context, wiring.upward) as upward,
        open_inlet(context, wiring.downward) as downward,
        open_outlet(context, wiring.learner) as learner,
    ):
        control.send(encode(hello))
        explorers: list[zmq.Socket[bytes]] = []
        if isinstance(decode_to_role(control.recv()), Start):
            explorers = [open_outlet(context, wiring.explorer(i)) for i in range(wiring.explorers)]
            forwarded = _forward(control, upward, downward, learner, explorers, account)
        for socket in explorers:
            socket.close()
        control.send(encode(account.report(hello.role, {"messages_forwarded": float(forwarded)})))


def _forward(
    control: zmq.Socket[bytes],
    upward: zmq.Socket[bytes],
    downward: zmq.Socket[bytes],
    learner: zmq.Socket[bytes],
    explorers: list[zmq.Socket[bytes]],
    account: Account,
) -> int:
    """Pass on what comes, and count it."""
    poller, clock, forwarded = zmq.Poller(), time.monotonic_ns, 0
    for socket in (control, upward, downward):
        poller.register(socket, zmq.POLLIN)
    while True:
        before = clock()
        ready = dict(poller.poll())
        woken = clock()
        account.wait_ns["samples"] += woken - before
        if upward in ready:
            learner.send(upward.recv(), zmq.NOBLOCK)
            forwarded += 1
        if downward in ready:
            address, *body = downward.recv_multipart()
            for index in addressees(address):
                explorers[index].send_multipart(body, zmq.NOBLOCK)
                forwarded += 1
        account.busy_ns["send"] += clock() - woken
        if control in ready and isinstance(decode_to_role(control.recv()), Stop):
            return forwarded
