"""Processes that start: which are reported because a call takes long, and which are given up."""

from tianji.launch.starts import LIMIT_S, PATIENCE_S, Starts


def test_a_call_that_takes_long_is_reported_once_and_given_up_at_its_limit():
    starts = Starts(call_limit_s=60.0)
    starts.begin(["a", "b"], 0.0)
    assert starts.look({"a": "its constructor"}, 1.0) == ({}, {})
    slow, stuck = starts.look({"a": "its constructor"}, 1.0 + PATIENCE_S)
    assert (slow, stuck) == ({"a": "its constructor has not returned for 10 s"}, {})
    assert starts.look({"a": "its constructor"}, 2.0 + PATIENCE_S) == ({}, {})
    slow, stuck = starts.look({"a": "its constructor"}, 61.0)
    assert (slow, stuck) == ({}, {"a": "its constructor has not returned for 60 s (silence_seconds)"})
    assert starts.names == {"b"}


def test_each_environment_that_is_made_is_progress():
    """A hundred constructors of a minute each are no fault."""
    starts = Starts(call_limit_s=120.0)
    starts.begin(["a"], 0.0)
    for number in range(100):
        doing = {"a": f"environment X, number {number}: its constructor"}
        assert starts.look(doing, 100.0 * number)[1] == {}
    starts.greeted("a")
    assert starts.look({}, 1e6) == ({}, {})


def test_a_process_that_says_nothing_at_all_has_a_limit_too():
    starts = Starts(call_limit_s=None)
    starts.begin(["a"], 0.0)
    assert starts.look({"a": None}, LIMIT_S - 1) == ({}, {})
    assert starts.look({"a": None}, LIMIT_S) == ({}, {"a": "it did not get on within 120 s"})
