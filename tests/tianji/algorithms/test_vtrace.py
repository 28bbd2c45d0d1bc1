"""V-trace against its definition, term by term: Espeholt et al., 2018, equation 1 and section 4.2."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.algorithms import vtrace
from tianji.algorithms.vtrace import generalised_advantages


def targets_by_definition(reward, value, next_value, terminated, truncated, ratio, gamma, lam, rho_clip, c_clip):
    """v_s = V(x_s) + sum over t of gamma^(t-s) C_t rho_t delta_t, up to the end of the episode.

    C_t is the product of c_i for s <= i < t.
    """
    steps, environments = reward.shape
    v = np.array(value, np.float64)
    for b in range(environments):
        for s in range(steps):
            for t in range(s, steps):
                product = np.prod([lam * min(c_clip, ratio[i, b]) for i in range(s, t)])
                future = 0.0 if terminated[t, b] else gamma * next_value[t, b]
                delta = min(rho_clip, ratio[t, b]) * (reward[t, b] + future - value[t, b])
                v[s, b] += gamma ** (t - s) * product * delta
                if terminated[t, b] or truncated[t, b]:
                    break
    return v


def advantages_by_definition(reward, value, next_value, terminated, truncated, ratio, v, gamma, rho_clip):
    """rho_s (r_s + gamma v_{s+1} - V(x_s)); v of what lies beyond the fragment or a cut is its value."""
    steps, environments = reward.shape
    result = np.zeros((steps, environments))
    for b in range(environments):
        for s in range(steps):
            if terminated[s, b]:
                future = 0.0
            elif truncated[s, b] or s == steps - 1:
                future = next_value[s, b]
            else:
                future = v[s + 1, b]
            result[s, b] = min(rho_clip, ratio[s, b]) * (reward[s, b] + gamma * future - value[s, b])
    return result


@st.composite
def fragments(draw):
    steps, environments = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ends = rng.random((2, steps, environments)) < draw(st.floats(0, 0.6))
    reward, value, last = rng.normal(size=(3, steps, environments)).astype(np.float32)
    terminated, truncated = ends[0] & ~ends[1], ends[1]
    # As in a fragment: a step leads to the next one's observation, unless the episode was cut there.
    next_value = np.where(truncated, last, np.concatenate([value[1:], last[-1:]]))
    ratio = np.exp(rng.normal(size=reward.shape)).astype(np.float32)
    return reward, value, next_value, terminated, truncated, ratio


@given(fragments(), st.floats(0, 1), st.floats(0, 1), st.floats(0.3, 3), st.floats(0.3, 3))
def test_equals_the_definition(fragment, gamma, lam, rho_clip, c_clip):
    above = vtrace.excess(*fragment, gamma=gamma, lambda_=lam, rho_clip=rho_clip, c_clip=c_clip)
    assert above.dtype == np.float32
    v = targets_by_definition(*fragment, gamma, lam, rho_clip, c_clip)
    np.testing.assert_allclose(fragment[1] + above, v, rtol=1e-4, atol=1e-4)
    advantage = vtrace.policy_advantages(*fragment, above, gamma=gamma, rho_clip=rho_clip)
    expected = advantages_by_definition(*fragment, v, gamma, rho_clip)
    np.testing.assert_allclose(advantage, expected, rtol=1e-3, atol=1e-3)


@given(fragments(), st.floats(0, 1), st.floats(0, 1))
def test_on_policy_it_is_the_generalised_advantage(fragment, gamma, lam):
    *columns, ratio = fragment
    above = vtrace.excess(*columns, np.ones_like(ratio), gamma=gamma, lambda_=lam, rho_clip=1.0, c_clip=1.0)
    assert np.array_equal(above, generalised_advantages(*columns, gamma, lam))


def test_an_unlikely_action_is_learnt_from_less_and_hides_what_came_after():
    one, never = np.ones((2, 1), np.float32), np.zeros((2, 1), bool)
    columns = (one, 0 * one, 0 * one, never, never, np.array([[0.25], [4.0]], np.float32))
    above = vtrace.excess(*columns, gamma=1.0, lambda_=1.0, rho_clip=1.0, c_clip=1.0)
    assert above[:, 0] == pytest.approx([0.25 * (1 + 1), 1.0])


def test_advantages_do_not_change_what_they_are_given():
    one, never = np.ones((2, 1), np.float32), np.array([[True], [False]])
    following = one.copy()
    vtrace.policy_advantages(one, one, following, never, ~never, one, one, gamma=0.9, rho_clip=1.0)
    assert np.array_equal(following, one)
