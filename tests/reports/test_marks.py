"""Axes and marks of figures: legible whatever their length."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
import scaling_bundles as made

from reports import dataset, paper
from reports.figures import draw
from reports.marks import TICKS_AT_MOST, plain_log
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


@pytest.mark.parametrize(
    ("names", "panels"), [(("tianji", "tianji-copies"), 2), (("tianji", "xingtian"), 1)], ids=["with copies", "without"]
)
def test_an_ideal_that_was_not_measured_has_no_panel(tmp_path, names, panels):
    made.session(tmp_path, systems=names, counts=(1, 8), blocks=1)
    (efficiency,) = (one for one in draw(dataset.load([tmp_path]), PAPER) if one.name.endswith("-efficiency"))
    assert len(efficiency.drawing.figure.axes) == panels
    assert ("as many copies" in paper.caption(efficiency)) is (panels == 2)
    plt.close("all")


@pytest.mark.parametrize("kind", ["throughput", "efficiency", "convergence"])
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
