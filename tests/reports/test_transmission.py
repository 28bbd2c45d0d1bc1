"""The transmission part of a report, from the committed reference bundles."""

import json

import numpy as np
import pandas as pd
import pytest
import report_pages
from bundles import unpacked
from scipy import stats

from programs.cli import run
from reports.__main__ import main
from suites.transmission.analysis import OVER_SIZES

# What its fixtures make is made once.
pytestmark = [pytest.mark.xdist_group("reports-transmission"), pytest.mark.long(why="a whole report is built")]

RECORDED = "results/reference/transmission.parquet"
MIB = 1 << 20


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "built"
    assert run("tianji-report", main, ["build", str(unpacked(RECORDED)), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def rows(report):
    text = (report / "summary.json").read_text()
    return json.loads(text, parse_constant=lambda c: pytest.fail(f"{c} in summary.json"))["rows"]


def goodput(system, block, size):
    """From the raw lines, without the project's own code."""
    for path in unpacked(RECORDED).glob(f"samples.n1.b{block}.p*.{system}/events.jsonl"):
        for event in map(json.loads, path.read_text().splitlines()):
            if event["event"] == "transfer" and event["size_bytes"] == size:
                return event["intervals"] * size / event["seconds"]
    raise AssertionError((system, block, size))


@pytest.mark.parametrize(("first", "second"), [("tianji", "ray-store"), ("pyzmq", "memcpy"), ("tianji", "tianji-again")])
def test_a_ratio_is_what_the_events_say(rows, first, second):
    key = ("samples", first, "goodput_ratio", second, MIB, 1)
    names = ("workload", "system", "metric", "baseline", "size_bytes", "explorers")
    (row,) = [r for r in rows if tuple(r[name] for name in names) == key]
    ratios = [goodput(first, block, MIB) / goodput(second, block, MIB) for block in range(row["n"])]
    assert row["n"] == 5
    assert row["value"] == pytest.approx(np.exp(np.mean(np.log(ratios))))
    interval = stats.ttest_1samp(np.log(ratios), 0).confidence_interval(0.95)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))


def test_every_row_says_where_it_was(rows):
    for row in rows:
        assert row["suite"] == "transmission"
        emulated = "2hosts" in row["workload"]
        assert (row["testbed"], row["nodes"]) == (("netns", 2) if emulated else ("local", 1))
        assert (row["size_bytes"] is None) is (row["metric"] == OVER_SIZES)
        assert row["size_bytes"] is None or row["size_bytes"] % 8 == 0
        assert row["explorers"] >= 1
        assert row["value"] is not None


def test_table_diagram_and_page(report, rows):
    table = pd.read_csv(report / "tables" / "messages.csv").set_index(["Workload", "Explorers", "Size", "Pipe"])
    (share,) = [
        r["value"]
        for r in rows
        if (r["workload"], r["system"], r["metric"], r["baseline"]) == ("samples", "ray-store", "goodput_ratio", "memcpy")
        and (r["explorers"], r["size_bytes"]) == (1, 64 * MIB)
    ]
    own = table.loc[("samples", 1, "64 MiB", "Ray's object store")]
    assert float(own["Of the ceiling"].split(" [")[0]) == pytest.approx(share, rel=0.01)
    assert float(own["MB/s"].split(" [")[0].replace(",", "")) > 0
    page = report_pages.read(report)
    assert report_pages.broken(report) == report_pages.twice(report) == []
    for text in ("memory (ceiling)", "Ray&#39;s object store", "TianJi, encrypted", "Goodput"):
        assert text in page, text
    assert "samples-2hosts-1gbit" in (report / "charts" / "messages.js").read_text()
    assert "Deviations" not in page
