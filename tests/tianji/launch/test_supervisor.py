"""What a supervisor makes of roles that fail or take their time while a run stops; roles are sockets of a thread here."""

import os
import threading
import time

import pytest
import zmq

from tianji.launch import supervisor
from tianji.launch.crew import Crew
from tianji.launch.supervisor import Policy, RoleFailed, Supervisor
from tianji.messages import (
    ACTOR_STEPS,
    PROTOCOL,
    Episodes,
    Failed,
    Hello,
    Progress,
    Report,
    Saved,
    Start,
    Stop,
    decode_to_role,
    encode,
)

LEARNER, ACTOR = "learner g0", "actor g0.a0"
LIMIT_MS = 20_000


class Ends(Crew):
    """Processes that end when a test says so."""

    def __init__(self):
        self.happened, self._ended = os.eventfd(0, os.EFD_NONBLOCK), []

    def say(self, *end):
        self._ended.append(end)
        os.eventfd_write(self.happened, 1)

    @property
    def descriptors(self):
        return [self.happened]

    def ended(self):
        os.eventfd_read(self.happened)
        found, self._ended = self._ended, []
        return found

    def end(self, orderly):
        os.close(self.happened)


class Roles:
    """Both roles' sides of the control socket."""

    def __init__(self, context):
        self.sockets = {name: context.socket(zmq.DEALER) for name in (LEARNER, ACTOR)}
        for socket in self.sockets.values():
            socket.linger = 0
            socket.connect("inproc://control")

    def tell(self, message):
        self.sockets[message.role].send(encode(message))

    def hears(self, name, kind):
        while self.sockets[name].poll(LIMIT_MS):
            if isinstance(message := decode_to_role(self.sockets[name].recv()), kind):
                return message
        raise AssertionError(f"{name} heard no {kind.__name__}")

    def begin(self):
        for name in self.sockets:
            self.tell(Hello(name, PROTOCOL, os.getpid()))
        for name in self.sockets:
            self.hears(name, Start)


def report(name):
    return Report(name, {}, {}, {}, 0.0, 0)


@pytest.fixture
def play():
    """Serves a script of roles to its end; what the listener heard. The first `Saved` ends the run, as `ends` says."""
    context, crew = zmq.Context(), Ends()
    control = context.socket(zmq.ROUTER)
    control.bind("inproc://control")
    roles, threads = Roles(context), []

    def serve(script, ends=lambda: "steps", restarts=3, respawn=None):
        heard = []

        def listener(message):
            heard.append(message)
            return ends() if isinstance(message, Saved) and message.steps else None

        savers = frozenset({LEARNER})
        policy = Policy(respawn=respawn, replaceable=frozenset({ACTOR}), restarts=restarts, savers=savers)
        threads.append(threading.Thread(target=script, args=(roles, crew)))
        threads[0].start()
        try:
            Supervisor(control, crew, frozenset(roles.sockets), listener, policy).supervise(None)
        except KeyboardInterrupt:
            heard.append("interrupted")
        return heard

    yield serve
    for thread in threads:
        thread.join()
    for socket in (control, *roles.sockets.values()):
        socket.close(0)
    context.term()
    crew.end(())


def fails_late(roles, crew):
    roles.begin()
    roles.tell(Saved(LEARNER, 100, 1, 1))
    roles.hears(ACTOR, Stop)
    roles.tell(Failed(ACTOR, "RuntimeError: the environment fell over"))
    crew.say(ACTOR, "status 1", True)
    roles.hears(LEARNER, Stop)
    roles.tell(report(LEARNER))


def test_an_actor_that_fails_while_the_run_stops_costs_its_account_alone(play):
    heard = play(fails_late)
    assert [message.role for message in heard if isinstance(message, Report)] == [LEARNER]


def test_without_restarts_it_fails_the_run(play):
    with pytest.raises(RoleFailed, match="the environment fell over"):
        play(fails_late, restarts=0)


def test_an_interrupt_waits_for_a_learner_that_stores_its_state(play, monkeypatch):
    monkeypatch.setattr(supervisor, "INTERRUPT_LIMIT_S", 0.05)

    def takes_its_time(roles, crew):
        roles.begin()
        roles.tell(Saved(LEARNER, 100, 1, 1))
        roles.hears(LEARNER, Stop)
        time.sleep(0.5)
        roles.tell(report(LEARNER))

    def interrupt():
        raise KeyboardInterrupt

    heard = play(takes_its_time, interrupt)
    assert [message.role for message in heard if isinstance(message, Report)] == [LEARNER], "the actor says nothing more"
    assert heard[-1] == "interrupted"


def test_a_run_whose_saves_take_long_has_longer_to_end(play, monkeypatch):
    monkeypatch.setattr(supervisor, "DRAIN_LIMIT_S", 0.05)

    def stores_long(roles, crew):
        roles.begin()
        roles.tell(Saved(LEARNER, 0, int(1e9), 1))
        roles.tell(Saved(LEARNER, 100, 1, 1))
        roles.hears(LEARNER, Stop)
        roles.tell(report(ACTOR))
        time.sleep(0.5)
        roles.tell(report(LEARNER))

    heard = play(stores_long)
    assert {message.role for message in heard if isinstance(message, Report)} == {LEARNER, ACTOR}


def test_a_successor_goes_on_from_the_steps_that_its_predecessor_told_of_though_no_episode_ended(play):
    """Else an actor with long episodes explores again as if it had just begun."""
    respawned, taking_part = [], []

    def dies(roles, crew):
        taking_part.append(roles)
        roles.begin()
        roles.tell(Episodes(ACTOR, 1_000, 1, []))
        roles.tell(Progress(ACTOR, 2, {"samples_produced": 9_000.0, ACTOR_STEPS: 10_000.0}))
        crew.say(ACTOR, "status -9", True)
        roles.hears(LEARNER, Stop)
        roles.tell(report(LEARNER))
        # The successor's.
        roles.tell(report(ACTOR))

    def respawn(*arguments):
        respawned.append(arguments)
        # This ends the run.
        taking_part[0].tell(Saved(LEARNER, 100, 1, 1))

    play(dies, respawn=respawn)
    assert [(name, lives, steps) for name, lives, steps, _ in respawned] == [(ACTOR, 1, 10_000)]
