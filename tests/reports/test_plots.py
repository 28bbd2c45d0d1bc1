"""Axes and marks of figures: legible whatever their length."""

from itertools import pairwise

import matplotlib.pyplot as plt
import pytest
import scaling_bundles as made

from reports import dataset
from reports.charts import Axis, Curve, Panel
from reports.nodes import Scaled
from reports.plots import LIGHT, PAPER, TICKS_AT_MOST, draw, plain_log


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
    with LIGHT.applied():
        few, many = (drawn_ticks(inches, 0.8, 100)[0] for inches in (0.7, 8))
    assert set(few) < set(many)


@pytest.mark.parametrize(("low", "high"), [(115, 122), (101, 140), (641, 852)])
def test_an_axis_of_less_than_a_decade_has_numbers_too(low, high):
    with PAPER.applied():
        texts, touching = drawn_ticks(1.2, low, high)
    assert len(texts) >= 2
    assert not touching, texts


def test_a_paper_draws_what_the_pages_draw(tmp_path):
    """Every point of a diagram is in the figure, and each row of bars begins where the last one ended."""
    made.session(tmp_path, systems=("tianji", "xingtian", "tianji-copies"), counts=(1, 8), blocks=2)
    (view,) = Scaled.all(dataset.load([tmp_path]))
    (group,) = view.groups
    with PAPER.applied():
        figure = draw(group.panels, PAPER, 2.0)
    printed = [tuple(line.get_ydata()) for line in figure.axes[0].lines]
    assert [tuple(one.y) for one in group.panels[0].curves] == printed[: len(group.panels[0].curves)]
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == list(dict.fromkeys(one.name for one in group.panels[0].curves if one.legend))
    plt.close(figure)


def test_bars_of_one_row_follow_each_other():
    bars = [Curve(name=name, x=[10.0, 20.0], y=["a", "b"], colour="#111111") for name in ("works", "waits")]
    with PAPER.applied():
        figure = draw([Panel("t", Axis("%"), Axis(""), bars, "bars")], PAPER, 2.0)
    ends = [(patch.get_x(), patch.get_width()) for patch in figure.axes[0].patches]
    assert ends == [(0.0, 10.0), (0.0, 20.0), (10.0, 10.0), (20.0, 20.0)]
    plt.close(figure)
