"""What can be trained: Gymnasium's own environments, those with which Stable-Baselines3 tests itself, and pictures of games."""

import importlib.util
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from programs.cli import ConfigError
from tianji import TrainConfig, train
from tianji.config import EnvironmentConfig
from tianji.environments.making import describe, make_env
from tianji.environments.spaces import pixels_of
from tianji.run.play import Player
from tianji.run.training import check, settled
from tianji.settings import convert

HERE = Path(__file__).parent / "spaced"

CLASSIC = ("CartPole-v1", "MountainCar-v0", "Acrobot-v1", "MountainCarContinuous-v0", "Pendulum-v1")
TOYS = ("Blackjack-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v3")
BOX2D = ("LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3")
MUJOCO = (
    "Reacher-v5", "Pusher-v5", "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "HalfCheetah-v5", "Hopper-v5", "Swimmer-v5",
    "Walker2d-v5", "Ant-v5", "Humanoid-v5", "HumanoidStandup-v5"
)  # fmt: skip
OWN = (*CLASSIC, *TOYS, *BOX2D, *MUJOCO)
NEEDS = dict.fromkeys(BOX2D, "Box2D") | dict.fromkeys(MUJOCO, "mujoco")
SB3 = "stable_baselines3.common.envs"


def configured(env, algo="ppo", **more):
    usual = {"rollout_steps": 8, "minibatch_size": 8, "epochs": 1} if algo == "ppo" else {"learning_starts": 16, "updates": 2}
    steps = {"train_every_steps": 16} if algo != "ppo" else {}
    data = {
        "env": env,
        "algo": algo,
        "world": "lockstep",
        "actors": 1,
        "envs_per_actor": 2,
        "stop_steps": 32,
        algo: usual | steps,
    }
    return convert(data | more, TrainConfig, "test")


def trained(env, algo="ppo", **more):
    """Result of a run of a moment."""
    result = train(configured(env, algo, **more))
    assert result.outcome == "steps"
    assert result.steps == 32
    assert np.isfinite(result.weights).all()
    return result


def test_these_are_all_of_gymnasiums_own():
    newest = {}
    for name, spec in gym.registry.items():
        entry = spec.entry_point if isinstance(spec.entry_point, str) else ""
        # The others are rewritten in JAX, or play with an environment of someone else.
        if entry.startswith("gymnasium.envs.") and not entry.startswith(("gymnasium.envs.phys2d", "gymnasium.envs.tabular")):
            base, _, version = name.rpartition("-v")
            newest[base] = max(newest.get(base, 0), int(version))
    assert {f"{base}-v{version}" for base, version in newest.items()} == set(OWN)
    assert len(OWN) == 27


def rows_of_the_page():
    """Rows of the table in docs/supported.md, by environment."""
    text = (Path(__file__).parents[3] / "docs" / "supported.md").read_text().partition("## Gymnasium's own")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    return {name.strip("`"): (seen, acts) for name, seen, acts in rows}


@pytest.mark.parametrize("env", OWN)
def test_the_page_of_what_is_supported_says_what_they_are(env):
    assert set(rows_of_the_page()) == set(OWN)
    if (package := NEEDS.get(env)) is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    found = describe(env)
    features, acts = found.features, found.actions
    seen = f"{features} {'classes' if found.classes else 'features'}"
    if not isinstance(features, int):
        seen = f"picture {' x '.join(map(str, features))}"
    assert rows_of_the_page()[env] == (seen, f"{acts} choices" if acts.kind == "discrete" else str(acts))


SLOW = pytest.mark.long(why="it makes some tens of steps a second")


@pytest.mark.parametrize("env", [pytest.param(env, marks=SLOW) if env == "CarRacing-v3" else env for env in OWN])
def test_gymnasiums_own_environments_are_trained(env):
    if (package := NEEDS.get(env)) is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    trained(env)


@pytest.mark.parametrize("env", [env for env in OWN if env not in ("CarRacing-v3",)])
def test_dqn_trains_those_with_discrete_actions_and_sac_the_others(env):
    if (package := NEEDS.get(env)) is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if describe(env).actions.kind == "discrete":
        trained(env, "dqn")
    else:
        with pytest.raises(ConfigError, match=r"chooses among Discrete actions.*use algo ppo, impala, sac or td3$"):
            check(configured(env, "dqn"))
        trained(env, "sac")
        trained(env, "td3")


@pytest.mark.parametrize("name", ["IdentityEnv", "IdentityEnvBox", "IdentityEnvMultiDiscrete", "IdentityEnvMultiBinary"])
def test_identities_are_trained(name):
    trained(f"{SB3}:{name}", environment={"args": {"dim": 4} if name == "IdentityEnv" else {}})


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("discrete", [False, True])
def test_pictures_are_trained_with_channels_first_and_last(first, discrete):
    args = {"channel_first": first, "discrete": discrete, "screen_height": 40, "screen_width": 36, "n_channels": 3}
    result = trained(f"{SB3}:FakeImageEnv", environment={"args": args})
    assert result.config.network.kind == "nature-shared"
    assert result.describe.features == (3, 40, 36)


def test_pictures_with_vectors_are_trained():
    result = trained(f"{SB3}:SimpleMultiObsEnv")
    assert result.describe.branches is not None
    assert result.config.network.kind == "nature-shared"
    assert result.describe.features.vector == 5


@pytest.mark.parametrize("args", [{}, {"continuous": True}, {"discrete_obs_space": True}])
def test_bits_are_flipped(args):
    trained(f"{SB3}:BitFlippingEnv", environment={"args": {"n_bits": 5, **args}})


SOLVED = {"actors": 1, "envs_per_actor": 8, "network": {"hidden": [32]}}
QUICK = {"rollout_steps": 32, "minibatch_size": 64, "epochs": 4, "learning_rate": 3e-3, "entropy_coefficient": 0.0}


def solved(name, args, stop_return, stop_steps, **ppo):
    """Returns of 20 greedy episodes of a policy that was trained until its mean return is this, from seeds 0 to 19."""
    env, settings = f"{SB3}:{name}", EnvironmentConfig(args=args)
    goal = {"stop_return": stop_return, "stop_steps": stop_steps, "environment": {"args": args}}
    result = train(configured(env, ppo=QUICK | ppo, **SOLVED | goal))
    assert result.outcome == "return", result.summary
    player = Player(env, 20, settings=settings)
    try:
        return player.play(result.policy, range(20))
    finally:
        player.close()


@pytest.mark.long(why="it trains to the solution")
@pytest.mark.parametrize(
    ("name", "args", "stop_steps", "epochs"),
    [
        ("IdentityEnv", {"dim": 4}, 50_000, 4),
        ("IdentityEnvBox", {}, 100_000, 10),
        ("IdentityEnvMultiDiscrete", {}, 50_000, 4),
        ("IdentityEnvMultiBinary", {}, 50_000, 4),
    ],
)
def test_identities_are_solved(name, args, stop_steps, epochs):
    """A reward of 1 for each of 100 steps whose action is the observation, or within .5 of it."""
    assert solved(name, args, 97.0, stop_steps, gamma=0.0, epochs=epochs).mean() >= 98


@pytest.mark.long(why="it trains to the solution")
@pytest.mark.parametrize(
    ("args", "stop_return"), [({}, -1.7), ({"continuous": True}, -0.05), ({"discrete_obs_space": True}, -1.7)]
)
def test_five_bits_are_flipped(args, stop_return):
    """Each action that does not end at the goal costs 1. It flips one bit, or any number if it is continuous."""
    arguments = {"n_bits": 5, **args}
    returns = solved("BitFlippingEnv", arguments, stop_return, 200_000, gamma=0.95)
    assert (returns > -5).all()
    env = make_env(f"{SB3}:BitFlippingEnv", settings=EnvironmentConfig(args=arguments)).unwrapped
    wrong = np.zeros(20)
    for seed in range(20):
        env.reset(seed=seed)
        wrong[seed] = (env.state != env.desired_goal).sum()
    # A single flip leaves the goal where an episode begins at it.
    best = np.zeros(20) if "continuous" in args else -np.maximum(wrong - 1, wrong == 0)
    assert returns.mean() == pytest.approx(best.mean(), abs=0.2)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    yield
    sys.modules.pop("own_spaces", None)


@pytest.mark.parametrize("name", ["Bits", "Grid", "Bytes24", "Anything", "Shifted", "Scalar", "Table", "Doubles"])
def test_own_spaces_are_trained(own, name):
    trained(f"own_spaces:{name}")


def test_pictures_of_games_are_small_and_have_convolutions(own):
    for name, features in (("Bits", (6, 10, 10)), ("Grid", (3, 7, 7)), ("Bytes24", (1, 24, 24))):
        config = configured(f"own_spaces:{name}")
        description = check(config)
        assert description.features == features
        assert settled(config, description).network.kind == "nature-shared"


def test_pictures_are_vectors_for_perceptrons(own):
    result = trained("own_spaces:Grid", network={"kind": "mlp-separate"})
    assert result.describe.features == 7 * 7 * 3


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "Words",
            "environment own_spaces:Words: its observations have Text at 'mission'; arrays of a fixed size are supported",
        ),
        ("Nested", "environment own_spaces:Nested: its actions are Dict; Discrete, MultiDiscrete, MultiBinary and Box are"),
        ("Endless", "environment own_spaces:Endless: its observations have Sequence; arrays of a fixed size are supported"),
        ("Net", "environment own_spaces:Net: its observations have Graph; arrays of a fixed size are supported"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(own, name, line):
    with pytest.raises(ConfigError) as refused:
        check(configured(f"own_spaces:{name}"))
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("space", "order"),
    [
        (spaces.Box(0, 255, (84, 84), np.uint8), "hw"),
        (spaces.Box(0, 255, (96, 96, 3), np.uint8), "hwc"),
        (spaces.Box(0, 255, (3, 64, 64), np.uint8), "chw"),
        (spaces.Box(0, 255, (64, 64, 2), np.uint8), ""),
        (spaces.Box(0, 1, (10, 10, 6), np.bool_), "hwc"),
        (spaces.Box(0, 255, (4, 4), np.uint8), ""),
        (spaces.Box(0, 100, (84, 84), np.uint8), ""),
        (spaces.Box(0, 255, (84, 84), np.float32), ""),
        (spaces.Box(0, 255, (128,), np.uint8), ""),
        (spaces.Discrete(4), ""),
    ],
)
def test_what_looks_like_a_picture(space, order):
    assert pixels_of(space) == order


@pytest.mark.parametrize("settings", [{"grey": True}, {"resize": 42}, {"grey": True, "resize": 36, "stack": 3}, {"stack": 2}])
def test_pictures_are_made_smaller(own, settings):
    if "resize" in settings and importlib.util.find_spec("cv2") is None:
        pytest.skip("OpenCV is not installed")
    side, channels = settings.get("resize", 48), 1 if "grey" in settings else 3
    result = trained("own_spaces:Camera", environment=settings)
    assert result.describe.features == (channels * settings.get("stack", 1), side, side)


def test_vectors_are_stacked():
    assert trained("Pendulum-v1", environment={"stack": 3}).describe.features == 9
    assert trained("FrozenLake-v1", environment={"stack": 2}).describe.features == 32


def test_constructors_get_their_arguments():
    assert check(configured("FrozenLake-v1", environment={"args": {"map_name": "8x8"}})).classes == 64
    with pytest.raises(ConfigError, match="environment CartPole-v1: given colour, its constructor raises TypeError"):
        check(configured("CartPole-v1", environment={"args": {"colour": 1}}))


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_wrappers_are_put_around_in_their_order():
    wrappers = [
        {"wrapper": "gymnasium.wrappers:RescaleAction", "min_action": -1.0, "max_action": 1.0},
        "gymnasium.wrappers:FlattenObservation",
        {"wrapper": "gymnasium.wrappers:TimeAwareObservation"},
    ]
    result = trained("Pendulum-v1", environment={"wrappers": wrappers})
    assert result.describe.features == 4
    assert result.describe.actions.high == (1.0,)
    assert result.describe.shipped


def test_a_wrapper_that_is_missing_is_told_in_one_line():
    with pytest.raises(ConfigError, match=r"wrapper gymnasium\.wrappers:Nothing: "):
        check(configured("Pendulum-v1", environment={"wrappers": ["gymnasium.wrappers:Nothing"]}))
    with pytest.raises(ConfigError, match="a table needs the entry `wrapper`"):
        configured("Pendulum-v1", environment={"wrappers": [{"min_action": 1}]})


def test_steps_are_skipped_and_episodes_limited():
    result = train(configured("CartPole-v1", environment={"frame_skip": 4, "time_limit": 8}, stop_steps=320))
    assert result.mean_return == 8.0
    assert result.describe.shipped
