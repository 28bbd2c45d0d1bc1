"""Figures for a paper: every file format, one column wide, from bundles alone, with the drawn data next to each."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from bundles import unpacked
from commands import refusal

from programs.cli import run
from reports import dataset
from reports.__main__ import main

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-paper")

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
    assert found == [
        *(f"convergence-{name}" for name in ("curves", "ratios", "seconds", "times")),
        *("scaling-throughput", "scaling-wire", "staleness-balance"),
    ]
    every = {f"{name}.{kind}" for name in found for kind in KINDS} | {"all.tex", "figures.json"}
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
    for name in ("convergence-times", "scaling-throughput"):
        assert "95" in (paper / f"{name}.tex").read_text()
        assert r"\begin{tabular}" in (paper / f"{name}.tex").read_text()
    inputs = re.findall(r"\\input\{(.+)\}", (paper / "all.tex").read_text())
    assert sorted(inputs) == names(paper)


def test_what_is_drawn_is_what_was_measured(paper):
    """The forest's numbers are those of summary.json; points have their intervals where there are five blocks."""
    drawn = pd.read_csv(paper / "convergence-ratios.csv")
    rows = dataset.load([SOURCES[0]]).rows
    for _, line in drawn.iterrows():
        keys = {
            "workload": line["workload"],
            "system": line["system"],
            "baseline": line["baseline"],
            "threshold_kind": line["kind"],
        }
        metric = "_".join(["time_to_threshold_ratio", *([line["bound"]] if isinstance(line["bound"], str) else [])])
        (row,) = [r for r in rows if r["metric"] == metric and all(r[k] == v for k, v in keys.items())]
        assert line["value"] == pytest.approx(row["value"], rel=1e-4)
    points = pd.read_csv(paper / "scaling-throughput.csv")
    points = points[points["metric"].notna()]
    assert set(points["nodes"]) == {1, 2, 3, 4, 6, 8}
    assert points["ci_low"].notna().all()
    assert (points["n"] == 5).all()


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
