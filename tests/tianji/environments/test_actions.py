"""What environments are given for the actions that chunks hold."""

import gymnasium as gym
import msgspec
import numpy as np
import pytest
from gymnasium import spaces

from programs.cli import ConfigError
from tianji.config import ActionsConfig
from tianji.environments.actions import Actions
from tianji.environments.spaces import actions_of

LOW, HIGH = np.array([-1, -np.inf, 0], np.float32), np.array([2, np.inf, 5], np.float32)
SPACES = {
    "discrete": spaces.Discrete(5),
    "shifted": spaces.Discrete(3, start=-1),
    "choices": spaces.MultiDiscrete([2, 3, 4]),
    "shifted choices": spaces.MultiDiscrete([2, 3], start=[5, -3]),
    "choices in a table": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "bits": spaces.MultiBinary(4),
    "bits in a table": spaces.MultiBinary((2, 3)),
    "numbers": spaces.Box(LOW, HIGH),
    "double": spaces.Box(-2.0, 2.0, (2, 3), np.float64),
    "whole": spaces.Box(0, 10, (3,), np.int32),
    "one": spaces.Box(-1.0, 1.0, ()),
}


def drawn(actions, rows, rng):
    if actions.kind == "box":
        return (10 * rng.normal(size=(rows, actions.parts))).astype(np.float32)
    stored = np.stack([rng.integers(0, size, rows) for size in actions.sizes], axis=1)
    return stored[:, 0] if actions.kind == "discrete" else stored


@pytest.mark.parametrize("name", SPACES)
def test_every_action_that_is_given_is_in_the_space(name):
    space = SPACES[name]
    actions = actions_of(space, "x")
    for given in actions.given(drawn(actions, 200, np.random.default_rng(0))):
        value = np.int64(given) if isinstance(space, spaces.Discrete) else given
        assert space.contains(value), given


@pytest.mark.parametrize("name", SPACES)
def test_they_travel_as_plain_data(name):
    actions = actions_of(SPACES[name], "x")
    assert msgspec.json.decode(msgspec.json.encode(actions), type=Actions) == actions
    assert Actions.of(msgspec.convert(msgspec.json.decode(msgspec.json.encode(actions.plain)), int | Actions)) == actions


def test_choices_count_from_their_start_and_all_are_reached():
    actions = actions_of(SPACES["shifted choices"], "x")
    given = {tuple(one.tolist()) for one in actions.given(drawn(actions, 200, np.random.default_rng(0)))}
    assert given == {(a, b) for a in (5, 6) for b in (-3, -2, -1)}
    assert set(actions_of(SPACES["shifted"], "x").given(np.arange(3))) == {-1, 0, 1}


def test_numbers_are_clipped_to_the_bounds_and_kept_as_drawn():
    actions = actions_of(SPACES["numbers"], "x")
    stored = np.array([[-7, -7, -7], [0.5, 99, 9]], np.float32)
    given = actions.given(stored)
    assert [one.tolist() for one in given] == [[-1, -7, 0], [0.5, 99, 5]]
    assert stored.tolist() == [[-7, -7, -7], [0.5, 99, 9]]
    assert actions.low == (-1.0, None, 0.0)


def test_squashed_numbers_fill_the_space_and_never_leave_it():
    actions = actions_of(spaces.Box(np.float32([-2, 0]), np.float32([2, 10])), "x").under(ActionsConfig(bounds="squash"))
    given = np.array(actions.given(np.array([[0, 0], [50, 50], [-50, -50], [0.5, 0.5]], np.float32)))
    np.testing.assert_allclose(given[:3], [[0, 5], [2, 10], [-2, 0]], atol=1e-6)
    np.testing.assert_allclose(given[3], [2 * np.tanh(0.5), 5 + 5 * np.tanh(0.5)], rtol=1e-6)


def test_squashing_needs_bounds():
    with pytest.raises(ValueError, match="needs finite bounds"):
        actions_of(SPACES["numbers"], "x").under(ActionsConfig(bounds="squash"))
    assert actions_of(SPACES["discrete"], "x").under(ActionsConfig(bounds="squash")) == Actions.of(5)


def test_spaces_are_alike_whatever_the_policy():
    one = actions_of(SPACES["double"], "x")
    assert one.like(one.under(ActionsConfig(bounds="squash", log_scale=-1.0)))
    assert not one.like(actions_of(SPACES["numbers"], "x"))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Tuple((spaces.Discrete(2),)),
        spaces.Dict(a=spaces.Discrete(2)),
        spaces.Sequence(spaces.Discrete(2)),
    ],
    ids=lambda space: type(space).__name__,
)
def test_other_actions_are_refused_in_one_line(space):
    assert isinstance(space, gym.Space)
    with pytest.raises(ConfigError, match=r"^environment x: its actions are \w+; .* in a wrapper \(environment.wrappers\)$"):
        actions_of(space, "environment x")
