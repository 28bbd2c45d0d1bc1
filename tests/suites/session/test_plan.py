from hypothesis import given
from hypothesis import strategies as st

from suites.session.plan import Plan, block_of


def plan(systems=("a", "b", "c"), blocks=5, explorers=(None,)):
    cells = [
        cell
        for block in range(blocks)
        for workload in ("w", "v")
        for n in explorers
        for cell in block_of(workload, systems, "b", block, n)
    ]
    return Plan(session="s", suite="x", profile="p", workloads={}, systems=systems, cores=(0,), cells=tuple(cells))


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
    cells = plan(explorers=(1, 4)).cells
    assert len({c.directory for c in cells}) == len(cells)


def test_blocks_come_in_the_order_of_the_plan_and_hold_one_number_of_explorers():
    blocks = plan(blocks=2, explorers=(1, 16, 4)).blocks()
    assert [(b[0].block, b[0].workload, b[0].explorers) for b in blocks] == [
        (block, workload, n) for block in (0, 1) for workload in ("w", "v") for n in (1, 16, 4)
    ]
    assert all(len({c.explorers for c in cells}) == 1 for cells in blocks)
