"""The display of a run's progress."""

import io

import pytest
from rich.console import Console

from tianji.launch.events import Restarted
from tianji.messages import Episode, Episodes, Progress, Saved, Started
from tianji.run import display
from tianji.run.display import Display, Live
from tianji.run_folder import Tally


def progress(second, steps, role="learner g0", lag=0.0):
    counters = {"steps": float(steps), "optimizer_steps": steps / 10, "staleness_mean_rounds": lag}
    return Progress(role, second * 10**9, counters)


def shown(small, terminal, *messages):
    text, live = io.StringIO(), Live()
    console = Console(file=text, force_terminal=terminal, width=120, _environ={"TERM": "xterm"})
    with Display(small(), live, console) as screen:
        for message in messages:
            screen.show(message, live.see(message))
    return text.getvalue()


def test_rates_are_of_all_learners_and_of_the_last_interval():
    live = Live()
    for message in (progress(1, 0), progress(1, 0, "learner g1"), progress(2, 100), progress(2, 300, "learner g1")):
        assert live.see(message)
    assert (live.steps_per_s, live.updates_per_s) == (400, 40)
    assert live.total("steps") == 400
    live.see(progress(4, 1100))
    assert live.steps_per_s == 500 + 300


def test_the_mean_of_a_run_that_is_resumed_counts_on():
    live = Live()
    live.go_on(Tally(seconds=9.0, episodes=300, returns=[100.0] * 99))
    live.see(Episodes("actor g0.a0", 0, 0, [Episode(0, 200.0, 200, 0)]))
    assert (live.episodes, live.mean_return) == (301, 101.0)


def test_rates_do_not_count_steps_twice_when_a_run_goes_back():
    live = Live()
    for message in (progress(1, 0), progress(2, 1000), Restarted("", "learner g0 ended", 0.25, 0), progress(3, 400)):
        live.see(message)
    assert live.steps_per_s == 1000
    live.see(progress(4, 900))
    assert live.steps_per_s == 500


def test_elsewhere_than_on_a_terminal_it_is_a_line_now_and_then(small, monkeypatch):
    monkeypatch.setattr(display, "LINE_S", 0.0)
    played = Episodes("actor g0.a0", 0, 0, [Episode(0, 30.0, 30, 0), Episode(0, 50.0, 50, 0)])
    text = shown(small, False, played, progress(1, 0, lag=2.5), progress(2, 1024, lag=2.5))
    assert text.splitlines()[-1] == " 50%  1,024 steps  return 40.0  1,024 steps/s  102 updates/s  lag 2.5 rounds"


def test_lines_are_not_more_than_one_in_ten_seconds(small):
    assert shown(small, False, *(progress(second, 10 * second) for second in range(1, 50))) == ""


def test_a_run_that_time_ends_is_measured_by_time(small, monkeypatch):
    monkeypatch.setattr(display, "LINE_S", 0.0)
    config = small(stop_seconds=10.0, stop_steps=1_000_000)
    text, live = io.StringIO(), Live()
    with Display(config, live, Console(file=text, width=120)) as screen:
        for message in (Started("learner g0", 10**9), progress(2, 100), progress(9, 2000)):
            screen.show(message, live.see(message))
    assert [line.split()[0] for line in text.getvalue().splitlines()] == ["10%", "80%"]


def test_episodes_that_are_played_again_are_shown_once():
    live = Live()
    live.see(Episodes("actor g0.a0", 0, 0, [Episode(0, 30.0, 30, 0)]))
    live.see(Saved("learner g0", 512, 1, 1))
    live.see(Episodes("actor g0.a0", 0, 0, [Episode(0, 90.0, 90, 0)]))
    live.see(Restarted("", "learner g0 ended", 0.25, 0))
    assert (live.episodes, live.mean_return) == (1, 30.0)


def test_a_terminal_gets_a_bar(small):
    text = shown(small, True, progress(1, 0), progress(2, 1024))
    assert "1,024 steps/s" in text
    assert "50%" in text


@pytest.mark.parametrize(("role", "says"), [("actor g0.a0", "again in 0.25 s: actor g0.a0"), ("", "all roles, from the last")])
def test_what_is_started_again_is_told(small, role, says):
    assert says in shown(small, False, Restarted(role, "it ended with status -9", 0.25, 0))
