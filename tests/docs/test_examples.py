"""Every example of the tutorial, the how-to pages and the front page is run as its reader would run it, or skipped by name."""

import shutil

import pytest
from pages import ROOT, before, blocks, run_block

pytestmark = pytest.mark.xdist_group("pages")
"""Pages share what they have trained."""
DOCS = ROOT / "docs"
PAGES = [DOCS / "index.md", DOCS / "reports.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("howto/*.md"))]
NAMES = [page.relative_to(DOCS).as_posix() for page in PAGES]
BUNDLES = ("results/reference/convergence/cartpole-ppo-zoo.parquet", "suites/workloads/cartpole-ppo-zoo.toml")
"""Files of the repository that examples read by their place in it."""
SKIPPED = [(name, block) for name, page in zip(NAMES, PAGES, strict=True) for block in blocks(page.read_text())]
SKIPPED = [(name, block) for name, block in SKIPPED if block.note == "skipped"]


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The folder that a page has left, by page; a page is run once."""
    folders = {}

    def after(page):
        if page not in folders:
            folder = folders[page] = tmp_path_factory.mktemp(page.stem)
            if (earlier := before(page)) is not None:
                shutil.copytree(after(earlier), folder, dirs_exist_ok=True)
            for path in BUNDLES:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, folder / path)
            for block in blocks(page.read_text()):
                run_block(block, folder)
        return folders[page]

    return after


@pytest.mark.long(why="a reader's commands are run one after another")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_examples_of_a_page_work_one_after_another(page, left):
    left(page)


@pytest.mark.parametrize(("name", "block"), SKIPPED, ids=[f"{name}:{block.line}" for name, block in SKIPPED])
def test_what_is_not_run_says_why(name, block):
    assert block.about
    pytest.skip(f"docs/{name}, line {block.line}: {block.about}")


def test_a_comment_before_a_block_is_one_that_is_known():
    for page in PAGES:
        text = page.read_text()
        notes = [block.note for block in blocks(text) if block.note]
        assert len(notes) == text.count("<!-- example: "), page
        assert set(notes) <= {"skipped", "prints", "fails", "installs"}, page


def test_the_system_of_the_tutorial_keeps_the_contract(left):
    import importlib.util

    import numpy as np
    from small_runs import PPO, Memory

    from baselines.system import Task

    spec = importlib.util.spec_from_file_location("hill", left(DOCS / "tutorial" / "system.md") / "hill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    system, told = module.HillClimbing(), Memory()
    system.train(Task("hill", PPO, 0, (0,)), told)
    system.stop()
    assert system.available() is None
    assert system.deviations(Task("hill", PPO, 0, (0,)))
    steps = [steps for _, steps, _, _ in told.snapshots]
    assert steps[0] == 0
    assert steps[-1] >= PPO.budget_steps
    assert steps == sorted(steps)
    # One for each interval, give or take the length of an episode.
    assert len(steps) == PPO.budget_steps // PPO.snapshot_every_steps + 2
    returns = [value for _, value, _, _ in told.episodes]
    assert sum(length for _, _, length, _ in told.episodes) == told.episodes[-1][3]
    assert np.mean(returns[-5:]) > np.mean(returns[:5])
    assert told.first_steps
    assert told.processes
    assert told.progresses
