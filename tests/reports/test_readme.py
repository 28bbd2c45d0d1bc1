"""The README's results are generated from bundles, and a difference fails."""

import json
import re
import shutil
from pathlib import Path

import pytest
import report_pages
from bundles import unpacked
from commands import refusal

from programs.cli import run
from reports import dataset, overview, readme
from reports.__main__ import main
from reports.convergence.view import Trained
from reports.staleness.view import Balanced

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-readme")

ROOT = Path(__file__).parents[2]
RECORDED = "docs/results/smoke.parquet"


def command(folder, *more):
    bundles = [str(path) for path in sorted(unpacked(RECORDED).glob("cartpole-ppo-zoo.*"))]
    places = ["--readme", str(folder / "README.md"), "--results", str(folder / "docs" / "results.md")]
    return ["readme", *bundles, *places, "--report", str(folder / "docs" / "report"), *more]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs").mkdir()
    for page in (folder / "README.md", folder / "docs" / "results.md"):
        page.write_text(f"before\n\n{readme.BEGIN}\nold\n{readme.END}\n\nafter\n")
    assert run("tianji-report", main, command(folder)) == 0
    return folder


@pytest.fixture
def project(written, tmp_path):
    shutil.copytree(written, tmp_path / "project")
    return tmp_path / "project"


def test_only_what_is_between_the_marks_changes(written):
    front, tables = ((written / name).read_text() for name in ("README.md", "docs/results.md"))
    for text in (front, tables):
        assert text.startswith(f"before\n\n{readme.BEGIN}\n")
        assert text.endswith(f"{readme.END}\n\nafter\n")
        assert "\nold\n" not in text
    assert "docs/report/ratios.png" in front
    assert "as fast as RLlib" in front
    assert "| cartpole-ppo-zoo | strict | RLlib | 10.1x |" in tables
    assert "(report/index.html)" in tables, "links start from the page's own folder"
    assert "it would take eight real nodes" in tables, "claims without data are there too"
    report = written / "docs" / "report"
    assert sorted(path.name for path in report.iterdir()) == [
        *("claims.html", "claims.json", "figures", "how.html", "index.html", "pages"),
        *("ratios-dark.png", "ratios.png", "tables"),
    ]
    assert report_pages.broken(report) == [], "pages without interactive curves, which are too large to be committed"
    assert sum(file.stat().st_size for file in report.glob("index.html")) < 300_000


def test_what_is_up_to_date_passes_and_is_left_alone(project, capsys):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert run("tianji-report", main, command(project, "--check")) == 0
    assert "the results are those of the bundles" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def changed_value(project):
    file = project / "docs" / "report" / "pages" / "cartpole-ppo-zoo.html"
    page = file.read_text()
    cell = re.search(r'<td><span class="n">(\d+\.\d+)<', page)
    file.write_text(page[: cell.start(1)] + "123.4567" + page[cell.end(1) :])


def changed_verdict(project):
    file = project / "docs" / "report" / "claims.json"
    # The last one is a claim's; readings of other claims may have it, too.
    file.write_text('"reproduced"'.join(file.read_text().rsplit('"not measured here"', 1)))


def changed_text(project):
    file = project / "README.md"
    file.write_text(file.read_text().replace("as fast as RLlib", "as slow as RLlib"))


def changed_table(project):
    file = project / "docs" / "results.md"
    file.write_text(file.read_text().replace("10.1x", "11.1x"))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (changed_value, "cartpole-ppo-zoo.html has"),
        (lambda project: (project / "docs" / "report" / "pages" / "w.html").write_text(""), "w.html is left over"),
        (changed_verdict, "claims.json has other verdicts"),
        (changed_text, "README.md says otherwise"),
        (changed_table, "results.md says otherwise"),
        (lambda project: (project / "docs" / "report" / "ratios.png").unlink(), "ratios.png is missing"),
    ],
)
def test_what_is_out_of_date_fails_and_says_what(project, capsys, spoil, says):
    spoil(project)
    assert run("tianji-report", main, command(project, "--check")) == 1
    assert says in capsys.readouterr().out


def test_files_that_a_report_makes_no_more_stay_and_are_all_named(project, capsys):
    folder = project / "docs" / "report"
    old = [folder / "pages" / "gone.html", folder / "tables" / "gone-ratios.csv"]
    for file in old:
        file.write_text("")
    for more, status in (((), 0), (("--check",), 1)):
        assert run("tianji-report", main, command(project, *more)) == status
        assert f"{old[0]}, {old[1]} are left over: remove them" in capsys.readouterr().out
    assert all(file.exists() for file in old)


def test_a_readme_without_marks_is_refused(tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "docs/results.md"):
        (tmp_path / page).write_text("nothing")
    assert "README.md: has no place for results" in refusal(capsys, run, "tianji-report", main, command(tmp_path))
    assert (tmp_path / "README.md").read_text() == "nothing"
    elsewhere = [*command(tmp_path)[:-1], "/nowhere"]
    assert "is not below the folder of" in refusal(capsys, run, "tianji-report", main, elsewhere)


def test_the_projects_readme_shows_what_stands_in_its_report():
    """Fast, and no substitute for `nox -s readme -- --check`: the values shown are those of docs/report."""
    text = (ROOT / "docs" / "results.md").read_text()
    shown = text.partition(readme.BEGIN)[2].partition(readme.END)[0]
    claims = json.loads((ROOT / "docs" / "report" / "claims.json").read_text())["claims"]
    assert len(claims) > 8
    for one in claims:
        line = f"| {one['says']} | {one['claimed']} | {one['verdict']}"
        assert f"{line} " in shown or f"{line}; against systems of the same code" in shown


def test_relaxed_stands_beside_strict_where_it_was_measured(tmp_path):
    """The recorded synchronous runs, under the name of the relaxed system: the same times, so the same ratios."""
    reference = unpacked("results/reference/convergence/cartpole-ppo-zoo.parquet")
    for path in reference.glob("cartpole-ppo-zoo.*"):
        label = path.name.rpartition(".")[2]
        if label in ("tianji", "sync", "sb3"):
            shutil.copytree(path, tmp_path / path.name)
        if label == "sync":
            as_relaxed = shutil.copytree(path, tmp_path / path.name.replace("sync", "tianji-relaxed"))
            manifest = json.loads((as_relaxed / "bundle.json").read_text())
            manifest |= {"system": "tianji-relaxed", "system_title": "TianJi, relaxed", "position": 9}
            (as_relaxed / "bundle.json").write_text(json.dumps(manifest))
    data = dataset.load([tmp_path])
    rows = {tuple(row[1:3]): row[3:] for row in readme.lines(data, Trained)}
    assert set(rows) == {
        ("strict", "TianJi, relaxed"),
        ("strict", "synchronous (same code)"),
        ("strict", "Stable-Baselines3"),
        ("relaxed", "synchronous (same code)"),
        ("relaxed", "Stable-Baselines3"),
    }
    assert rows["strict", "TianJi, relaxed"] == rows["strict", "synchronous (same code)"]
    assert rows["relaxed", "synchronous (same code)"][0].startswith("1.00x")
    keys = {"system": "sync", "metric": "time_to_threshold_ratio", "threshold_kind": "evaluated", "baseline": "sb3"}
    own = data.table.one(workload="cartpole-ppo-zoo", **keys)
    assert rows["relaxed", "Stable-Baselines3"][0].startswith(f"{own['value']:.3g}"[:3])
    of_picture = [("sb3", "strict"), ("sb3", "relaxed"), ("sync", "strict"), ("sync", "relaxed"), ("tianji", "relaxed")]
    assert [(line.opponent, line.mode) for line in overview.overview(data)] == of_picture


def test_what_relaxing_buys_is_told_of_every_workload_of_its_suite():
    data = dataset.load([ROOT / "results" / place / "staleness" for place in ("reference", "again")])
    told = readme.lines(data, Balanced)
    assert [line[0].partition(" ")[0] for line in told] == ["cartpole-ppo-waiting", "cartpole-ppo-zoo"]
    assert all(line[0].endswith("(another algorithm?)") for line in told), "both need significantly fewer steps to one return"
    text = (ROOT / "docs" / "results.md").read_text()
    for line in told:
        assert " | ".join(line) in text


def test_every_point_of_the_committed_page_has_a_line_of_its_own():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert not [line for line in lines if re.search(r"\S- \*\*", line)]
    assert [line for line in lines if line.startswith("- **Messages**: ")]
