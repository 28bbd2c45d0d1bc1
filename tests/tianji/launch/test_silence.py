"""Silent processes: when they are pinged, and when they are reported."""

from tianji.launch.silence import Silence


def test_who_says_nothing_is_asked_once_a_limit_and_told_of_once():
    silence = Silence()
    silence.heard("a", 0.0)
    silence.heard("b", 0.0)
    assert silence.look("ab", 4.0, 10.0) == ([], [])
    assert silence.look("ab", 5.0, 10.0) == (["a", "b"], [])
    silence.heard("b", 5.5)
    assert silence.look("ab", 9.0, 10.0) == ([], [])
    assert silence.look("ab", 10.0, 10.0) == ([], ["a"])
    assert silence.look("a", 12.0, 10.0) == ([], [])
    assert silence.look("a", 16.0, 10.0) == (["a"], [])
    # Who answered and falls silent again is told of again.
    silence.heard("a", 17.0)
    assert silence.look("a", 27.5, 10.0) == (["a"], [])
    assert silence.look("a", 28.0, 10.0) == ([], ["a"])
