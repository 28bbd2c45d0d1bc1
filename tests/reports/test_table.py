"""Rows are found one way, and stay what they are."""

import pytest

from reports.table import Table

ROWS = [
    {"system": "tianji", "metric": "goodput", "nodes": 1, "baseline": None, "options": None, "value": 3},
    {"system": "tianji", "metric": "goodput", "nodes": 8, "baseline": None, "options": None, "value": 4.5},
    {"system": "tianji", "metric": "ratio", "nodes": 8, "baseline": "xingtian", "options": None, "value": None},
    {"system": "tianji", "metric": "goodput", "nodes": 8, "options": {"tail": "lone", "bound": 4}, "value": 5},
    {"system": "xingtian", "metric": "fit", "nodes": None, "baseline": None, "options": None, "value": 1.0},
]


def test_a_row_is_found_by_any_keys_and_handed_out_as_it_is():
    table = Table(ROWS)
    assert table.one(system="tianji", nodes=1) is ROWS[0]
    assert type(table.one(system="tianji", nodes=1)["value"]) is int
    assert table.one(metric="ratio")["value"] is None
    assert table.one(nodes=None) is ROWS[4], "null is a value like others"
    assert table.one(system="sb3") is None
    assert table.one(system="tianji", nodes=8, options="bound = 4, tail = lone") is ROWS[3]
    assert table.one(nodes=8, options={"bound": 4, "tail": "lone"}) is ROWS[3]


def test_keys_that_several_rows_answer_to_are_refused():
    with pytest.raises(ValueError, match=r"4 rows of summary.json answer to \{'system': 'tianji'\}"):
        Table(ROWS).one(system="tianji")


def test_a_part_of_a_table_is_a_table():
    part = Table(ROWS).where(system="tianji", nodes=8)
    assert part.rows == ROWS[1:4]
    assert part.one(metric="goodput", options=None) is ROWS[1]
    assert part.known("nodes") == [8]
    assert part.known("baseline") == ["xingtian"]
    assert list(part.frame["value"]) == [4.5, None, 5]
    nothing = part.where(system="xingtian")
    assert (nothing.rows, nothing.known("nodes"), nothing.one(nodes=8)) == ([], [], None)
    assert Table([]).where(system="tianji").rows == []
