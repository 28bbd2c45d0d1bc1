"""What counts as a metric in the output of a command, and what is refused."""

import json

import pytest
from toy_repositories import line

from gate import metrics
from gate.execution import CommandFailed, Finished
from gate.metrics import PytestBenchmark, Source, Value, WallClock


@pytest.fixture
def told(tmp_path):
    """Reads an output."""

    def read(text, source=None):
        file = tmp_path / "output"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return (source or Source()).read("it", Finished(1.5, file), tmp_path)

    return read


def test_lines_with_a_metric_count_and_others_do_not(told):
    noise = ['{"level": "info"}', "[1, 2]", "metric", '{"metric"', '["metric"]', f"log: {line('no')}", "\xff", '"metric"', ""]
    found = told("\n".join([*noise, f"  {line()}", line("rate", 3, "things/s", "higher")]))
    assert found == {"latency": Value("latency", 1.0, "lower", "s"), "rate": Value("rate", 3.0, "higher", "things/s")}


def test_several_values_of_a_metric_are_one(told):
    assert told("\n".join(line(value=value) for value in (1.0, 9.0, 2.0)))["latency"].value == 2.0
    with pytest.raises(CommandFailed, match="'latency' has two units or two directions"):
        told(f"{line()}\n{line(unit='ms')}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"metric": "x", "value": "1", "better": "lower"}', "line 1 of its output is no metric: Expected `float`"),
        ('{"metric": "x", "value": true, "better": "lower"}', "Expected `float`"),
        ('{"metric": "x", "value": 1, "better": "faster"}', "Invalid enum value 'faster'"),
        ('{"metric": "x", "value": 1, "better": "lower", "units": "s"}', "unknown field `units`"),
        ('{"metric": "", "value": 1, "better": "lower"}', "length >= 1"),
        ('{"metric": "\\u001b[31m", "value": 1, "better": "lower"}', "matching regex"),
        (line(value=-1), "'latency' is -1: ratios need values above 0"),
        (line(value=1e16), "'latency' is 1e"),
        (line(value=1e-16), "'latency' is 1e-16"),
        ('{"metric": "x", "value": 1e999, "better": "lower"}', "is no metric|out of range|ratios need|no metrics"),
        ("", "it: no metrics; expected lines on standard output"),
    ],
)
def test_a_metric_that_is_none_is_refused(told, text, says):
    with pytest.raises(CommandFailed, match=says):
        told(text)


def test_output_and_metrics_are_bounded(told, monkeypatch):
    monkeypatch.setattr(metrics, "MOST_METRICS", 2)
    with pytest.raises(CommandFailed, match="has more than 2 metrics"):
        told("\n".join(line(name) for name in "abc"))
    monkeypatch.setattr(metrics, "OUTPUT_BYTES", 10)
    with pytest.raises(CommandFailed, match="at most 10 are read"):
        told(line())


def test_wall_clock_time_is_a_metric(told):
    assert told(line(), WallClock()) == {"wall-clock time": Value("wall-clock time", 1.5, "lower", "s")}


def test_the_median_of_pytest_benchmark(told, tmp_path):
    source = PytestBenchmark(tmp_path / "b.json")
    stats = {"median": 0.002, "min": 0.001, "mean": 0.003}
    (tmp_path / "b.json").write_text(json.dumps({"benchmarks": [{"fullname": "t.py::a", "stats": stats, "extra": 1}]}))
    assert told("", source) == {"t.py::a": Value("t.py::a", 0.002, "lower", "s")}
    source.before(tmp_path)
    with pytest.raises(CommandFailed, match="add --benchmark-json="):
        told("", source)


@pytest.mark.parametrize("text", ["", "[]", '{"benchmarks": [{"fullname": "x"}]}', "\\udcff"])
def test_a_file_that_pytest_benchmark_did_not_write_is_refused(told, tmp_path, text):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(CommandFailed, match="is no file of pytest-benchmark"):
        told("", PytestBenchmark(tmp_path / "b.json"))


def test_a_link_is_not_followed(told, tmp_path):
    (tmp_path / "b.json").symlink_to("/etc/hostname")
    with pytest.raises(CommandFailed, match="is a link"):
        told("", PytestBenchmark(tmp_path / "b.json"))
