"""The examples, run as their page shows it: in a copy of their folder, one block of commands after another."""

import re
import shlex
import shutil

import pytest
from elsewhere import ROOT, run_in

EXAMPLES = ROOT / "examples"
BLOCKS = re.findall(r"```sh\n(.*?)```", (EXAMPLES / "README.md").read_text().replace("\\\n", ""), re.DOTALL)

GOOD = 5
"""From anywhere, the way out is worth 8.9 on average; who finds it from nowhere has -10. There may be a corner or two from
which a policy that has only just learnt it does not."""


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))


def said_by(folder, block):
    said = []
    for command in BLOCKS[block].splitlines():
        python, *arguments = shlex.split(command)
        assert python == "python"
        said.append(run_in(folder, *arguments))
    return said


def mean_of(said):
    return float(re.search(r"mean return (-?[\d.]+)", said)[1])


def test_the_page_shows_every_example():
    text = (EXAMPLES / "README.md").read_text()
    assert len(BLOCKS) == 3
    for path in EXAMPLES.glob("*.py"):
        assert f"]({path.name})" in text
        assert path.stem in "".join(BLOCKS)


@pytest.mark.long(why="an example's page is followed from its start")
def test_the_environment_is_solved_and_its_policy_finds_the_way_out(folder):
    trained, evaluated = said_by(folder, 0)
    assert "reached a mean of 8.8" in trained
    assert mean_of(evaluated) > GOOD


@pytest.mark.long(why="an example's page is followed from its start")
@pytest.mark.timeout(240)
def test_the_network_learns_it_too(folder):
    trained, evaluated, dqn = said_by(folder, 1)
    assert "reached a mean of 8.8" in trained
    assert mean_of(evaluated) > GOOD
    assert "dqn on CartPole-v1" in dqn
    assert "updates" in dqn


@pytest.mark.long(why="an example's page is followed from its start")
def test_the_program_trains_and_keeps_its_policy(folder):
    trained, evaluated = said_by(folder, 2)
    assert re.fullmatch(r"[\d,]+ steps in [\d.]+ s, mean return [89]\.\d\n", trained)
    assert mean_of(evaluated) > GOOD
