"""A process that waits at some of its ends only: no peer may wait for ever at one of the others."""

import os
import threading
import time

import numpy as np

from tianji.averaging import Stamp, message_size, pack
from tianji.channel.base import Endpoint
from tianji.channel.registry import Channels
from tianji.messages import Report, Start, Stop, encode
from tianji.roles.role import Begin, Role, Work
from tianji.roles.root import Root
from tianji.worlds.averager import Averager
from tianji.worlds.host import Host, Models
from tianji.worlds.real import serve
from tianji.worlds.workers import Worker

LIMIT_S = 20


class Launcher(Endpoint):
    """The launcher's end, of which messages come that a test says."""

    def __init__(self):
        super().__init__()
        self._said, self._bell = [], os.eventfd(0, os.EFD_NONBLOCK)

    def say(self, message):
        self._said.append(encode(message))
        os.eventfd_write(self._bell, 1)

    @property
    def descriptors(self):
        return (self._bell,)

    def pending(self):
        return bool(self._said)

    def receive(self):
        said, self._said = self._said, []
        return said

    def close(self):
        os.close(self._bell)


def wait_until(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_learner_that_asks_for_means_after_one_was_published_is_sent_it(tmp_path):
    """The Root then waits for that learner's next model, and the learner for the mean: neither may wait for ever."""
    size = message_size(3)
    model, mean = np.zeros(size, np.float32), np.zeros(size, np.float32)
    pack(model, np.array([1, 2, 3], np.float32), (Stamp(1, 10, 10), Stamp()))
    with Channels() as roots, Channels() as learners, Launcher() as launcher:
        pushes = learners.weights_outlet(f"shm://{tmp_path}/model", size)
        worker, role = Averager(3, ["0"], None), Root("root", children=1, barrier=True)
        inlet, outlet = (
            roots.weights_inlet(f"shm://{tmp_path}/model", size),
            roots.weights_outlet(f"shm://{tmp_path}/mean", size),
        )
        clock = time.monotonic_ns
        host = Host(role, worker, lambda message: None, clock, clock, models=Models(worker, {"0": inlet}, {"0": outlet}))
        launcher.say(Start())
        root = threading.Thread(target=serve, args=([host], launcher), daemon=True)
        root.start()
        pushes.publish(1, model)
        wait_until(lambda: pushes.serve() or role.published, "the Root averages what came")
        late = learners.weights_inlet(f"shm://{tmp_path}/mean", size)
        wait_until(lambda: late.latest(mean) is not None, "who asks late is answered")
        assert mean[:3].tolist() == [1, 2, 3]
        launcher.say(Stop("enough"))
        root.join(LIMIT_S)
        assert not root.is_alive()


class Lasting(Role):
    """Works for as long as its worker does, from the start on."""

    def table(self):
        return ()

    def absorb(self, event):
        if not isinstance(event, Begin):
            return []
        self.working = True
        return [Work(None)]

    def waiting_for(self):
        return "samples"


class Sliced(Worker):
    """Work of some slices, each of which takes a while."""

    def __init__(self, slices):
        super().__init__()
        self.slices = slices

    def work(self, argument):
        for _ in range(self.slices):
            time.sleep(0.01)
            yield


def test_a_process_ends_when_all_its_roles_have_reported(tmp_path):
    """The launcher takes the report of the first for the end of the process, and reads nothing after it."""
    told = []
    clock = time.monotonic_ns
    hosts = [Host(Lasting(name), Sliced(slices), told.append, clock, clock) for name, slices in (("first", 0), ("second", 30))]
    with Launcher() as launcher:
        launcher.say(Start())
        launcher.say(Stop("enough"))
        serving = threading.Thread(target=serve, args=(hosts, launcher), daemon=True)
        serving.start()
        serving.join(LIMIT_S)
        assert not serving.is_alive()
    assert [message.role for message in told if isinstance(message, Report)] == ["second", "first"]
