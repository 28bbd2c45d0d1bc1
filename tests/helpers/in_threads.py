"""A run of the real world whose processes are threads of this one: real channels, real waits, and everything can be watched."""

import os
import threading
import traceback

from tianji.environments.making import describe
from tianji.launch.control import control_socket
from tianji.launch.crew import Crew
from tianji.launch.supervisor import Supervisor
from tianji.messages import Done
from tianji.topology import build, seats
from tianji.worlds.real import Assignment, perform

LIMIT_S = 60.0


class Threads(Crew):
    """Threads, by the names of their first roles."""

    def __init__(self):
        self._threads, self._gone = {}, []
        self._bell = os.eventfd(0, os.EFD_NONBLOCK)

    def spawn(self, assignment, trace):
        def play():
            well = False
            try:
                well = perform(assignment, trace)
            except Exception:
                traceback.print_exc()
            self._gone.append((assignment.name, "success" if well else "failure", True))
            os.eventfd_write(self._bell, 1)

        self._threads[assignment.name] = thread = threading.Thread(target=play, daemon=True)
        thread.start()

    @property
    def descriptors(self):
        return [self._bell]

    def ended(self):
        gone, self._gone = self._gone, []
        if gone:
            os.eventfd_read(self._bell)
        return gone

    def kill(self, name):
        raise RuntimeError("a thread cannot be killed")

    def end(self, orderly):
        for thread in self._threads.values():
            thread.join(LIMIT_S)
            assert not thread.is_alive()
        os.close(self._bell)
        return ()


def run(config, trace, listener=lambda message: None):
    """Run to the end of its steps; `trace` is told what all roles hear and do."""

    def hear(message):
        listener(message)
        return "steps" if isinstance(message, Done) else None

    with control_socket(100_000) as (control, base_uri):
        topology = build(config, f"{config.channel}://{base_uri.removeprefix('ipc://')}")
        at = {specs[0].name: specs for specs in seats(config, topology.roles)}
        crew = Threads()
        supervisor = Supervisor(control, crew, frozenset(at), hear)
        try:
            for specs in at.values():
                crew.spawn(Assignment(specs, config, describe(config.env), topology, f"{base_uri}/control"), trace)
            supervisor.supervise(LIMIT_S)
        finally:
            supervisor.end()
