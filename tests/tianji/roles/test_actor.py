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
    SessionLost,
    StopAsked,
    WeightsArrived,
    WeightsWait,
    Work,
    WorkDone,
)

A, B, C, D = (SlotRef(3, number) for number in range(4))


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
    assert role.handle(WeightsArrived(9, number=1)) == []
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
    assert role.handle(WeightsArrived(20, number=1)) == [Work(Rollout(B))]


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
    # Its world tells it of each replacement.
    role.handle(WeightsArrived(5, number=1), WeightsArrived(9, number=2))
    send, _ = role.handle(WorkDone(RolloutDone(A, 8, 1, 100, ((4, 5), (6, 9)))))
    (header,) = send.chunks
    assert (header.version, header.renewals) == (3, ((4, 5), (6, 9)))
    # It has heard of them: what it made with them is not waited for again.
    assert (role.version, role.heard) == (9, 3)


def test_a_dropped_fragment_that_was_renewed_leaves_the_next_one_its_true_version():
    role = actor("relaxed")
    role.handle(Credited("chunks", [A]), WeightsArrived(3))
    role.handle(WeightsArrived(9, number=1))
    assert role.handle(WorkDone(RolloutDone(A, 0, 0, 0))) == [Work(Rollout(A))]
    (send,) = role.handle(done(A))
    assert send.chunks[0].version == 9


def test_publications_that_an_actor_missed_are_no_loss():
    """Allowances follow the rounds of its learner, and not how many of them it saw."""
    role = Actor("actor", producer=3, layout=77, discipline=rule("admitted-in-order", {"eta": 2}))
    role.handle(Credited("chunks", [A, B, C, D]), WeightsArrived(0))
    begun = [A]
    for slot in (B, C):
        begun += [effect.argument.slot for effect in role.handle(done(begun[-1])) if isinstance(effect, Work)]
        assert begun[-1] == slot
    role.handle(done(C))
    assert role.waiting_for() == "weights", "three fragments ahead of the first round"
    # The weights of the first round were replaced before it could read them.
    assert role.handle(WeightsArrived(40, number=2)) == [Work(Rollout(D))]
    role.handle(Credited("chunks", [A]))
    assert [type(effect) for effect in role.handle(done(D))] == [Send, Work], "two rounds have ended: two fragments may begin"


def quota_free():
    role = actor("quota-free")
    role.handle(Credited("chunks", [A, B, C, D]))
    return role


def sent(effects):
    return [(chunk.version, chunk.last) for effect in effects if isinstance(effect, Send) for chunk in effect.chunks]


def test_what_is_under_way_when_the_round_closes_is_the_last_chunk():
    role = quota_free()
    assert role.handle(WeightsArrived(4)) == [Work(Rollout(A))]
    effects = role.handle(done(A))
    assert (sent(effects), effects[1:]) == ([(4, False)], [Work(Rollout(B))])
    assert role.handle(WeightsWait()) == [Cut()]
    effects = role.handle(done(B))
    assert (sent(effects), effects[1:]) == ([(4, True)], [])
    assert role.handle(WeightsArrived(4, closing=True)) == [], "it has answered already"
    assert role.waiting_for() == "weights"
    assert role.handle(WeightsArrived(5, number=1)) == [Work(Rollout(C))]


def test_an_actor_between_two_fragments_answers_with_a_step():
    role = quota_free()
    role.handle(WeightsArrived(4))
    role.handle(done(A))
    # The fragment ended by itself, and the news came with its end.
    effects = role.handle(done(B), WeightsArrived(4, closing=True))
    assert [effect for effect in effects if isinstance(effect, Work)] in ([Work(Rollout(C))], [Work(Rollout(C, brief=True))])
    role.handle(WeightsWait())
    effects = role.handle(done(C))
    assert (sent(effects), effects[1:]) == ([(4, True)], [])


def test_an_actor_that_missed_the_opening_answers_with_a_step_too():
    role = quota_free()
    assert role.handle(WeightsArrived(7, closing=True)) == [Work(Rollout(A, brief=True))]
    effects = role.handle(done(A))
    assert (sent(effects), effects[1:]) == ([(7, True)], [])


def test_a_slot_is_kept_for_the_answer():
    role = actor("quota-free")
    role.handle(Credited("chunks", [A, B]))
    role.handle(WeightsArrived(0))
    assert [type(effect) for effect in role.handle(done(A))] == [Send]
    assert role.waiting_for() == "credit"
    assert role.handle(WeightsArrived(0, closing=True)) == [Work(Rollout(B, brief=True))]


def test_whoever_loses_the_session_answers_again():
    role = quota_free()
    role.handle(WeightsArrived(4, closing=True))
    role.handle(done(A))
    assert role.handle(SessionLost("chunks")) == [Work(Rollout(B, brief=True))]
    assert sent(role.handle(done(B))) == [(4, True)]


def test_a_fragment_that_begins_elsewhere_than_the_one_before_ended_says_so():
    role = actor()
    role.handle(Credited("chunks", [A, B]), WeightsArrived(3))
    for goes_on in (True, False):
        effects = role.handle(WorkDone(RolloutDone(A, 8, 1, 100, goes_on=goes_on)), WeightsArrived(4))
        (header,) = next(effect for effect in effects if isinstance(effect, Send)).chunks
        assert header.goes_on == goes_on
