"""`calibrate` at the command line: what it refuses in one line, and what it writes."""

import pytest

from programs.cli import ConfigError
from suites import __main__ as suites
from suites.calibration import measuring
from tianji.simulation.calibration import Calibration, load
from tianji.simulation.machines import Machine


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "."], "exists"),
        (["--out", "no-folder/calibration.json"], "no folder no-folder"),
        (["--out", "new.json", "--seconds", "0"], "--seconds 0"),
        (["--out", "new.json", "--workloads", "cartpole-pppo"], "unknown workload"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_measured(arguments, says, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measuring, "calibrate", None)
    with pytest.raises(ConfigError, match=says):
        suites.main(["calibrate", *arguments])
    assert not list(tmp_path.iterdir())


def test_the_file_holds_what_was_measured(monkeypatch, tmp_path, capsys):
    asked = []
    made = Calibration(Machine(cores=2), "a machine", {})

    def calibrate(workloads, seconds, cores, say):
        asked.append(([workload.id for workload in workloads], seconds))
        say("1/1 nothing")
        return made

    monkeypatch.setattr(measuring, "calibrate", calibrate)
    out = tmp_path / "calibration.json"
    assert suites.main(["calibrate", "--out", str(out), "--workloads", "cartpole-ppo-nodes,cartpole-ppo-nodes"]) == 0
    assert asked == [(["cartpole-ppo-nodes"], 6.0)]
    assert load(out) == made
    assert capsys.readouterr().out.splitlines() == ["1/1 nothing", f"calibration: {out}"]


def test_what_cannot_be_measured_is_one_line_and_no_file(monkeypatch, tmp_path, capsys):
    def calibrate(workloads, seconds, cores, say):
        raise measuring.Failed("slow: no round of updates ended in 6 s; give more --seconds")

    monkeypatch.setattr(measuring, "calibrate", calibrate)
    assert suites.main(["calibrate", "--out", str(tmp_path / "new.json"), "--workloads", "cartpole-ppo-nodes"]) == 1
    assert capsys.readouterr().err == "tianji-bench: slow: no round of updates ended in 6 s; give more --seconds\n"
    assert not list(tmp_path.iterdir())


def test_the_speed_of_a_core_is_that_of_all_at_once(monkeypatch):
    monkeypatch.setattr(measuring, "loops_per_s", lambda places: [300.0] * len(places))
    assert measuring.core_speed(2) == 300
    # Two processes share one core and a half.
    assert measuring.core_speed(1.5) == 400
