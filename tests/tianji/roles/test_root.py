"""The Root as a state machine."""

from tianji.averaging import Stamp
from tianji.roles.role import End, ModelArrived, PushModel, StopAsked, Work, WorkDone
from tianji.roles.root import Average, Averaged, Root


def arrived(group, number, samples=10):
    return ModelArrived(str(group), (Stamp(number, samples, number * 10), Stamp()))


def test_off_policy_every_arrival_is_averaged_with_the_latest_of_the_others():
    root = Root("root", groups=2, barrier=False)
    assert root.handle(arrived(1, 1)) == [Work(Average([1], [10]))]
    assert root.handle(WorkDone(Averaged())) == [PushModel(1, (Stamp(1, 10, 10), Stamp()), "1")]
    assert root.handle(arrived(0, 1, samples=30)) == [Work(Average([0, 1], [30, 10]))]
    # The other group's push has been answered.
    assert root.handle(WorkDone(Averaged())) == [PushModel(2, (Stamp(1, 30, 10), Stamp(1, 0, 10)), "0")]


def test_a_fast_group_counts_once_and_what_comes_meanwhile_is_for_the_next_mean():
    root = Root("root", groups=2, barrier=False)
    root.handle(arrived(0, 1), arrived(1, 1))
    for number in (2, 3, 4):
        assert root.handle(arrived(1, number, samples=20)) == [], "it is averaging"
    pushed = [PushModel(1, (Stamp(1, 10, 10), Stamp(1, 0, 10)), group) for group in ("0", "1")]
    assert root.handle(WorkDone(Averaged())) == [*pushed, Work(Average([0, 1], [10, 20]))]


def test_a_mean_says_how_many_others_it_has_and_their_steps_together():
    root = Root("root", groups=4, barrier=False)
    root.handle(arrived(0, 1), arrived(1, 3), arrived(3, 2))
    assert root.handle(WorkDone(Averaged())) == [
        PushModel(1, (Stamp(1, 10, 10), Stamp(2, 0, 50)), "0"),
        PushModel(1, (Stamp(3, 10, 30), Stamp(2, 0, 30)), "1"),
        PushModel(1, (Stamp(2, 10, 20), Stamp(2, 0, 40)), "3"),
    ]


def test_on_policy_it_waits_for_the_same_push_of_all():
    root = Root("root", groups=3, barrier=True)
    assert root.handle(arrived(0, 1)) == []
    assert root.waiting_for() == "barrier"
    assert root.handle(arrived(2, 1)) == []
    assert root.handle(arrived(1, 1)) == [Work(Average([0, 1, 2], [10, 10, 10]))]
    root.handle(WorkDone(Averaged()))
    assert root.handle(arrived(1, 2)) == []


def test_on_policy_it_asks_for_one_group_after_the_other_and_at_its_end_for_all():
    root = Root("root", groups=3, barrier=True)
    assert root.next_model() == "0"
    root.handle(arrived(2, 1))
    assert root.next_model() == "0"
    root.handle(arrived(0, 1))
    assert root.next_model() == "1"
    root.handle(arrived(1, 1), WorkDone(Averaged()))
    assert root.next_model() == "0"
    root.handle(StopAsked("steps"))
    assert root.next_model() is None
    assert Root("root", groups=3, barrier=False).next_model() is None, "every push is of use"


def test_it_ends_when_asked_to():
    root = Root("root", groups=2, barrier=False)
    root.handle(arrived(0, 1))
    assert root.handle(StopAsked("steps")) == []
    assert root.handle(WorkDone(Averaged()))[-1] == End()
