"""Predictions beyond eight nodes: where their times come from, and what they are worth."""

from pathlib import Path

import pytest

from benchmarks.beyond import SMALL, Extrapolation, extrapolated, main, point, recorded
from suites.records import archive, forecasts
from suites.records.forecasts import Point
from suites.session import catalogue

RECORDED = Path(__file__).parents[2] / "results/reference/scaling/ppo-five-blocks.parquet"


@pytest.fixture(scope="module")
def times():
    return recorded(archive.read(RECORDED))


def test_one_node_is_predicted_from_its_own_cells(times):
    found = point(catalogue.load("cartpole-ppo-nodes"), times, "groups", "strict", 1.0, 1)
    # What those cells trained on in a second of their 25 s, the start included.
    assert found.samples_per_s == pytest.approx(2950, rel=0.05)
    assert found.system == "tianji"


def test_a_law_is_compared_with_what_was_simulated():
    def line(share):
        return [Point("groups", "strict", 1.0, n, 8, 100.0 * n * share(n), 0.0, "learner") for n in (*SMALL, 512)]

    perfect = extrapolated(line(lambda n: 1.0), 512)
    assert perfect == Extrapolation(0.0, 0.0, pytest.approx(51_200), 51_200.0)
    broken = extrapolated(line(lambda n: 1.0 if n <= 8 else 0.25), 512)
    assert broken.ratio == pytest.approx(4)


def test_a_file_is_written_that_reports_read(tmp_path, capsys):
    out = tmp_path / f"few{forecasts.SUFFIX}"
    assert main(["--most", "1", "--recorded", str(RECORDED), "--out", str(out)]) == 0
    (found,) = forecasts.read([tmp_path])
    assert {one.nodes for one in found.points} == {1}
    assert {(one.topology, one.discipline) for one in found.points} == {
        (topology, rule) for topology in ("groups", "one learner") for rule in ("strict", "relaxed")
    }
    assert found.command == f"python -m benchmarks.beyond --most 1 --recorded {RECORDED} --out {out}"
    assert "| predicted: topology" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "x.json"], "must end with"),
        (["--recorded", "gone.parquet"], "no such file"),
        (["--gbit", "x"], "numbers are needed"),
        (["--gbit", "0"], "above 0"),
    ],
)
def test_bad_input_is_one_line(arguments, says, capsys):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
