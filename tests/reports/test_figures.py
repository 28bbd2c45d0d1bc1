"""The registry of figures: one for a suite, with captions and alternative texts beside it, legible on light and dark."""

import json
import re

import matplotlib.pyplot as plt
import pytest
import scaling_bundles as made
from bundles import unpacked

from reports import dataset, figures
from reports.looks import GREY, INK
from reports.styles import PAGE, PLACES


@pytest.fixture(scope="module")
def data():
    return dataset.load([unpacked("docs/results/smoke.parquet")])


@pytest.fixture(scope="module")
def drawn(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("figures")
    found = figures.draw(data, PAGE)
    figures.write(found, out, PAGE, ["svg"])
    return found, out


def test_there_are_few_kinds():
    assert len({(plot.of.suite, plot.name) for plot in figures.REGISTRY}) == len(figures.REGISTRY) <= 17


def test_a_figure_has_a_panel_for_each_workload_and_the_index_names_them(data, drawn):
    found, out = drawn
    index = json.loads((out / "figures.json").read_text())
    assert figures.read(out) == index
    assert [one["name"] for one in index] == [one.name for one in found]
    for entry, one in zip(index, found, strict=True):
        assert entry["name"].startswith(f"{entry['suite']}-")
        assert entry["of"] == [view.slug for view in one.plot.of.all(data)]
        assert (out / f"{entry['name']}.svg").exists()


def test_an_alternative_text_says_what_was_found_beside_the_caption(drawn):
    for one in drawn[0]:
        assert one.caption.endswith(".")
        assert one.alt.startswith(one.caption)
        assert one.found, one.name
        assert "Machine" in one.caption, "what was measured on what"
    (times,) = (one for one in drawn[0] if one.name == "convergence-times")
    assert "as fast as RLlib" in times.alt


def test_a_drawing_takes_the_colour_of_the_text_around_it(drawn):
    for file in drawn[1].glob("*.svg"):
        text = file.read_text()
        assert "currentColor" in text
        assert INK not in text
        assert not re.search(r"fill: #ffffff; (opacity|stroke)", text), "nothing is painted behind it"


def test_places_of_axes_are_rounded_and_follow_what_is_drawn():
    with PAGE.applied():
        figure, axes = PAGE.axes((2.0, 2.0), 2)
        figure.draw_without_rendering()
        before = axes[0].get_position().x0
        axes[0].set_ylabel("a label\nof two lines")
        figure.draw_without_rendering()
        plt.close(figure)
    assert axes[0].get_position().x0 > before
    for axis in axes:
        for place in axis.get_position().bounds:
            assert place == pytest.approx(round(place, PLACES), abs=1e-12)


def test_many_workloads_go_on_in_a_second_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "PANELS", 1)
    for mode in ("weak", "strong"):
        made.session(tmp_path, made.Setting(scaling=mode, trains=False), systems=("tianji",), counts=(1, 2), blocks=1)
    (throughput,) = (plot for plot in figures.REGISTRY if (plot.of.suite, plot.name) == ("scaling", "throughput"))
    found = figures.draw(dataset.load([tmp_path]), PAGE, [throughput])
    plt.close("all")
    assert [one.name for one in found] == ["scaling-throughput", "scaling-throughput-2"]
    assert [len(one.views) for one in found] == [1, 1]


def test_a_fitted_law_does_not_look_like_a_measurement(tmp_path):
    made.session(tmp_path, systems=("tianji", "xingtian"), counts=(1, 2, 4, 6, 8), blocks=1)
    (throughput,) = (plot for plot in figures.REGISTRY if (plot.of.suite, plot.name) == ("scaling", "throughput"))
    (one,) = figures.draw(dataset.load([tmp_path]), PAGE, [throughput])
    axis = one.drawing.figure.axes[0]
    laws = [line for line in axis.lines if line.get_label() == "fitted law of scalability"]
    measured = {line.get_color() for line in axis.lines if line.get_marker() not in ("None", "")}
    plt.close("all")
    assert len(laws) == 2
    assert {line.get_color() for line in laws} == {GREY}
    assert GREY not in measured
