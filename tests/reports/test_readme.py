"""The README's results and pictures are generated from bundles, and a difference fails."""

import html
import json
import re
import shutil
from pathlib import Path

import pytest
from bundles import unpacked
from commands import refusal
from PIL import Image

from programs.cli import run
from reports import readme
from reports.__main__ import main

# What its fixtures make is made once.
pytestmark = pytest.mark.xdist_group("reports-readme")

ROOT = Path(__file__).parents[2]
RECORDED = "docs/results/smoke.parquet"


def command(folder, *more):
    bundles = [str(path) for path in sorted(unpacked(RECORDED).glob("cartpole-ppo-zoo.*"))]
    return ["readme", *bundles, "--readme", str(folder / "README.md"), "--pictures", str(folder / "docs" / "pictures"), *more]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "README.md").write_text(f"before\n\n{readme.BEGIN}\nold\n{readme.END}\n\nafter\n")
    assert run("tianji-report", main, command(folder)) == 0
    return folder


@pytest.fixture
def project(written, tmp_path):
    shutil.copytree(written, tmp_path / "project")
    return tmp_path / "project"


def test_only_what_is_between_the_marks_changes(written):
    text = (written / "README.md").read_text()
    assert text.startswith(f"before\n\n{readme.BEGIN}\n")
    assert text.endswith(f"{readme.END}\n\nafter\n")
    assert "\nold\n" not in text
    assert "docs/pictures/seconds.png" in text
    assert sorted(path.name for path in (written / "docs" / "pictures").iterdir()) == sorted(
        ["curves-dark.png", "curves.png", "pictures.json", "seconds-dark.png", "seconds.png"]
    )


def test_the_table_has_the_seconds_of_the_bars(written):
    told = json.loads((written / "docs" / "pictures" / "pictures.json").read_text())
    lines = (written / "README.md").read_text().splitlines()
    assert told["workload"] == "cartpole-ppo-zoo"
    for one in told["seconds"]:
        (row,) = [line for line in lines if line.startswith(f"| {one['title']}")]
        assert one["seconds"] is None or f"{one['seconds']:#.3g}" in row
    known = [one["seconds"] for one in told["seconds"] if one["seconds"] is not None]
    assert known == sorted(known), "the quickest comes first"


def test_pictures_are_light_and_dark_and_of_one_size(written):
    for name in readme.FILES:
        with (
            Image.open(written / f"docs/pictures/{name}.png") as light,
            Image.open(written / f"docs/pictures/{name}-dark.png") as dark,
        ):
            assert light.size == dark.size
            assert light.convert("L").getpixel((3, 3)) > 250
            assert dark.convert("L").getpixel((3, 3)) < 50


def test_what_is_up_to_date_passes_and_is_left_alone(project, capsys):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert run("tianji-report", main, command(project, "--check")) == 0
    assert "the results are those of the bundles" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def spoiled(change):
    def spoil(project):
        file = project / "docs" / "pictures" / "pictures.json"
        told = json.loads(file.read_text())
        change(told)
        file.write_text(json.dumps(told))

    return spoil


@pytest.mark.long(why="a whole report is built")
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            spoiled(lambda told: told["seconds"][0].update(seconds=told["seconds"][0]["seconds"] * 1.01)),
            "at /seconds/0/seconds",
        ),
        (spoiled(lambda told: told["curves"][0]["median"].pop()), "at /curves/0/median"),
        (spoiled(lambda told: told.pop("machine")), "has another value at "),
        (lambda project: (project / "docs" / "pictures" / "curves.png").unlink(), "curves.png is missing"),
        (
            lambda project: (project / "README.md").write_text((project / "README.md").read_text().replace("Bold", "Thin")),
            "README.md says",
        ),
    ],
)
def test_what_is_out_of_date_fails_and_says_what(project, capsys, spoil, says):
    spoil(project)
    assert run("tianji-report", main, command(project, "--check")) == 1
    assert says in capsys.readouterr().out


def test_the_last_places_of_a_value_may_differ(project):
    spoiled(lambda told: told["seconds"][0].update(seconds=told["seconds"][0]["seconds"] * 1.0005))(project)
    assert run("tianji-report", main, command(project, "--check")) == 0


def test_a_readme_without_marks_is_refused(tmp_path, capsys):
    (tmp_path / "README.md").write_text("nothing")
    assert "README.md: has no place for results" in refusal(capsys, run, "tianji-report", main, command(tmp_path))
    assert (tmp_path / "README.md").read_text() == "nothing"
    elsewhere = [*command(tmp_path)[:-1], "/nowhere"]
    assert "is not below the folder of" in refusal(capsys, run, "tianji-report", main, elsewhere)


def test_the_projects_readme_is_short_enough_to_be_read():
    """A first screen: few lines, few words, and alternative texts that somebody can listen to."""
    text = (ROOT / "README.md").read_text()
    lines = text.splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 160
    without_html = re.sub(r"<[^>]*>", "", text)
    assert len([word for word in without_html.split() if re.search(r"\w", word)]) <= 900
    for alt in re.findall(r'alt="([^"]*)"', text):
        assert 20 < len(html.unescape(alt)) <= 250


def test_the_projects_readme_shows_what_its_pictures_show():
    """Fast, and no substitute for `nox -s readme -- --check`."""
    told = json.loads((ROOT / "docs" / "pictures" / "pictures.json").read_text())
    text = (ROOT / "README.md").read_text()
    assert [name for name in readme.FILES if f"docs/pictures/{name}.png" not in text] == []
    for one in told["seconds"]:
        assert one["seconds"] is None or f"{one['seconds']:#.3g}"[:3] in text
