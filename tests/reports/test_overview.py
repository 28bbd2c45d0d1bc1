"""The README's picture: its numbers, bounds counted in, and its two files."""

import itertools
import math
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest
from bundles import unpacked
from PIL import Image

from reports import dataset, overview, picture, readme
from reports.bounds import Told
from reports.overview import Line, Point
from reports.pairs import REFERENCE
from reports.styles import LIGHT


def told(value, bound="", low=None, high=None):
    return Told({"value": value, "ci_low": low, "ci_high": high, "n": 5, "censored": 0}, bound)


def line(*points, algorithm="ppo", opponent="rllib"):
    cells = [Point(f"workload {at}", "a machine", one, 5) for at, one in enumerate(points)]
    return Line("closed", algorithm, opponent, "RLlib", REFERENCE, cells)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([told(8.81), told(8.87)], "8.8x"),
        ([told(2.0), told(8.0)], "4.0x"),
        ([told(1.0), told(2.0), told(30.0)], "2.0x"),
        ([told(2.42), told(3.15, "at_least")], "> 2.7x"),
        ([told(1.64), told(2.52, "at_most")], "< 2.1x"),
        ([told(1.0), told(2.0), told(3.0, "at_least")], "2.0x"),
        ([told(1.0), told(3.0), told(2.0, "at_least")], "2.0x to 3.0x"),
        ([told(1.0, "at_most"), told(3.0, "at_least")], "?"),
        ([Told(None, neither=True)], "?"),
        ([told(5.0), Told(None, neither=True), told(4.0)], "4.0x to 5.0x"),
    ],
)
def test_a_median_counts_bounds_in(points, said):
    assert line(*points).said == said


def test_a_few_workloads_are_told_one_by_one():
    assert line(told(8.81), told(8.87)).values == "8.8x, 8.9x"
    assert line(told(2.42), told(3.15, "at_least")).values == "2.4x, > 3.1x"
    assert line(told(1.0), told(2.0), told(4.0), told(8.0)).values == "median 2.8x"


@pytest.mark.parametrize(("value", "bound", "said"), [(3.19, "at_least", "> 3.1x"), (3.11, "at_most", "< 3.2x")])
def test_a_bound_is_rounded_so_that_it_still_holds(value, bound, said):
    assert line(told(value, bound)).said == said


def test_a_point_is_shown_where_its_interval_excludes_1():
    above, across, bound = told(2.0, low=1.1, high=3.0), told(2.0, low=0.9, high=3.0), told(2.0, "at_least")
    assert [one.shown for one in line(above, across, bound).points] == [True, False, False]
    assert line(told(0.5, low=0.4, high=0.9)).points[0].shown


@pytest.fixture(scope="module")
def data():
    roots = [f"results/reference/{name}.parquet" for name in ("convergence/lunarlander-dqn", "staleness/waiting")]
    return dataset.load([unpacked(root) for root in roots])


def test_lines_are_those_of_the_rows_and_waiting_workloads_are_left_out(data):
    lines = overview.overview(data)
    assert [one.opponent for one in lines] == ["rllib", "sb3", "xingtian", "sync"]
    assert {one.mode for one in lines} == {""}, "DQN is neither strict nor relaxed"
    keys = {"system": "tianji", "baseline": "rllib", "threshold_kind": "evaluated"}
    row = data.table.one(workload="lunarlander-dqn", metric="restricted_mean_time_ratio", **keys)
    assert lines[0].points[0].ends == (row["value"], row["value"]), "two of five runs got there: every run counts"
    assert (lines[0].values, lines[0].points[0].shown) == ("1.0x*", False)
    assert (
        overview.found(lines)[0] == "DQN: TianJi is 1.0x as fast as RLlib (1 workload), every run counted (restricted means)."
    )


def test_the_picture_names_what_it_is_of_and_comes_in_light_and_dark(data, tmp_path):
    assert picture.write(data, tmp_path)
    sizes = set()
    for name in picture.FILES:
        with Image.open(tmp_path / name) as drawn:
            sizes.add(drawn.size)
            corner = drawn.convert("L").getpixel((0, 0))
            assert (corner > 250) == (name == picture.LIGHT_FILE)
    assert len(sizes) == 1
    with LIGHT.applied():
        figure = picture.draw(overview.overview(data), LIGHT)
    texts = [text.get_text() for text in [*figure.axes[0].texts, *figure.legends[0].get_texts()]]
    plt.close(figure)
    assert {"DQN: 1 workload, 5 paired blocks each", "2 cores of AMD EPYC", "1.0x*"} <= set(texts)


def test_a_second_division_has_rows_of_its_own(data):
    lines = overview.overview(data)
    both = [*lines, *(one._replace(division="open") for one in lines)]
    with LIGHT.applied():
        figure = picture.draw(both, LIGHT)
    texts = [text.get_text() for text in figure.axes[0].texts]
    plt.close(figure)
    assert [text.partition(":")[0] for text in texts if text.startswith("DQN")] == ["DQN", "DQN, open division"]


def test_without_two_systems_there_is_no_picture(tmp_path):
    nothing = SimpleNamespace(groups={})
    assert not picture.write(nothing, tmp_path)
    assert not list(tmp_path.iterdir())


def test_its_alternative_text_says_what_was_found(data):
    markup = readme.picture(data, "docs/report")
    assert 'srcset="docs/report/ratios-dark.png"' in markup
    assert "\n" not in markup
    assert "DQN: TianJi is 1.0x as fast as RLlib (1 workload), every run counted (restricted means)." in markup


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.4, 3.0, [0.5, 1, 2]),
        (0.15, 70, [0.2, 1, 5, 20]),
        (0.9, 2000, [1, 5, 20, 100, 500]),
        (0.005, 1.2, [0.02, 0.05, 0.2, 1]),
    ],
)
def test_numbers_of_the_axis_do_not_touch_and_one_is_always_there(low, high, shown):
    found = picture.ticks(low, high)
    assert found == shown
    apart = [math.log(b / a) / math.log(high / low) for a, b in itertools.pairwise(found)]
    assert min(apart) >= picture.TICK_WIDTH
