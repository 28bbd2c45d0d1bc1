"""The record of a comparison: it is read as it was written, and damaged files are refused in one line."""

import json

import pytest
from msgspec.structs import replace

from suites.records.bundle import BundleError
from suites.statistics import comparison
from suites.statistics.comparison import Comparison, Metric, Round


def made(rounds=4, **more):
    metrics = (Metric("speed", "how fast", "steps/s", "higher", {}), Metric("delay", "how long", "s", "lower", {}))
    pairs = {"speed": [(100.0, 50.0), (100.0, 100.0), (100.0, 80.0)], "delay": [(1.0, 2.0)]}
    environment = {"cpu_model": "a processor", "cpu_usable": 2}
    return Comparison(
        environments={"base": environment, "head": environment},
        metrics=metrics,
        rounds=tuple(Round(n, "base", pairs, 1.5) for n in range(rounds)),
        **more,
    )


def test_it_comes_back_as_it_was(tmp_path):
    written = made(left_out={"x": "the base does not have it"}, planted="channel")
    comparison.write(written, tmp_path)
    assert comparison.read(tmp_path) == written
    assert comparison.read(tmp_path / "comparison.json") == written
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.json"]


def test_a_round_is_the_pair_in_the_middle():
    worse = made(rounds=2).worsenings()
    assert worse["speed"] == pytest.approx([0.2231, 0.2231], abs=1e-4), "log(100 / 80)"
    assert worse["delay"] == pytest.approx([0.6931, 0.6931], abs=1e-4)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d.update(schema="tianji-bench/comparison/2"), "has schema tianji-bench/comparison/2; this version reads"),
        (lambda d: d["rounds"][1]["pairs"].pop("delay"), "damaged: a round lacks 'delay'"),
        (lambda d: d["rounds"][1]["pairs"]["delay"].clear(), "comparison.json: no median"),
        (lambda d: d["rounds"][0]["pairs"].update(speed=[[1.0, 0.0]]), "ratios need positive values"),
        (lambda d: d.update(looks=[9, 4]), "give rising numbers of rounds"),
        (lambda d: d.pop("metrics"), "damaged: Object missing required field `metrics`"),
    ],
)
def test_what_is_damaged_or_of_another_version_is_refused_in_one_line(tmp_path, spoil, says):
    comparison.write(made(), tmp_path)
    file = tmp_path / "comparison.json"
    data = json.loads(file.read_text())
    spoil(data)
    file.write_text(json.dumps(data))
    with pytest.raises(BundleError, match=says) as refused:
        comparison.read(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_cut_file_and_none_are_refused(tmp_path):
    with pytest.raises(BundleError, match="No such file"):
        comparison.read(tmp_path / "comparison.json")
    (tmp_path / "comparison.json").write_bytes(b'{"schema": "tianji-be')
    with pytest.raises(BundleError, match="damaged"):
        comparison.read(tmp_path)


def test_its_rule_is_what_it_was_measured_by():
    rule = replace(made(), size=0.1, looks=(5,)).rule
    assert (rule.size, rule.looks) == (0.1, (5,))
