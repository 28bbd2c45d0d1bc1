"""The law of scalability: coefficients that are known, a general optimiser, closed forms, and what intervals cover."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from suites.statistics import usl

NODES = np.array([1, 2, 3, 4, 6, 8])


def simulated(rng, blocks, sigma, kappa, noise, single=1000.0):
    """Runs with noise of their own, in blocks of different pace."""
    which, nodes = np.repeat(np.arange(blocks), len(NODES)), np.tile(NODES, blocks)
    by_law = single * nodes / (1 + sigma * (nodes - 1) + kappa * nodes * (nodes - 1))
    return which, nodes, by_law * np.exp(rng.normal(0, noise, len(nodes)) + rng.normal(0, 0.1, blocks)[which])


@pytest.mark.parametrize(("sigma", "kappa"), [(0, 0), (0.05, 0), (0, 0.01), (0.05, 0.002), (0.9, 0.3)])
@pytest.mark.parametrize("single", [3e-3, 1.0, 5e6])
def test_known_coefficients_are_found(sigma, kappa, single):
    _, nodes, throughput = simulated(np.random.default_rng(0), 1, sigma, kappa, 0, single)
    found = usl.fit(nodes, throughput / throughput[0] * single)
    assert (found.sigma, found.kappa) == pytest.approx((sigma, kappa), abs=1e-7)
    assert found.single == pytest.approx(single)
    assert found.throughput(nodes) == pytest.approx(throughput / throughput[0] * single)


@pytest.mark.parametrize(("sigma", "kappa"), [(0, 0), (0.05, 0.002), (0.3, 0.01), (0, 0.01), (0.2, 0)])
def test_the_fit_is_a_general_optimisers(sigma, kappa):
    _, nodes, throughput = simulated(np.random.default_rng(7), 5, sigma, kappa, 0.03)

    def residuals(p):
        return p[0] + np.log(nodes / (1 + p[1] * (nodes - 1) + p[2] * nodes * (nodes - 1))) - np.log(throughput)

    best = least_squares(residuals, [7, 0.01, 0.001], bounds=([-99, 0, 0], [99, 9, 9]), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    found = usl.fit(nodes, throughput)
    assert (np.log(found.single), found.sigma, found.kappa) == pytest.approx(best.x, abs=1e-6)


def test_counts_weigh_as_so_many_runs():
    _, nodes, throughput = simulated(np.random.default_rng(2), 1, 0.1, 0.004, 0.05)
    times = np.array([1, 3, 1, 2, 1, 1])
    weighted = usl.fit(nodes, throughput, times)
    repeated = usl.fit(np.repeat(nodes, times), np.repeat(throughput, times))
    assert (weighted.sigma, weighted.kappa) == pytest.approx((repeated.sigma, repeated.kappa), abs=1e-8)


def test_closed_forms():
    assert usl.Coefficients(10.0, 0, 0).throughput([1, 5, 8]) == pytest.approx([10, 50, 80])
    # Contention alone is Amdahl's law: never more than 1 / sigma times one node's.
    assert usl.Coefficients(1.0, 0.25, 0).throughput(1e9) == pytest.approx(4, rel=1e-6)
    law = usl.Coefficients(1.0, 0.1, 0.009)
    assert law.peak_nodes == pytest.approx(10)
    assert law.throughput(10) > max(law.throughput(9), law.throughput(11))
    assert usl.Coefficients(1.0, 0.1, 0).peak_nodes is None


def test_better_than_linear_is_called_linear():
    found = usl.fit(NODES, 1000.0 * NODES**1.1)
    assert (found.sigma, found.kappa) == (0, 0)


def test_four_numbers_of_nodes_are_too_few():
    which, nodes, throughput = simulated(np.random.default_rng(0), 5, 0.1, 0.01, 0.01)
    few = nodes < 6
    law = usl.law(which[few], nodes[few], throughput[few])
    assert law.coefficients is None
    assert (law.sigma.value, law.sigma.n) == (None, 5)
    assert law.reason == "a fit needs 5 numbers of nodes; there are 4"
    assert usl.law([], [], []).coefficients is None


def test_four_blocks_have_no_interval_and_the_same_blocks_always_the_same():
    runs = simulated(np.random.default_rng(1), 5, 0.1, 0.005, 0.02)
    assert usl.law(*(column[runs[0] < 4] for column in runs)).sigma.low is None
    law = usl.law(*runs)
    assert law == usl.law(*runs)
    assert law.sigma.low < law.sigma.value < law.sigma.high
    assert (law.sigma.value, law.kappa.value, law.single.value) == pytest.approx(
        (law.coefficients.sigma, law.coefficients.kappa, law.coefficients.single)
    )


def test_what_a_block_has_in_common_is_no_scatter_of_the_coefficients():
    which, nodes, throughput = simulated(np.random.default_rng(1), 6, 0.1, 0.005, 0)
    law = usl.law(which, nodes, throughput)
    assert (law.sigma.low, law.sigma.high) == pytest.approx((0.1, 0.1), abs=1e-6)
    assert law.single.low < law.single.value < law.single.high


@pytest.mark.long(why="intervals of many samples")
def test_intervals_cover_what_they_say():
    """Of 100 sessions of five blocks: nominally 95 contain the truth; 87 or fewer would be one in a thousand."""
    rng, covered = np.random.default_rng(20), np.zeros(2)
    for _ in range(100):
        law = usl.law(*simulated(rng, 5, 0.1, 0.005, 0.02), resamples=2000)
        covered += [law.sigma.low <= 0.1 <= law.sigma.high, law.kappa.low <= 0.005 <= law.kappa.high]
    assert (covered >= 88).all(), covered
    assert (covered < 100).any(), "intervals that always contain it are too wide"


@pytest.mark.parametrize(("nodes", "throughput"), [([1, 2], [1, 2]), ([1, 1, 2], [1, 1, 2]), ([1, 2, 3], [1, 0, 2])])
def test_what_cannot_be_fitted_is_refused(nodes, throughput):
    with pytest.raises(ValueError):
        usl.fit(nodes, throughput)
