"""Which workloads are the project's own, for suites whose workloads are made from a table of cells."""

import bundles
import msgspec
import pytest

from suites.asynchrony.run import Asynchrony
from suites.disciplines.run import Disciplines
from suites.session.suite import Request
from suites.submission import division


def planned(profile, suite=Asynchrony):
    request = Request(
        profile=profile, systems=None, workloads=None, blocks=1, first_seed=0, once=True, testbed=None, cores=(0, 1)
    )
    return suite().plan(request)[0]


def manifest(profile, name, workload, suite="asynchrony"):
    return bundles.manifest(suite=suite, profile=profile, workload=name, configuration={"workload": workload})


@pytest.mark.parametrize("profile", ["standard", "split", "auto", "confirm"])
def test_cells_of_asynchrony_are_the_projects_own(profile):
    plan = planned(profile)
    for name in (next(iter(plan.workloads)), list(plan.workloads)[-1]):
        assert list(division.of_workload(manifest(profile, name, plan.workloads[name]))) == []


def test_a_cell_with_other_delays_is_not():
    plan = planned("standard")
    name, workload = next(iter(plan.workloads.items()))
    changed = msgspec.json.decode(msgspec.json.encode(workload))
    changed["simulator"]["step_seconds"] *= 2
    (why,) = division.of_workload(manifest("standard", name, changed))
    assert "differs from the project's in simulator" in why
    (why,) = division.of_workload(manifest("standard", "cartpole-ppo-zoo", workload))
    assert "is not one of the project's" in why


@pytest.mark.parametrize("profile", ["standard", "learning"])
def test_runs_under_disciplines_have_the_seconds_of_their_profile(profile):
    plan = planned(profile, Disciplines)
    name, workload = next(iter(plan.workloads.items()))
    assert list(division.of_workload(manifest(profile, name, workload, "disciplines"))) == []
    longer = workload | {"budget_seconds": 2 * workload["budget_seconds"]}
    (why,) = division.of_workload(manifest(profile, name, longer, "disciplines"))
    assert "differs from the project's in budget_seconds" in why
