"""All updaters: a gradient accumulated in pieces equals that of the whole batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def made(case, seed, rows):
    """An updater, a batch, and how to take rows of it."""
    kind, config = CASES[case]
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
