"""What is told of a setting's values is what its type takes."""

import pytest

from programs.cli import ConfigError
from tianji.config import AtariConfig, TrainConfig
from tianji.settings import Constraint, constraint, convert


@pytest.mark.parametrize(
    ("settings", "name", "told"),
    [
        (TrainConfig, "device", Constraint(str, ("cpu", "cuda"), "")),
        (TrainConfig, "groups", Constraint(int, (), "at least 1")),
        (TrainConfig, "stop_seconds", Constraint(float, (), "above 0")),
        (TrainConfig, "stop_return", Constraint(float, (), "")),
        (TrainConfig, "ray_address", Constraint(str, (), "")),
        (AtariConfig, "stack", Constraint(int, (), "at least 1, at most 16")),
    ],
)
def test_limits_of_a_setting(settings, name, told):
    assert constraint(settings, name) == told


@pytest.mark.parametrize(("stack", "fits"), [(1, True), (16, True), (0, False), (17, False)])
def test_limits_that_are_told_are_those_that_are_checked(stack, fits):
    if fits:
        assert convert({"stack": stack}, AtariConfig, "atari").stack == stack
    else:
        with pytest.raises(ConfigError):
            convert({"stack": stack}, AtariConfig, "atari")
