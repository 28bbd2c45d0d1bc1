"""Tests that share what is costly to make are run by one process: whether pytest-xdist knows of groups."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="all tests are run by one process")
@pytest.mark.xdist_group("alone")
def test_a_test_is_of_the_group_that_it_is_marked_with(request):
    # With pytest 9.2 and xdist 3.8 it is not: everything a module shares was made once for each process.
    assert request.node.nodeid.endswith("@alone")
