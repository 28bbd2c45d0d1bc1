"""Figures for a paper: every file format, one column wide, from bundles alone, with the drawn data next to each."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import scaling_bundles as made
from bundles import unpacked
from commands import refusal

from programs.cli import run
from reports import dataset, picker
from reports import paper as plates
from reports.__main__ import main

# What its fixtures make is made once.
pytestmark = [pytest.mark.xdist_group("reports-paper"), pytest.mark.long(why="every figure of a paper is drawn")]

ROOT = Path(__file__).parents[2]
SOURCES = [
    ROOT / "docs" / "results" / "smoke.parquet",
    ROOT / "results" / "reference" / "staleness" / "ppo-ablation.parquet",
    ROOT / "results" / "reference" / "scaling" / "dqn-five-more-blocks.parquet",
]
KINDS = ("svg", "pdf", "png", "csv", "tex")
POINTS_PER_INCH = 72


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "figures"
    assert run("tianji-report", main, ["paper", *map(str, SOURCES), "--out", str(out)]) == 0
    return out


def names(paper):
    return sorted(path.stem for path in paper.glob("*.svg"))


def test_every_figure_comes_in_every_form(paper):
    found = names(paper)
    assert found == ["costs", "curves", "nodes", "time"]
    every = {f"{name}.{kind}" for name in found for kind in KINDS} | {"all.tex"}
    assert {path.name for path in paper.iterdir()} == every


def test_each_is_as_wide_as_a_column_and_its_fonts_are_in_it(paper):
    for name in names(paper):
        width = re.search(r'<svg[^>]* width="([\d.]+)pt"', (paper / f"{name}.svg").read_text())
        assert width, name
        assert float(width[1]) / POINTS_PER_INCH == pytest.approx(3.35, abs=0.01), name
        data = (paper / f"{name}.pdf").read_bytes()
        assert b"/FontFile2" in data or b"/FontFile" in data, f"{name}: fonts are embedded"
        assert b"/Subtype /Type3" not in data, name


def test_captions_say_what_bars_are_and_how_many_runs_there_are(paper):
    for name in names(paper):
        tex = (paper / f"{name}.tex").read_text()
        caption = re.search(r"\\caption\{(.*)\}", tex)
        assert caption, name
        assert caption[1].endswith("."), name
        assert rf"\includegraphics[width=\columnwidth]{{{name}.pdf}}" in tex
        assert tex.count("{") == tex.count("}"), name
    for name in ("costs", "nodes"):
        assert "95" in (paper / f"{name}.tex").read_text()
        assert "Machine" in (paper / f"{name}.tex").read_text(), "what was measured on what"
        assert r"\begin{tabular}" in (paper / f"{name}.tex").read_text()
    inputs = re.findall(r"\\input\{(.+)\}", (paper / "all.tex").read_text())
    assert sorted(inputs) == names(paper)


def test_what_is_drawn_is_what_was_measured(paper):
    """Bars are those of the first page; points have their intervals where there are five blocks."""
    drawn = pd.read_csv(paper / "costs.csv")
    data = dataset.load([SOURCES[0]])
    bars = {
        (choice.workload, bar.title): bar.costs["seconds"][0]
        for choice, own in picker.bars(data).items()
        if choice.kind == "training"
        for bar in own
    }
    smoke = drawn[drawn["panel"] == "cartpole-ppo-zoo (2 cores of AMD EPYC)"]
    own = drawn if smoke.empty else smoke
    assert len(own)
    for _, line in own[own["name"] == "RLlib"].iterrows():
        assert line["seconds"] == pytest.approx(bars["cartpole-ppo-zoo", "RLlib"], rel=1e-3)
    points = pd.read_csv(paper / "nodes.csv")
    measured = points[points["name"].isin(["TianJi", "XingTian-style"])]
    assert set(measured["nodes"]) == {1, 2, 3, 4, 6, 8}
    assert measured["low"].notna().all()


def test_many_workloads_go_on_in_a_second_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(plates, "PANELS", 1)
    for mode in ("weak", "strong"):
        made.session(tmp_path, made.Setting(scaling=mode, trains=False), systems=("tianji",), counts=(1, 2), blocks=1)
    found = list(plates.plates(dataset.load([tmp_path])))
    assert [one.name for one in found] == ["nodes", "nodes-2"]
    assert [len(one.panels) for one in found] == [1, 1]
    assert [bool(one.tables) for one in found] == [True, False]


def test_the_same_bundles_give_the_same_bytes(paper, tmp_path):
    assert run("tianji-report", main, ["paper", *map(str, SOURCES), "--out", str(tmp_path / "again")]) == 0
    for path in paper.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_only_a_folder_of_figures_is_written_over(capsys, tmp_path):
    (tmp_path / "precious").write_text("kept")
    said = refusal(capsys, run, "tianji-report", main, ["paper", str(SOURCES[0]), "--out", str(tmp_path)])
    assert "is not a folder of plates" in said


def test_a_damaged_bundle_is_named_and_nothing_is_written(capsys, tmp_path):
    shutil.copytree(unpacked("docs/results/smoke.parquet"), tmp_path / "copy")
    victim = sorted((tmp_path / "copy").iterdir())[0]
    (victim / "bundle.json").write_text("{")
    said = refusal(capsys, run, "tianji-report", main, ["paper", str(tmp_path / "copy"), "--out", str(tmp_path / "out")])
    assert victim.name in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["paper", "build"])
def test_a_place_that_cannot_be_written_is_named_before_anything_is_drawn(capsys, tmp_path, command):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    said = refusal(capsys, run, "tianji-report", main, [command, str(SOURCES[0]), "--out", str(out)])
    assert f"--out {out}: " in said
