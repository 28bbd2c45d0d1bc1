"""Generalised advantages against their definition, summed term by term."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.algorithms.vtrace import generalised_advantages


def by_definition(reward, value, next_value, terminated, truncated, gamma, lam):
    """A_t = sum over k of (gamma lambda)^k delta_{t+k}, up to the end of the episode: Schulman et al., equation 16."""
    steps, environments = reward.shape
    result = np.zeros((steps, environments))
    for b in range(environments):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                future = 0.0 if terminated[k, b] else gamma * next_value[k, b]
                result[t, b] += weight * (reward[k, b] + future - value[k, b])
                if terminated[k, b] or truncated[k, b]:
                    break
                weight *= gamma * lam
    return result


@st.composite
def fragments(draw):
    steps, environments = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ends = rng.random((2, steps, environments)) < draw(st.floats(0, 0.6))
    return (*rng.normal(size=(3, steps, environments)).astype(np.float32), *ends)


@given(fragments(), st.floats(0, 1), st.floats(0, 1))
def test_equals_the_definition(fragment, gamma, lam):
    got = generalised_advantages(*fragment, gamma, lam)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, by_definition(*fragment, gamma, lam), rtol=1e-4, atol=1e-4)


def test_lambda_one_is_the_discounted_return_minus_the_value():
    reward, value = np.ones((3, 1), np.float32), np.full((3, 1), 0.5, np.float32)
    never = np.zeros((3, 1), bool)
    last = np.array([[False], [False], [True]])
    got = generalised_advantages(reward, value, value, last, never, 0.5, 1.0)
    assert got[:, 0] == pytest.approx([1 + 0.5 + 0.25 - 0.5, 1 + 0.5 - 0.5, 1 - 0.5])


def test_a_truncated_step_is_bootstrapped_from_but_passes_nothing_back():
    one = np.ones((2, 1), np.float32)
    cut = np.array([[True], [False]])
    got = generalised_advantages(one, 0 * one, np.array([[10.0], [20.0]]), np.zeros((2, 1), bool), cut, 0.9, 0.9)
    assert got[:, 0] == pytest.approx([1 + 9, 1 + 18])
