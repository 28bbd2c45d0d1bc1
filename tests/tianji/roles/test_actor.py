"""The actor as a state machine: no process, no socket, no clock."""

from tianji.messages import SlotRef
from tianji.roles.actor import Actor, Rollout, RolloutDone
from tianji.roles.role import Begin, Credited, End, Send, StopAsked, WeightsArrived, Work, WorkDone

A, B = SlotRef(3, 0), SlotRef(3, 1)


def done(slot):
    return WorkDone(RolloutDone(slot, count=8, ragged_rows=1, size_bytes=100))


def actor(**more):
    return Actor("actor", producer=3, layout=77, **more)


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
    role = actor(fresh_weights=False)
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert [type(effect) for effect in role.handle(done(A))] == [Send, Work]


def test_without_credit_it_stops_producing():
    role = actor(fresh_weights=False)
    role.handle(Credited("chunks", [A]))
    role.handle(WeightsArrived(0))
    role.handle(done(A))
    assert role.waiting_for() == "credit"
    assert role.handle(Credited("chunks", [A])) == [Work(Rollout(A))]
    assert role.counters() == {"samples_produced": 8.0, "chunks_produced": 1.0}


def test_a_stop_lets_the_fragment_finish():
    role = actor()
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert role.handle(StopAsked("test")) == []
    send, end = role.handle(done(A))
    assert isinstance(send, Send)
    assert end == End()
    assert role.handle(WeightsArrived(1)) == []
