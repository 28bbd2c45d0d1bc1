"""Many groups with a Root, simulated, against closed forms."""

import pytest

from benchmarks.many_groups import Stated, main, simulated
from tianji.simulation.machines import Machine

TIMES = Stated(fragment_s=0.05, round_s=0.02, model_s=0.001)
ROUNDS, SAMPLES = 20, 32 * 8


@pytest.mark.parametrize("groups", [2, 16])
def test_a_root_takes_time_in_proportion_to_its_groups(groups):
    found = simulated(groups, ROUNDS, 1, "strict", Machine(), TIMES)
    # Fragment, updates, the Root's mean, and the adoption of it.
    expected = SAMPLES * groups / (0.05 + 0.02 + groups * 0.001 + 0.001)
    assert found.steps_per_s == pytest.approx(expected, rel=0.02)


def test_a_slow_link_of_the_root_sends_one_mean_after_another():
    slow, fast = (simulated(8, ROUNDS, 1, "strict", Machine(link_bytes_per_s=rate), TIMES).steps_per_s for rate in (1e6, 1e12))
    # A vector of both networks, 9,155 parameters. Seven groups are on other nodes than the Root, and the last of them gets its
    # mean when the others have theirs. So they push one after the other, and only the last push is waited for.
    model_s = 4 * (9155 + 12) / 1e6
    assert SAMPLES * 8 / slow - SAMPLES * 8 / fast == pytest.approx((7 + 1) * model_s, rel=0.05)


def test_roots_in_a_tree_average_side_by_side():
    found = simulated(16, ROUNDS, 1, "strict", Machine(), TIMES, fan_in=4)
    # Two means of four models on the way up. On the way down the inner Root and the learner take the mean over.
    expected = SAMPLES * 16 / (0.05 + 0.02 + 2 * 4 * 0.001 + 2 * 0.001)
    assert found.steps_per_s == pytest.approx(expected, rel=0.02)


def test_lines_are_printed(capsys):
    assert main(["--groups", "1,4", "--rounds", "5", "--fan-in", "none,2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [["| 1", "none"], ["| 1", "2"], ["| 4", "none"], ["| 4", "2"]]
    assert " | 1.000 | " in lines[2]
