"""Axes and marks of figures: legible whatever their length."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
import scaling_bundles as made

from reports import dataset
from reports.figures import draw
from reports.looks import look
from reports.marks import OPEN, TICKS_AT_MOST, intervals, legend, plain_log
from reports.styles import PAGE, PAPER


def drawn_ticks(inches, low, high):
    """Texts of a logarithmic axis of this length, and whether any two of them touch."""
    figure = plt.figure(figsize=(inches + 1, 1), layout="none")
    axes = figure.add_axes((0.5 / (inches + 1), 0.4, inches / (inches + 1), 0.5))
    axes.plot([low, high], [1, 2])
    plain_log(axes.xaxis)
    figure.canvas.draw()
    left, right = axes.get_xlim()
    shown = [text for at, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True) if left <= at <= right]
    boxes = sorted((text.get_window_extent() for text in shown), key=lambda box: box.x0)
    # Numbers with less than a seventh of their height between them read as one.
    touching = any(one.x1 + 0.15 * one.height >= other.x0 for one, other in pairwise(boxes))
    plt.close(figure)
    return [text.get_text() for text in shown], touching


@pytest.mark.parametrize("inches", [0.7, 0.9, 1.2, 3, 8])
@pytest.mark.parametrize(("low", "high"), [(1, 3), (78, 300), (0.8, 100), (0.002, 70_000)])
def test_ticks_have_plain_numbers_that_do_not_touch(inches, low, high):
    with PAPER.applied():
        texts, touching = drawn_ticks(inches, low, high)
    assert not touching, texts
    assert 1 <= len(texts) <= TICKS_AT_MOST
    assert all(float(text) > 0 for text in texts)


def test_longer_axes_say_more():
    with PAGE.applied():
        few, many = (drawn_ticks(inches, 0.8, 100)[0] for inches in (0.7, 8))
    assert set(few) < set(many)


@pytest.mark.parametrize(("low", "high"), [(115, 122), (101, 140), (641, 852)])
def test_an_axis_of_less_than_a_decade_has_numbers_too(low, high):
    with PAPER.applied():
        texts, touching = drawn_ticks(1.2, low, high)
    assert len(texts) >= 2
    assert not touching, texts


def drawn_marks(rows):
    figure, axis = plt.subplots()
    made_of = intervals(axis, "tianji", "TianJi", "nodes", rows)
    faces = [line.get_markerfacecolor() for line in axis.lines if len(line.get_xdata()) and line.get_marker() != "None"]
    legend(figure, [axis], 4, made_of)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    bars = sum(len(one.get_segments()) for one in axis.collections)
    plt.close(figure)
    return faces, bars, texts


def test_a_mark_without_an_interval_is_open_and_the_legend_says_so():
    row = {"metric": "m", "unit": "s", "value": 2.0, "n": 5, "censored": 0}
    known, unknown = row | {"nodes": 1, "ci_low": 2.0, "ci_high": 2.0}, row | {"nodes": 2, "ci_low": None, "ci_high": None}
    colour = look("tianji").colour
    assert drawn_marks([known]) == ([colour], 1, ["TianJi"]), "an interval of no width is one"
    assert drawn_marks([known, unknown]) == ([colour, "none"], 1, ["TianJi", OPEN])


@pytest.mark.parametrize("kind", ["throughput", "convergence"])
def test_a_page_and_a_paper_draw_the_same(tmp_path, kind):
    made.session(tmp_path, systems=("tianji", "xingtian", "tianji-copies"), counts=(1, 8), blocks=2)
    data = dataset.load([tmp_path])

    def lines(style):
        (found,) = (one.drawing.figure for one in draw(data, style) if one.name.endswith(kind))
        return [[tuple(line.get_ydata()) for line in axis.lines] for axis in found.axes]

    shown, printed = lines(PAGE), lines(PAPER)
    assert any(any(axis) for axis in printed)
    for axis, column in zip(shown, printed, strict=False):
        assert set(column) <= set(axis)
    plt.close("all")
