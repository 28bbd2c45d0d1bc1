"""The site: its reference is what the code says, its pages link to what is there, and a built one asks no other host."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
from pages import ROOT

DOCS = ROOT / "docs"


def hook(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return hook("reference")


@pytest.fixture(scope="module")
def links():
    return hook("links")


@pytest.fixture
def check():
    return hook("check")


@pytest.mark.parametrize("name", ["commands.md", "settings.md", "workloads.md"])
def test_the_reference_is_what_the_code_says(reference, name):
    assert set(reference.PAGES) == {"commands.md", "settings.md", "workloads.md"}
    said = "old: python docs/hooks/reference.py writes it"
    assert (DOCS / "reference" / name).read_text() == reference.PAGES[name](), said


def rows(page):
    """First cells of a page's tables, and the rest of their rows."""
    found = re.findall(r"^\| `([^`]+)` \| (.*) \|$", page, re.MULTILINE)
    return {name: rest.split(" | ") for name, rest in found}


def test_a_setting_has_its_values_its_default_its_unit_and_words(reference):
    from tianji.config import TrainConfig
    from tianji.settings import paths

    settings = rows(reference.settings())
    tables = {
        "network",
        "ppo",
        "dqn",
        "impala",
        "sac",
        "td3",
        "actions",
        "normalise",
        "environment",
        "evaluation",
        "atari",
        "simulator",
    }
    assert set(paths(TrainConfig)) - tables <= set(settings)
    assert settings["ppo.clip"][1:] == ["number > 0", "`0.2`"]
    assert settings["stop_seconds"][1:] == ["number > 0 or none; s", "none"]
    assert settings["env"][2] == "required"
    assert settings["simulator.sigma"][1] == "number > 0 ≤ 4 or none"
    assert settings["discipline.lag_rounds"][1:] == ["integer ≥ 0 or `auto`, `none`; rounds", "`auto`"]
    assert settings["network.kind"][2] == "depends"
    assert [name for name, (words, *_) in settings.items() if words == "-"] == []


def test_a_command_has_its_options_with_their_defaults(reference):
    commands = rows(reference.commands())
    assert commands["--groups G"][0].endswith("(setting [`groups`](settings.md#the-run))")
    assert commands["--episodes N"][1].strip("`") == "20"
    assert commands["--testbed NAME"]
    assert "nox -s docs" in commands


def test_every_page_has_its_place_in_the_contents():
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"^ +- [^\n]*?(\S+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    # Notebooks are read from the pages that name them.
    assert {page for page in pages - named if not page.startswith("notebook/")} == set()
    assert {page for page in named if not page.startswith("repository/")} - pages == set()
    assert all((ROOT / page.removeprefix("repository/")).is_file() for page in named if page.startswith("repository/"))


def test_the_api_page_has_every_discipline():
    from tianji.disciplines.registry import DISCIPLINES

    text = (DOCS / "reference" / "api.md").read_text()
    kinds = [DISCIPLINES.get(name) for name in DISCIPLINES.names()]
    assert [kind for kind in kinds if f"::: {kind.__module__}.{kind.__name__}\n" not in text] == []


def test_links_lead_to_the_site_to_the_repository_or_nowhere(links):
    def on_site(uri):
        return uri in {"ci.md", "howto/a.md", "report/index.html", "repository/results/README.md"}

    def at(text, uri="ci.md", repository=""):
        return links.rewritten(text, uri, on_site, repository)

    assert at("[a](howto/a.md#b) [c](https://c.org) [d](#d)") == "[a](howto/a.md#b) [c](https://c.org) [d](#d)"
    assert at("[up](../results/README.md)", "howto/a.md") == "[up](../results/README.md)"
    assert at("[up](../../results/README.md#x)", "howto/a.md") == "[up](../repository/results/README.md#x)"
    assert at("[back](../docs/ci.md)", "repository/results/README.md") == "[back](../../ci.md)"
    assert at("[`noxfile.py`](../noxfile.py) is `[x](../noxfile.py)`") == "`noxfile.py` is `[x](../noxfile.py)`"
    assert at("[n](../noxfile.py#L1)", repository="https://h/o/r/blob/1") == "[n](https://h/o/r/blob/1/noxfile.py#L1)"
    assert at("[gone](../nowhere.py)") == "[gone](../nowhere.py)"
    fence = "```sh\n[x](../noxfile.py)\n```\n"
    assert at(fence + "[x](../noxfile.py)") == fence + "x"


PAGE = """<!doctype html><html><head><link rel="stylesheet" href="{style}"><style>{css}</style></head>
<body><h1 id="top">A</h1><script src="{script}"></script><a href="{link}">x</a> <a href="https://elsewhere.org">y</a></body>"""
GOOD = {"style": "a.css", "css": "p {}", "script": "a.js", "link": "other.html#top"}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, None),
        ({"script": "https://cdn.org/a.js"}, "loads https://cdn.org/a.js from another host"),
        ({"style": "//cdn.org/a.css"}, "loads //cdn.org/a.css from another host"),
        ({"css": "@import url(https://fonts.org/a)"}, "loads https://fonts.org/a from another host"),
        ({"script": "b.js"}, "loads b.js, which is not there"),
        ({"link": "gone.html"}, "links to gone.html, which is not there"),
        ({"link": "other.html#nowhere"}, "links to other.html#nowhere, and there is no such anchor"),
    ],
)
def test_a_built_site_is_checked(check, tmp_path, wrong, says):
    (tmp_path / "a.css").write_text("body { background: url(data:image/png;base64,A) }")
    (tmp_path / "a.js").touch()
    (tmp_path / "other.html").write_text(PAGE.format(**GOOD))
    (tmp_path / "index.html").write_text(PAGE.format(**{**GOOD, **wrong}))
    assert list(check.faults(tmp_path)) == ([] if says is None else [f"index.html: {says}"])


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs MkDocs; `nox -s docs` has it")
def test_the_site_is_built_and_asks_no_other_host(check, tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "REPOSITORY": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(check.faults(tmp_path / "site")) == []
