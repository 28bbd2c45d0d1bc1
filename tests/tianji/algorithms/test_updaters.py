"""All updaters: a gradient accumulated in pieces equals that of the whole batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tianji.algorithms import dqn_numpy, dqn_torch, impala_numpy, impala_torch, ppo_numpy, ppo_torch
from tianji.algorithms.dqn import Regression
from tianji.algorithms.networks import ActorCritic, QNetwork
from tianji.algorithms.rollouts import Rollouts
from tianji.config import DQNConfig, IMPALAConfig, PPOConfig

# So large an epsilon makes Adam's step proportional to the gradient.
SETTINGS = {"max_grad_norm": 1e6, "adam_epsilon": 1e3}
CASES = {
    "ppo-numpy": (ppo_numpy.NumpyUpdater, PPOConfig(entropy_coefficient=0.1, value_clip=0.2, **SETTINGS)),
    "ppo-torch": (ppo_torch.TorchUpdater, PPOConfig(entropy_coefficient=0.1, value_clip=0.2, **SETTINGS)),
    "impala-numpy": (impala_numpy.NumpyUpdater, IMPALAConfig(**SETTINGS)),
    "impala-torch": (impala_torch.TorchUpdater, IMPALAConfig(**SETTINGS)),
    "dqn-numpy": (dqn_numpy.NumpyUpdater, DQNConfig(**SETTINGS)),
    "dqn-torch": (dqn_torch.TorchUpdater, DQNConfig(**SETTINGS)),
}


USUAL = {"adam_epsilon": 1e-5}
"""With this, a step depends on both moments."""


def made(case, seed, rows, **changed):
    """An updater and a batch."""
    kind, config = CASES[case][0], replace(CASES[case][1], **changed)
    rng = np.random.default_rng(seed)
    features, action = rng.normal(size=(rows, 4)).astype(np.float32), rng.integers(0, 3, rows)
    if case.startswith("dqn"):
        network, batch = QNetwork(4, (8,), 3), Regression(features, action, rng.normal(size=rows).astype(np.float32))
    else:
        network = ActorCritic(4, (8, 8), 3)
        batch = Rollouts(features, action, *(rng.normal(size=(4, rows)) * 0.5 - 0.5).astype(np.float32))
    return kind(network, config, network.initialise(0)), batch


def rows_of(batch, rows):
    return type(batch)(*(column if column is None else column[rows] for column in vars(batch).values()))


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_pieces_of_a_batch_have_its_gradient(case, seed, sizes):
    rows, ends = sum(sizes), np.cumsum(sizes)
    (whole, batch), (pieced, _) = made(case, seed, rows), made(case, seed, rows)
    before = whole.weights().copy()
    gradient = np.asarray(whole.gradient(batch)).copy()
    for size, end in zip(sizes, ends, strict=True):
        pieced.accumulate(rows_of(batch, slice(end - size, end)), size / rows)
    assert np.array_equal(pieced.weights(), before), "nothing moves before the gradient is applied"
    whole.step(batch, 1e3)
    pieced.apply(1e3)
    np.testing.assert_allclose(pieced.weights(), whole.weights(), rtol=1e-6, atol=1e-6)
    # Adam's first step is (up to its epsilon) this long.
    np.testing.assert_allclose(before - pieced.weights(), gradient, rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_is_applied_once(case):
    updater, batch = made(case, 0, 20)
    updater.step(batch, 1e-3)
    with pytest.raises(RuntimeError, match="no gradient"):
        updater.apply(1e-3)
    updater.accumulate(batch, 1.0)
    updater.apply(1e-3)
    with pytest.raises(RuntimeError, match="no gradient"):
        updater.apply(1e-3)


@pytest.mark.parametrize("case", CASES)
def test_a_learning_rate_of_zero_moves_no_weight_and_is_remembered_by_the_moments(case):
    still, batch = made(case, 0, 20)
    moved, _ = made(case, 0, 20)
    before = still.weights().copy()
    still.step(batch, 0.0)
    moved.step(batch, 1e-3)
    assert np.array_equal(still.weights(), before)
    assert not np.array_equal(moved.weights(), before)
    for name in ("first_moment", "second_moment", "optimizer_steps"):
        assert np.array_equal(still.state()[name], moved.state()[name])


@pytest.mark.parametrize(("numpy_case", "torch_case"), [("ppo-numpy", "ppo-torch"), ("dqn-numpy", "dqn-torch")])
@pytest.mark.parametrize("back", [False, True])
def test_the_moments_of_one_are_those_of_the_other(numpy_case, torch_case, back):
    here, there = (torch_case, numpy_case) if back else (numpy_case, torch_case)
    (first, batch), (second, _), (alone, _) = (made(case, 0, 20, **USUAL) for case in (here, there, there))
    for _ in range(5):
        first.step(batch, 1e-2)
        alone.step(batch, 1e-2)
    second.restore({name: np.array(value) for name, value in first.state().items()})
    for updater in (second, alone):
        for _ in range(5):
            updater.step(batch, 1e-2)
    np.testing.assert_allclose(second.weights(), alone.weights(), rtol=1e-4, atol=1e-6)


def test_moments_of_a_state_without_scales_are_means():
    """As this updater wrote them before it kept sums."""
    first, batch = made("dqn-numpy", 0, 20, **USUAL)
    first.step(batch, 1e-2)
    old = {name: np.array(value) for name, value in first.state().items()}
    scales = old.pop("moment_scales")
    for name, scale in zip(("first_moment", "second_moment"), scales, strict=True):
        old[name] = old[name] / np.float32(scale)
    second, _ = made("dqn-numpy", 0, 20, **USUAL)
    second.restore(old)
    np.testing.assert_allclose(second.adam.first_moment, first.adam.first_moment, rtol=1e-6)
    np.testing.assert_allclose(second.adam.second_moment, first.adam.second_moment, rtol=1e-6)
    for updater in (first, second):
        updater.step(batch, 1e-2)
    np.testing.assert_allclose(second.weights(), first.weights(), rtol=1e-5, atol=1e-7)
