"""Text that came with bundles is text wherever it is written, and nothing is written but below --out, or only a part."""

import csv
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from io import StringIO

import pandas as pd
import pytest
import report_pages
from bundles import make
from commands import refusal
from scaling_bundles import edit, session

from benchmarks.fuzz import folders, sessions
from programs.cli import run
from reports import escaping, tables, terminal
from reports.__main__ import main

MARKUP = '<script>alert("x")</script> $x_1^2$ \\input{y} {{ 7 * 7 }} & 龙 {% raw %} [a](b) `c` a|b'
"""A title that is fine, and would be something else in whatever it is written in."""
FORMULA = "=cmd|' /C calc'!A0"


def laid_out(root, suite, change):
    """A small session on disk, with the manifests changed."""
    folders.lay_out(dict(sessions.loose(suite)), root)
    for place in root.glob("*/bundle.json"):
        manifest = json.loads(place.read_text())
        change(manifest)
        place.write_text(json.dumps(manifest))
    return root


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)


@pytest.mark.long(why="a whole report is built")
@pytest.mark.filterwarnings("ignore:Glyph", "ignore:constrained_layout")
@pytest.mark.parametrize("suite", sorted(sessions.SOURCES))
@pytest.mark.parametrize("text", [MARKUP, FORMULA])
def test_a_title_is_text_wherever_it_is_written(tmp_path, suite, text):
    def change(manifest):
        if manifest["system"] == "tianji":
            manifest["system_title"] = text
        manifest["configuration"]["workload"]["title"] = text
        manifest["environment"]["cpu_model"] = text
        manifest["deviations"] = [text + "\x1b[2J\0\nx"]

    source, out, plates = laid_out(tmp_path / "in", suite, change), tmp_path / "out", tmp_path / "paper"
    assert run("tianji-report", main, ["build", str(source), "--out", str(out)]) == 0
    assert run("tianji-report", main, ["paper", str(source), "--out", str(plates)]) == 0
    page = report_pages.read(out)
    for file in out.rglob("*.html"):
        tags = Tags()
        tags.feed(file.read_text())
        charts = 3 * ('class="chart"' in file.read_text())
        bars = 'id="costs"' in file.read_text()
        assert tags.found.count("script") == 2 + charts + bars, "text became a script"
    assert report_pages.broken(out) == []
    assert "alert" not in page or "&lt;script&gt;alert" in page
    assert "\x1b" not in page
    assert suite == "transmission" or r"\x1b[2J\x00" in page
    drawn = [*out.rglob("*.svg"), *plates.glob("*.svg")]
    assert drawn or suite == "staleness"
    texts = [one for file in drawn for one in ElementTree.parse(file).getroot().itertext()]
    if suite != "staleness":
        assert any(text.replace("|", "/")[:20] in one for one in texts)
    for file in (*out.rglob("*.csv"), *plates.glob("*.csv")):
        cells = [cell for line in csv.reader(StringIO(file.read_text())) for cell in line]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]
    for file in (*out.rglob("*.tex"), *plates.glob("*.tex")):
        inputs = re.findall(r"\\input\{(.*?)\}", file.read_text())
        assert all(re.fullmatch("[a-z0-9-]+", one) for one in inputs), file
        assert "$x_1" not in file.read_text()
    for file in out.rglob("*.md"):
        assert not re.search(r"(?<!\\)<script|\]\(", file.read_text())


@pytest.mark.parametrize("name", ["../..", "/tmp/tj-x", "x/../../y", "\\input{x}"])
def test_a_name_leads_nowhere(tmp_path, capsys, name):
    """As it was found: files were written outside --out, and others replaced."""
    made = session(tmp_path / "a" / "in", systems=("tianji", "xingtian"), counts=(1, 2), blocks=1)
    for place in made.iterdir():
        edit(place, workload=name)
    before = sorted(tmp_path.rglob("*"))
    for command in ("build", "paper"):
        out = tmp_path / "a" / "b" / "out"
        assert "bundle.json" in refusal(capsys, run, "tianji-report", main, [command, str(made), "--out", str(out)])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_that_is_there_twice_is_named(tmp_path, capsys):
    made = session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 2), blocks=1)
    first = sorted(made.iterdir())[0]
    shutil.copytree(first, made / "twin")
    said = refusal(capsys, run, "tianji-report", main, ["build", str(made), "--out", str(tmp_path / "out")])
    assert "twin" in said
    assert first.name in said


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"event":"first_step","ns":5}'], "first step and snapshots"),
        (
            ['{"event":"first_step","ns":5}', '{"event":"snapshot","ns":5,"steps":0,"version":0,"file":"f"}'],
            "nothing came after",
        ),
        (['{"event":"first_step","ns":5}', '{"event":"snapshot","ns":9,"steps":999,"version":0,"file":"f"}'], "first step"),
    ],
)
def test_a_run_that_says_nothing_is_named_and_nothing_is_written(tmp_path, capsys, lines, says):
    path = make(tmp_path / "in")
    (path / "events.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "made" / "out"
    said = refusal(capsys, run, "tianji-report", main, ["build", str(path.parent), "--out", str(out)])
    assert says in said
    assert "cell" in said
    assert not out.parent.exists()


def test_what_fails_while_it_is_written_leaves_the_report_of_before(tmp_path, capsys, monkeypatch):
    made = session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 2), blocks=1)
    out = tmp_path / "out"
    assert run("tianji-report", main, ["build", str(made), "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()

    def fails(*_):
        raise ZeroDivisionError("at the very end")

    monkeypatch.setattr("reports.page._summary", fails)
    said = refusal(capsys, run, "tianji-report", main, ["build", str(made), "--out", str(out)])
    assert str(made) in said
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert not list(out.glob(".new-*"))


def test_machines_whose_names_differ_in_what_no_file_name_has_are_kept_apart(tmp_path):
    for at, model in enumerate(("龙芯", "申威", "A+B", "A-B")):
        made = session(tmp_path / "in" / str(at), systems=("tianji", "xingtian"), counts=(1, 2), blocks=1)
        for place in made.iterdir():
            edit(place, session=f"s{at}", environment={"cpu_usable": 2, "cpu_model": model})
    out = tmp_path / "out"
    assert run("tianji-report", main, ["build", str(tmp_path / "in"), "--out", str(out)]) == 0
    assert report_pages.broken(out) == []
    names = pd.read_csv(out / "tables" / "nodes.csv")["Workload"]
    assert names.nunique() == 4
    assert (out / "charts" / "nodes.js").read_text().count('"title":"cartpole-ppo-nodes (2 cores of') == 4


def test_no_workload_has_more_than_can_be_drawn(tmp_path, capsys, monkeypatch):
    made = session(tmp_path / "in", systems=("tianji", "xingtian"), counts=(1, 2), blocks=2)
    for name, most, says in (("SYSTEMS", 1, "2 systems"), ("RUNS", 3, "4 runs of one"), ("SECTIONS", 0, "1 workloads")):
        with monkeypatch.context() as patch:
            patch.setattr(f"reports.dataset.{name}", most)
            said = refusal(capsys, run, "tianji-report", main, ["build", str(made), "--out", str(tmp_path / "out")])
        assert says in said


@pytest.mark.parametrize("text", ["=1", "+1", "@x", "-1+1", "-x", "-x [1, 2]", "\t=1", "-1 [2]+1", "++ reproduced"])
def test_a_spreadsheet_computes_nothing(tmp_path, text):
    escaping.csv(pd.DataFrame({text: [text, "x"], "n": [-1.0, 2.0]}), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [[f"'{text}", "n"], [f"'{text}", "-1"], ["x", "2"]]


@pytest.mark.parametrize("text", ["-", "-1", "-21.5 [-22.0, -20.1]", "-0.35x [-1, 0]", "1+1", "a=b", "", "1,234", "(+) x"])
def test_what_is_no_formula_stays_as_it_is(text):
    assert escaping.cell(text) == text


def test_a_cell_ends_no_line(tmp_path):
    escaping.csv(pd.DataFrame({"x": ["a\r=1\x1b", "a\n=1"]}), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'x\na\\x0d=1\\x1b\n"a\n=1"\n'


def test_two_columns_of_one_name_are_two_columns(tmp_path):
    escaping.csv(pd.DataFrame([["=1", "b"]], columns=["x", "x"]), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == "x,x\n'=1,b\n"


def test_latex_and_markdown_have_no_commands_but_their_own():
    assert escaping.latex("\\input{a}^2_3\n\x1b") == r"\textbackslash{}input\{a\}\textasciicircum{}2\_3  "
    assert escaping.latex("[2pt]") == "{}[2pt]"
    assert escaping.latex("*") == "{}*"
    assert escaping.markdown("a\\|b\n<b> < 3 [x](y) [1, 2] (3)") == "a\\\\\\|b \\<b> < 3 [x]\\(y) [1, 2] (3)"
    assert tables.pipe_table(["a|b"], [["\n|"]]).splitlines()[2] == "|  \\| |"


def test_a_terminal_is_told_nothing_but_text(capsys):
    terminal.show(["a\x1b]0;x\x07b"])
    assert capsys.readouterr().out == "a\\x1b]0;x\\x07b\n"
