"""Silent processes: when they are pinged, and when they are reported."""

from tianji.launch.silent_processes import Silence


def test_a_process_that_does_not_answer_is_reported_once():
    silence = Silence()
    silence.heard("a", 0.0)
    silence.heard("b", 0.0)
    assert silence.look("ab", 4.0, 10.0) == ([], [])
    assert silence.look("ab", 5.0, 10.0) == (["a", "b"], [])
    silence.heard("b", 5.5)
    assert silence.look("ab", 9.0, 10.0) == ([], [])
    assert silence.look("ab", 10.0, 10.0) == ([], ["a"])
    assert silence.look("a", 12.0, 10.0) == ([], [])
    assert silence.look("a", 30.0, 10.0) == ([], []), "it is pinged once, and reported once"
    # If it speaks and falls silent again, it is reported again.
    silence.heard("a", 31.0)
    assert silence.look("a", 36.0, 10.0) == (["a"], [])
    assert silence.look("a", 41.0, 10.0) == ([], ["a"])


def test_a_quiet_process_that_answers_each_ping_is_healthy():
    """It was reported, and killed, if a look found it quiet for the whole limit before it was pinged again."""
    silence, answered = Silence(), 0
    silence.heard("a", 0.0)
    for look in range(1, 400):
        now = look * 2.5
        ping, tell = silence.look("a", now, 10.0)
        assert tell == []
        if ping:
            answered += 1
            # It has nothing else to say.
            silence.heard("a", now + 0.001)
    assert answered > 100


def test_looks_that_come_late_leave_time_for_an_answer():
    silence = Silence()
    silence.heard("a", 0.0)
    # The launcher itself stood still for a minute.
    assert silence.look("a", 60.0, 10.0) == (["a"], [])
    assert silence.look("a", 62.5, 10.0) == ([], [])
    silence.heard("a", 62.6)
    assert silence.look("a", 65.0, 10.0) == ([], [])
