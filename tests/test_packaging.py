"""What the package says of itself: files that must agree, and files that must be inside."""

import fnmatch
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from elsewhere import ROOT

import tianji
from programs.cli import run
from suites.__main__ import main as bench_main
from tianji.__main__ import main as train_main

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = ("tianji", "baselines", "suites", "reports", "programs", "gate")


def test_the_citation_is_of_the_latest_version_in_the_changelog():
    released = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released
    assert released == sorted(released, key=lambda one: [int(part) for part in one[0].split(".")], reverse=True)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], str(citation["date-released"])) == released[0]
    assert citation["authors"] == PROJECT["project"]["authors"]
    # Between versions the code is on its way to the next one.
    assert tianji.__version__ == released[0][0] or tianji.__version__.endswith(".dev0")


def test_the_changelog_is_a_page():
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 60


@pytest.mark.parametrize("package", SHIPPED)
def test_files_that_are_no_modules_are_shipped(package):
    data = PROJECT["tool"]["setuptools"]["package-data"]
    patterns = [*data["*"], *data.get(package, [])]
    folder = ROOT / package
    assert (folder / "py.typed").exists()
    inside = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    left_out = [
        name
        for name in inside
        if not name.endswith((".py", ".pyc")) and not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]
    assert left_out == []


def test_every_package_is_found():
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]) == sorted(f"{name}*" for name in SHIPPED)


def test_commands_are_functions():
    from importlib import import_module

    for place in PROJECT["project"]["scripts"].values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(module), function))


def test_versions_of_python_that_are_promised_are_tested():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    promised = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    ]
    assert tested == promised
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())


def test_the_image_has_what_the_package_has():
    steps = (ROOT / "Dockerfile").read_text()
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in SHIPPED:
        assert f"COPY {name} {name}\n" in steps
        assert name in let_in
    copied = re.search(r"^COPY (constraints\.txt .*) \./$", steps, re.MULTILINE)[1].split()
    assert let_in == {*SHIPPED, *copied}
    extras = re.search(r"^ARG EXTRAS=(.*)$", steps, re.MULTILINE)[1].split(",")
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    assert re.search(r"^USER [1-9]\d*$", steps, re.MULTILINE)


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem)
def test_forms_for_issues_can_be_filled_in(form: Path):
    told = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(told) <= {"name", "description", "body", "labels"}
    names = [field["id"] for field in told["body"]]
    assert len(set(names)) == len(names)
    for field in told["body"]:
        assert field["type"] in ("input", "textarea", "dropdown", "checkboxes")
        assert field["attributes"]["label"]
        if field["type"] in ("dropdown", "checkboxes"):
            assert field["attributes"]["options"]
    assert any(field.get("validations", {}).get("required") for field in told["body"])


def test_commands_of_the_page_on_installing(capsys, monkeypatch, tmp_path):
    """Those that start nothing are run; of the others the files are there."""
    text = (ROOT / "docs" / "installing.md").read_text()
    blocks = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))).splitlines()
    mains = {"tianji": train_main, "tianji-bench": bench_main}
    monkeypatch.chdir(tmp_path)
    dry = [shlex.split(line, comments=True) for line in blocks if "--dry-run" in line]
    assert {command for command, *_ in dry} == set(mains)
    for command, *arguments in dry:
        assert run(command, mains[command], arguments) == 0
        assert "dry run: nothing was started or written" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    scripts = [word for line in blocks for word in line.split() if word.startswith("recipes/")]
    assert scripts
    assert all((ROOT / script).exists() for script in scripts)
    # The commands that jobs are given can be run, too: they are looked at without a cluster.
    job = next(shlex.split(line) for line in blocks if "ray.sbatch tianji train" in line)
    arguments = job[job.index("tianji") + 1 :]
    assert run("tianji", train_main, [*arguments, "--env", "CartPole-v1", "--dry-run"]) == 0
    assert "bundle 1 of 2, STRICT_SPREAD" in capsys.readouterr().out
