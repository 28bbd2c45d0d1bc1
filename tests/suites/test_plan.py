from hypothesis import given
from hypothesis import strategies as st

from suites.plan import Profile, lay_out

PROFILE = Profile(workloads=("w",), systems=("a", "b", "c"), blocks=2, twice="b")


def plan(systems=("a", "b", "c"), blocks=5):
    return lay_out("convergence", "smoke", PROFILE, {"w": {}, "v": {}}, systems, blocks, (0, 1))


@given(st.integers(1, 9))
def test_every_block_runs_every_system_once_and_one_of_them_again(blocks):
    for cells in plan(blocks=blocks).blocks():
        assert sorted((c.system, c.replica) for c in cells) == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]
        assert len({(c.workload, c.seed, c.block) for c in cells}) == 1
        assert [c.position for c in cells] == [0, 1, 2, 3]


def test_the_order_rotates():
    firsts = [cells[0].label for cells in plan(blocks=4).blocks() if cells[0].workload == "w"]
    assert sorted(firsts) == ["a", "b", "b-again", "c"]


def test_the_first_system_runs_twice_where_the_usual_one_is_left_out():
    labels = {c.label for c in plan(systems=("c", "a")).cells}
    assert labels == {"c", "a", "c-again"}


def test_cells_have_folders_of_their_own():
    cells = plan().cells
    assert len({c.directory for c in cells}) == len(cells)
