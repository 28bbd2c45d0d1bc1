"""The actor as a state machine: no process, no socket, no clock."""

import pytest
from rules import rule

from tianji.messages import SlotRef
from tianji.roles.actor import Actor, Rollout, RolloutDone
from tianji.roles.role import (
    Begin,
    Credited,
    Cut,
    End,
    Renew,
    Send,
    StopAsked,
    WeightsArrived,
    WeightsWait,
    Work,
    WorkDone,
)

A, B = SlotRef(3, 0), SlotRef(3, 1)


def done(slot):
    return WorkDone(RolloutDone(slot, count=8, ragged_rows=1, size_bytes=100))


def actor(name="strict"):
    return Actor("actor", producer=3, layout=77, discipline=rule(name))


def test_samples_only_with_both_weights_and_credit():
    role = actor()
    assert role.handle(Begin()) == []
    assert role.handle(WeightsArrived(0)) == []
    assert role.waiting_for() == "credit"
    assert role.handle(Credited("chunks", [A, B])) == [Work(Rollout(A))]


def test_says_that_it_lacks_weights():
    role = actor()
    role.handle(Credited("chunks", [A]))
    assert role.waiting_for() == "weights"


def test_a_finished_fragment_is_sent_with_the_version_it_was_made_with():
    role = actor()
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(5))
    # Newer weights come in while it samples: they do not change what the fragment was made with.
    assert role.handle(WeightsArrived(9)) == []
    send, work = role.handle(done(A))
    assert isinstance(send, Send)
    (header,) = send.chunks
    assert (header.producer, header.sequence, header.version, header.layout) == (3, 0, 5, 77)
    assert (header.count, header.ragged_rows, header.size_bytes, header.slot) == (8, 1, 100, A)
    assert work == Work(Rollout(B))


def test_strict_sampling_waits_for_newer_weights():
    role = actor()
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert [type(effect) for effect in role.handle(done(A))] == [Send]
    assert role.handle(WeightsArrived(20)) == [Work(Rollout(B))]


def test_free_sampling_goes_on_with_the_weights_it_has():
    role = actor("relaxed")
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert [type(effect) for effect in role.handle(done(A))] == [Send, Work]


def test_without_credit_it_stops_producing():
    role = actor("relaxed")
    role.handle(Credited("chunks", [A]))
    role.handle(WeightsArrived(0))
    role.handle(done(A))
    assert role.waiting_for() == "credit"
    assert role.handle(Credited("chunks", [A])) == [Work(Rollout(A))]
    assert role.counters() == {"samples_produced": 8.0, "chunks_produced": 1.0, "fragments_dropped": 0.0}


def test_a_stop_lets_the_fragment_finish():
    role = actor()
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert role.handle(StopAsked("test")) == [Cut()]
    assert role.handle(StopAsked("again")) == []
    send, end = role.handle(done(A))
    assert isinstance(send, Send)
    assert end == End()
    assert role.handle(WeightsArrived(1)) == []


@pytest.mark.parametrize(("what", "effects"), [("finish", []), ("cut", [Cut()]), ("renew", [Renew()])])
def test_what_becomes_of_a_fragment_when_newer_weights_wait_is_the_disciplines_to_say(what, effects):
    role = actor("relaxed")
    role.discipline.when_weights_wait = what
    role.handle(Credited("chunks", [A, B]), WeightsArrived(3))
    assert role.handle(WeightsWait()) == effects
    assert role.handle(Credited("chunks", [])) == [], "asked twice"
    # Told while it idles, it has nothing to end.
    role.handle(done(A))
    role.handle(done(B))
    assert role.handle(WeightsWait()) == []


def test_a_fragment_that_went_on_with_newer_weights_says_from_where_on():
    role = actor()
    role.handle(Credited("chunks", [A, B]), WeightsArrived(3))
    send, _ = role.handle(WorkDone(RolloutDone(A, 8, 1, 100, ((4, 5), (6, 9)))))
    (header,) = send.chunks
    assert (header.version, header.renewals) == (3, ((4, 5), (6, 9)))
    # It has heard of them: what it made with them is not waited for again.
    assert (role.version, role.heard) == (9, 3)
