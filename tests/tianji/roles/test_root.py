"""The Root as a state machine."""

from tianji.averaging import Stamp
from tianji.roles.fusion import ROOT
from tianji.roles.role import End, ModelArrived, PushModel, StopAsked, Work, WorkDone
from tianji.roles.root import Average, Averaged, Root


def arrived(group, number, samples=10):
    return ModelArrived(str(group), (Stamp(number, samples, number * 10), Stamp()))


def test_off_policy_every_arrival_is_averaged_with_the_latest_of_the_others():
    root = Root("root", children=2, barrier=False)
    assert root.handle(arrived(1, 1)) == [Work(Average(["1"], [10]))]
    assert root.handle(WorkDone(Averaged())) == [PushModel(1, (Stamp(1, 10, 10), Stamp()), "1")]
    assert root.handle(arrived(0, 1, samples=30)) == [Work(Average(["0", "1"], [30, 10]))]
    # The other group's push has been answered.
    assert root.handle(WorkDone(Averaged())) == [PushModel(2, (Stamp(1, 30, 10), Stamp(1, 0, 10)), "0")]


def test_a_fast_group_counts_once_and_what_comes_meanwhile_is_for_the_next_mean():
    root = Root("root", children=2, barrier=False)
    root.handle(arrived(0, 1), arrived(1, 1))
    for number in (2, 3, 4):
        assert root.handle(arrived(1, number, samples=20)) == [], "it is averaging"
    pushed = [PushModel(1, (Stamp(1, 10, 10), Stamp(1, 0, 10)), group) for group in ("0", "1")]
    assert root.handle(WorkDone(Averaged())) == [*pushed, Work(Average(["0", "1"], [10, 20]))]


def test_a_mean_says_how_many_others_it_has_and_their_steps_together():
    root = Root("root", children=4, barrier=False)
    root.handle(arrived(0, 1), arrived(1, 3), arrived(3, 2))
    assert root.handle(WorkDone(Averaged())) == [
        PushModel(1, (Stamp(1, 10, 10), Stamp(2, 0, 50)), "0"),
        PushModel(1, (Stamp(3, 10, 30), Stamp(2, 0, 30)), "1"),
        PushModel(1, (Stamp(2, 10, 20), Stamp(2, 0, 40)), "3"),
    ]


def test_on_policy_it_waits_for_the_same_push_of_all():
    root = Root("root", children=3, barrier=True)
    assert root.handle(arrived(0, 1)) == []
    assert root.waiting_for() == "barrier"
    assert root.handle(arrived(2, 1)) == []
    assert root.handle(arrived(1, 1)) == [Work(Average(["0", "1", "2"], [10, 10, 10]))]
    root.handle(WorkDone(Averaged()))
    assert root.handle(arrived(1, 2)) == []


def test_on_policy_it_asks_for_one_group_after_the_other_and_at_its_end_for_all():
    root = Root("root", children=3, barrier=True)
    assert root.next_model() == "0"
    root.handle(arrived(2, 1))
    assert root.next_model() == "0"
    root.handle(arrived(0, 1))
    assert root.next_model() == "1"
    root.handle(arrived(1, 1), WorkDone(Averaged()))
    assert root.next_model() == "0"
    root.handle(StopAsked("steps"))
    assert root.next_model() is None
    assert Root("root", children=3, barrier=False).next_model() is None, "every push is of use"


def test_an_inner_root_passes_one_model_on_and_hands_the_mean_that_comes_back_down():
    root = Root("root 0", children=2, barrier=False, inner=True)
    block = ModelArrived("1", (Stamp(4, 30, 60), Stamp(2)))
    assert root.handle(arrived(0, 1), block) == [Work(Average(["0", "1"], [10, 30]))]
    # A group and a Root with three: four groups, with the samples and the steps of all.
    assert root.handle(WorkDone(Averaged())) == [PushModel(1, (Stamp(1, 40, 70), Stamp(3)), ROOT)]
    assert root.handle(arrived(0, 2)) == [], "one push is under way at a time"
    assert root.handle(ModelArrived(ROOT, (Stamp(1, 40, 70), Stamp(5, 0, 100)))) == [Work(Average([ROOT], [1]))]
    assert root.handle(WorkDone(Averaged())) == [
        PushModel(1, (Stamp(1, 10, 10), Stamp(8, 0, 160)), "0"),
        PushModel(1, (Stamp(4, 30, 60), Stamp(6, 0, 110)), "1"),
        Work(Average(["0", "1"], [10, 30])),
    ]


def test_on_policy_an_inner_root_listens_to_the_root_above_until_its_mean_comes():
    root = Root("root 0", children=2, barrier=True, inner=True)
    root.handle(arrived(0, 1))
    assert root.next_model() == "1"
    root.handle(arrived(1, 1), WorkDone(Averaged()))
    assert root.next_model() == ROOT
    root.handle(ModelArrived(ROOT, (Stamp(1, 20, 20), Stamp(2, 0, 20))))
    root.handle(WorkDone(Averaged()))
    assert root.next_model() == "0"


def test_it_ends_when_asked_to():
    root = Root("root", children=2, barrier=False)
    root.handle(arrived(0, 1))
    assert root.handle(StopAsked("steps")) == []
    assert root.handle(WorkDone(Averaged()))[-1] == End()
