"""Starts a run's processes over shared memory, and watches over them with TianJi's supervisor."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from baselines.xingtian.assignment import Assignment
from tianji.algorithms import networks
from tianji.channel.arena import Arena, anonymous_file
from tianji.channel.board import WeightBoard
from tianji.config import TrainConfig
from tianji.envs import describe
from tianji.launch.children import Children
from tianji.launch.control import control_socket
from tianji.launch.supervisor import Heard, Supervisor
from tianji.messages import Done


def run(config: TrainConfig, listener: Callable[[Heard], None]) -> None:
    """Run to the end: `stop_steps` or `stop_seconds`, whichever comes first. No process and no memory outlives the call.

    Parameters
    ----------
    listener
        is told everything that the processes report.

    Raises
    ------
    tianji.launch.supervisor.RoleFailed
        when a process fails; the others have been ended by then.
    """

    def on_message(message: Heard) -> str | None:
        listener(message)
        return message.reason if isinstance(message, Done) else None

    description = describe(config.env, config.atari, config.simulator)
    parameters = networks.build(config.network, description.features, description.actions).size
    with ExitStack() as stack:
        control, base_uri = stack.enter_context(control_socket())

        def memory(label: str, size_bytes: int) -> int:
            fd = anonymous_file(label, size_bytes)
            stack.callback(os.close, fd)
            return fd

        learner = Assignment(
            kind="learner",
            index=0,
            config=config,
            describe=description,
            base_uri=base_uri,
            parent=os.getpid(),
            arena_fds=(),
            weights_fd=memory("xingtian-weights", WeightBoard.size_bytes(parameters)),
            parameters=parameters,
        )
        arena_bytes = Arena.size_bytes(config.chunk_slots, learner.layout.capacity_bytes)
        arenas = tuple(memory(f"xingtian-arena-{i}", arena_bytes) for i in range(config.actors))
        learner = msgspec.structs.replace(learner, arena_fds=arenas)
        broker = msgspec.structs.replace(learner, kind="broker")
        explorers = [msgspec.structs.replace(learner, kind="explorer", index=i) for i in range(config.actors)]

        crew, members = Children(), (broker, learner, *explorers)
        supervisor = Supervisor(control, crew, frozenset(member.name for member in members), on_message)
        stack.callback(supervisor.end)
        for assignment in members:
            command = ["baselines.xingtian.process", f"xt-{assignment.name}"]
            crew.spawn(assignment.name, command, msgspec.json.encode(assignment), (*arenas, learner.weights_fd))
        supervisor.supervise(config.stop_seconds)
