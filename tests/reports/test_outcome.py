"""What is said of a comparison: words for changes, and text that came with a measurement."""

import re
import xml.etree.ElementTree as ET

import pytest

from reports.regression import outcome
from suites.statistics.comparison import Comparison, Metric, Round


def made(*metrics, left_out=None):
    """A comparison in which heads are so many times their bases: (name, unit, better, ratio)."""
    environment = {"cpu_usable": 2, "cpu_model": "x", "revision": "@head | (`1`)"}
    pairs = {name: [(1.0, ratio)] for name, _, _, ratio in metrics}
    return outcome.of(
        Comparison(
            environments={"base": environment, "head": environment},
            metrics=tuple(Metric(name, name, unit, better, {}) for name, unit, better, _ in metrics),
            left_out=left_out or {},
            rounds=tuple(Round(n, "base", pairs, 1.0) for n in range(4)),
        )
    )


@pytest.mark.parametrize(
    ("ratio", "better", "unit", "says"),
    [
        (1.09, "lower", "s", "1.09x slower"),
        (0.5, "lower", "ms", "2.00x faster"),
        (1.5, "higher", "requests/s", "1.50x faster"),
        (0.8, "higher", "MB/s", "1.25x slower"),
        (1.2, "lower", "MiB", "1.20x higher"),
        (0.5, "higher", "", "2.00x lower"),
        (2.0, "lower", "misses", "2.00x higher"),
    ],
)
def test_changes_in_words(ratio, better, unit, says):
    assert outcome.changed(ratio, better, unit) == says
    assert made(("m", unit, better, ratio)).lines[0].change == says


def test_the_geometric_mean_is_over_changes_for_the_worse():
    both = made(("a", "s", "lower", 2.0), ("b", "x/s", "higher", 2.0))
    assert (both.mean_worsening, both.mean_change) == (pytest.approx(1.0), outcome.NO_CHANGE)
    assert made(("a", "s", "lower", 4.0), ("b", "s", "lower", 1.0)).mean_change == "2.00x slower"
    assert made(("a", "s", "lower", 4.0), ("b", "MiB", "lower", 1.0)).mean_change == "2.00x worse"
    assert made(("a", "s", "lower", 4.0)).mean_change is None


HOSTILE = ["@octocat", "[x](https://a.example)", "a|b", "`a`", "a\\|b", "<script>", "<!-- x", "**a**", "#1", "&lt;", "a``|\\"]


def test_names_are_code_and_end_no_cell():
    came = made(*((name, "|s", "lower", 1.0) for name in HOSTILE), left_out={"@somebody": "`why`|"})
    text = outcome.markdown(came)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(HOSTILE)
    assert {row.count("|") for row in rows} == {len(outcome.HEADS) + 1}
    assert "| `@octocat` |" in text
    assert "| <code>a&#124;b</code> |" in text
    assert "| <code>&#96;a&#96;</code> |" in text
    assert "| `<script>` |" in text
    # Outside of code nothing is left of them.

    plain = re.sub(r"`[^`\n]*`|<code>[^<>`\n]*</code>", "", text)
    assert not re.search(r"[@<`\[\\]|octocat|somebody", plain), plain


def test_a_comment_is_short_enough_and_says_what_it_leaves_out():
    names = [f"{'|' * 290}{number:03d}" for number in range(300)]
    came = made(*((name, "s", "lower", 1.0) for name in names), left_out={f"{name}x": "y" * 300 for name in names})
    text = outcome.comment(came, "gate")
    assert len(text) <= outcome.COMMENT_CHARACTERS
    assert text.startswith(outcome.marker("gate") + "\n### ✅ Regression check: nothing is worse by 5%")
    assert "more metrics are in the other files of this check." in text
    assert "more metrics were not compared." in text
    assert len(outcome.markdown(came).splitlines()) > 300, "the file has all"


def test_many_worse_metrics_do_not_fill_the_headline():
    came = made(*((f"m{number}", "s", "lower", 2.0) for number in range(9)))
    assert came.headline == "worse: m0, m1, m2, m3, m4 and 4 more"


def test_what_could_not_be_compared_says_why_in_every_form():
    came = outcome.unusable("the head: ended with status 1: <b>@x</b>", {}, 0.05, 0.05)
    assert came.headline == "the revisions could not be compared"
    assert "`the head: ended with status 1: <b>@x</b>`" in outcome.markdown(came)
    suite = ET.fromstring(outcome.junit(came))
    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    assert suite.find("testcase/error").get("message") == "the head: ended with status 1: <b>@x</b>"
    assert '"verdict": "unusable"' in outcome.json(came)
