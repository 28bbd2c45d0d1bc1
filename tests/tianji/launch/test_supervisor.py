"""The supervisor with roles that fail or are slow while a run stops. Roles are sockets of a thread here."""

import os
import threading
import time

import pytest
import zmq

from tianji.launch import supervisor
from tianji.launch.crew import Crew
from tianji.launch.events import RoleFailed, Trouble
from tianji.launch.supervisor import Recovery, Supervisor
from tianji.messages import (
    ACTOR_STEPS,
    PROTOCOL,
    Episodes,
    Failed,
    Hello,
    Ping,
    Pong,
    PortsOpen,
    Progress,
    Report,
    Saved,
    Start,
    Stop,
    Wiring,
    decode_to_role,
    encode,
)

LEARNER, ACTOR = "learner g0", "actor g0.a0"
LIMIT_MS = 20_000


class Ends(Crew):
    """Processes that end when a test says so."""

    def __init__(self):
        self.happened, self._ended = os.eventfd(0, os.EFD_NONBLOCK), []
        self.killed, self.orderly = [], None

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

    def kill(self, name):
        self.killed.append(name)
        self.say(name, "status -9", False)

    def end(self, orderly):
        self.orderly = set(orderly)
        os.close(self.happened)
        return ()


class Roles:
    """Both roles' sides of the control socket."""

    def __init__(self, context):
        self.context = context
        self.sockets = {name: context.socket(zmq.DEALER) for name in (LEARNER, ACTOR)}

    def connect(self, badges):
        for name, socket in self.sockets.items():
            socket.linger = 0
            if badges:
                socket.setsockopt(zmq.ROUTING_ID, badges[name])
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

    def serve(script, ends=lambda: "steps", restarts=3, respawn=None, badges=None, edges=None, **more):
        roles.connect(badges)
        heard = []

        def listener(message):
            heard.append(message)
            return ends() if isinstance(message, Saved) and message.steps else None

        savers = frozenset({LEARNER})
        recovery = Recovery(respawn=respawn, replaceable=frozenset({ACTOR}), restarts=restarts, savers=savers, **more)
        threads.append(threading.Thread(target=script, args=(roles, crew)))
        threads[0].start()
        try:
            serving = Supervisor(control, crew, frozenset(roles.sockets), listener, recovery, badges, edges)
            serving.supervise(None)
        except KeyboardInterrupt:
            heard.append("interrupted")
        heard.append(dict(serving.dropped))
        return heard

    yield serve
    for thread in threads:
        thread.join()
    for socket in (control, *roles.sockets.values()):
        socket.close(0)
    context.term()
    crew.end(())


def test_only_processes_with_open_ports_report_them_and_each_hears_of_its_own_edges(play):
    heard = []

    def wires(roles, crew):
        roles.tell(PortsOpen(LEARNER, PROTOCOL, {"weights0": "tcp://a:1", "model0": "tcp://a:2", "chunks0": "shm://f"}))
        heard.append(roles.hears(LEARNER, Wiring).addresses)
        roles.begin()
        roles.tell(Saved(LEARNER, 100, 1, 1))
        for name in roles.sockets:
            roles.hears(name, Stop)
            roles.tell(report(name))

    play(wires, edges={LEARNER: ["weights0", "batches0"]})
    assert heard == [{"weights0": "tcp://a:1"}]


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
    assert heard[-2] == "interrupted"


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


def test_what_is_no_message_and_who_takes_no_part_is_dropped_and_the_run_goes_on(play):
    def script(roles, crew):
        for garbage in (b"", b"\xc1", b"\x93", os.urandom(100), b"\x91" * 5000, encode(Stop("enough"))):
            roles.sockets[ACTOR].send(garbage)
        roles.sockets[ACTOR].send_multipart([b"one", b"two"])
        roles.sockets[ACTOR].send(encode(Hello("stranger", PROTOCOL, 1)))
        roles.begin()
        roles.sockets[LEARNER].send(b"\xff")
        roles.tell(Saved(LEARNER, 100, 1, 1))
        for name in (ACTOR, LEARNER):
            roles.hears(name, Stop)
            roles.tell(report(name))

    heard = play(script)
    assert heard[-1] == {"malformed": 8, "unknown": 1}
    assert {message.role for message in heard if isinstance(message, Report)} == {ACTOR, LEARNER}


def test_who_does_not_answer_is_told_of_once(play):
    def script(roles, crew):
        roles.begin()
        for _ in range(8):
            roles.hears(LEARNER, Ping)
            roles.tell(Pong(LEARNER))
        roles.tell(Saved(LEARNER, 100, 1, 1))
        for name in (ACTOR, LEARNER):
            roles.hears(name, Stop)
            roles.tell(report(name))

    troubles = [message for message in play(script, silence_s=0.1) if isinstance(message, Trouble)]
    assert [trouble.role for trouble in troubles] == [ACTOR]
    assert "has not answered for 0.1 s; an environment may hang" in troubles[0].text


def test_who_does_not_answer_is_replaced_where_that_is_asked_for(play):
    begun = []

    def script(roles, crew):
        roles.begin()
        while not begun:
            roles.hears(LEARNER, Ping)
            roles.tell(Pong(LEARNER))
        assert crew.killed == [ACTOR]
        roles.tell(Hello(ACTOR, PROTOCOL, 2))
        roles.tell(Saved(LEARNER, 100, 1, 1))
        for name in (ACTOR, LEARNER):
            roles.hears(name, Stop)
            roles.tell(report(name))

    heard = play(script, silence_s=0.1, replace_silent=True, respawn=lambda name, *past: begun.append(name))
    assert begun == [ACTOR]
    assert "ended and started again" in next(message.text for message in heard if isinstance(message, Trouble))


def test_an_actor_that_hangs_does_not_hold_up_the_end(play, monkeypatch):
    monkeypatch.setattr(supervisor, "INTERRUPT_LIMIT_S", 0.2)

    def script(roles, crew):
        roles.begin()
        roles.tell(Saved(LEARNER, 100, 1, 1))
        roles.hears(LEARNER, Stop)
        roles.tell(report(LEARNER))

    begun = time.monotonic()
    heard = play(script)
    assert time.monotonic() - begun < 15
    assert [message.role for message in heard if isinstance(message, Trouble)] == [ACTOR]


def test_who_has_no_badge_speaks_for_nobody(play):
    badges = {LEARNER: b"tj-one", ACTOR: b"tj-two"}

    def script(roles, crew):
        stranger = roles.context.socket(zmq.DEALER)
        stranger.linger = 0
        stranger.connect("inproc://control")
        for message in (Hello(ACTOR, PROTOCOL, 1), Failed(LEARNER, "it is all over"), Report(ACTOR, {}, {}, {}, 0.0, 0)):
            stranger.send(encode(message))
        roles.begin()
        stranger.send(encode(Failed(LEARNER, "it is all over")))
        roles.tell(Saved(LEARNER, 100, 1, 1))
        for name in (ACTOR, LEARNER):
            roles.hears(name, Stop)
            roles.tell(report(name))
        stranger.close()

    heard = play(script, badges=badges)
    assert heard[-1] == {"unknown": 4}
    assert {message.role for message in heard if isinstance(message, Report)} == {ACTOR, LEARNER}


def test_without_restarts_an_actor_that_hangs_at_the_end_fails_the_run(play, monkeypatch):
    monkeypatch.setattr(supervisor, "INTERRUPT_LIMIT_S", 0.1)
    monkeypatch.setattr(supervisor, "DRAIN_LIMIT_S", 0.5)

    def script(roles, crew):
        roles.begin()
        roles.tell(Saved(LEARNER, 100, 1, 1))
        roles.hears(LEARNER, Stop)
        roles.tell(report(LEARNER))

    with pytest.raises(RoleFailed, match=r"actor g0\.a0 did not end within"):
        play(script, restarts=0)
