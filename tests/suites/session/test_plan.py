from itertools import permutations

import pytest
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


def order(seed, systems=("a", "b", "c"), twice=None, **more):
    return [cell.label for cell in block_of("w", systems, twice, 0, first_seed=seed, **more)]


def test_every_order_comes_up_about_as_often():
    drawn = [tuple(order(seed)) for seed in range(6000)]
    found = {one: drawn.count(one) for one in permutations("abc")}
    assert sum(found.values()) == 6000
    # Five standard deviations of a count.
    assert all(abs(count - 1000) < 150 for count in found.values())


def test_the_order_is_drawn_for_each_block_and_not_for_each_plan():
    assert plan().cells == plan().cells
    assert order(5) == [cell.label for cell in block_of("w", "abc", None, 5)], "a block is its seed, wherever counting begins"
    settings = [{"explorers": 1}, {"explorers": 4}, {"nodes": 4}, {"options": {"rate": 0.1}}]
    orders = {tuple(tuple(order(seed, **setting)) for seed in range(30)) for setting in settings}
    assert len(orders) == len(settings), "each setting draws for itself"


def test_what_is_drawn_is_the_same_in_every_version_of_this_package():
    assert [order(seed, twice="b") for seed in range(3)] == [
        ["c", "b", "b-again", "a"],
        ["c", "b-again", "a", "b"],
        ["b", "a", "b-again", "c"],
    ]


@pytest.mark.parametrize("systems", list(permutations("abc")))
def test_neither_the_order_of_the_list_nor_other_systems_change_who_comes_first(systems):
    for seed in range(20):
        assert order(seed, systems) == order(seed)
        assert order(seed, systems[:2]) == [label for label in order(seed) if label in systems[:2]]


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
