import msgspec
import pytest

from baselines import system as systems
from programs.cli import ConfigError
from suites.convergence import sweep as convergence
from suites.session import catalogue


def test_every_workload_that_comes_with_the_project_is_valid():
    assert "cartpole-ppo-zoo" in catalogue.names()
    for name in catalogue.names():
        assert catalogue.load(name).id == name


def test_cartpole_ppo_zoo_says_what_the_design_fixes():
    w = catalogue.load("cartpole-ppo-zoo")
    assert (w.environments, w.ppo.rollout_steps, w.ppo.minibatch_size, w.ppo.epochs) == (8, 32, 256, 20)
    assert (w.ppo.learning_rate, w.ppo.learning_rate_schedule, w.horizon_steps) == (1e-3, "linear", 100_000)
    assert (w.ppo.clip, w.ppo.gamma, w.ppo.gae_lambda) == (0.2, 0.98, 0.8)
    assert (w.ppo.value_coefficient, w.ppo.entropy_coefficient, w.ppo.max_grad_norm) == (0.5, 0.0, 0.5)
    assert (w.network.hidden, w.network.activation) == ((64, 64), "tanh")
    assert (w.thresholds.training, w.thresholds.evaluated, w.budget_steps) == (450, 475, 100_000)


def test_cartpole_dqn_released_says_what_the_released_configuration_says():
    w = catalogue.load("cartpole-dqn-released")
    assert (w.network.hidden, w.network.activation, w.network.dueling) == ((256, 256, 256), "gelu", True)
    assert (w.dqn.learning_rate, w.dqn.gamma, w.dqn.batch_size, w.dqn.double) == (5e-4, 0.99, 32, False)
    assert (w.dqn.replay_capacity, w.dqn.learning_starts) == (50_000, 1000)
    steps_per_update = w.dqn.train_every_steps / w.dqn.updates
    assert (steps_per_update, w.dqn.target_every_steps / steps_per_update) == (22, 200)
    assert w.dqn.target_every_steps % w.round_steps == 0, "else the copy is late by a part of a round"
    assert (w.dqn.epsilon_start, w.dqn.epsilon_end, w.dqn.epsilon_steps) == (1.0, 0.02, 4 * 10_000)
    assert (w.thresholds.training, w.thresholds.evaluated) == (300, 300)


def test_cartpole_ppo_released_says_what_the_released_configuration_says():
    w = catalogue.load("cartpole-ppo-released")
    assert (w.network.kind, w.network.hidden) == ("mlp-shared", (64, 64))
    assert (w.ppo.learning_rate, w.ppo.learning_rate_schedule, w.ppo.epochs) == (1e-4, "constant", 10)
    assert (w.ppo.gamma, w.ppo.gae_lambda, w.ppo.clip, w.ppo.value_clip) == (0.99, 0.95, 0.2, 0.2)
    assert (w.ppo.value_coefficient, w.ppo.entropy_coefficient, w.ppo.minibatch_size) == (0.5, 0.01, 64)
    assert w.round_steps == 2 * 2048
    assert (w.thresholds.training, w.thresholds.evaluated) == (300, 300)


@pytest.mark.parametrize("name", ["cartpole-dqn-released", "cartpole-ppo-released"])
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("system", ["sync", "sync-one", "tianji", "tianji-one-sided", "tianji-as-published", "xingtian"])
def test_the_released_workloads_keep_their_rounds_on_any_cores(name, cores, system):
    w = catalogue.load(name)
    config = systems.get(system).config(systems.Task(system, w, 0, tuple(range(cores))))
    assert (config.environments, config.round_steps) == (8, w.round_steps)
    # A learner that draws from a replay has a core of its own; what is left must divide the environments.
    free = {1: 1, 2: 1, 4: 2}[cores] if w.dqn else cores
    assert config.actors == (1 if system == "sync-one" else free)
    assert config.round_updates == (w.dqn.updates if w.dqn else 640)


@pytest.mark.parametrize("name", ["cartpole-ppo-nodes", "cartpole-dqn-nodes", "cartpole-dqn-latency", "pixels-dqn-link"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 6, 8])
def test_workloads_of_many_nodes_can_be_multiplied(name, nodes):
    """Environments are a node's: so many times them divide a round, and nothing else changes."""
    w = catalogue.load(name)
    more = msgspec.structs.replace(w, environments=nodes * w.environments)
    config = systems.get("tianji").config(systems.Task("tianji", more, 0, (0,)))
    assert config.environments == nodes * w.environments
    assert config.round_steps == (nodes * w.round_steps if w.ppo else w.round_steps)
    if w.ppo:
        assert w.ppo.learning_rate_schedule == "constant", "nothing follows a horizon"
    if w.simulator is not None:
        assert w.environments % w.simulator.spread_over == 0, "nodes are alike"
        assert config.simulator == w.simulator


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("epochs = 2", "epoch = 2"), "did you mean `epochs`"),
        (("epochs = 2", "epochs = 0"), ">= 1"),
        (("epochs = 2", 'epochs = "two"'), "Expected `int`"),
        (("environments = 4", ""), "missing key `environments`"),
        (('algo = "ppo"', 'algo = "sarsa"'), "known: ppo"),
        (("budget_steps = 1024", "budget_steps = 64"), "less than one round"),
        (('id = "cartpole-ppo-tiny"', 'id = "cartpole-ppo-other"'), "must be named"),
        (('id = "cartpole-ppo-tiny"', "id = "), "not a TOML file"),
        (("[ppo]", "[simulator]\nstep_second = 1.0\n[ppo]"), "did you mean `step_seconds`"),
        (("hidden = [16, 16]", 'factory = "my_module:make"'), "a kind that every system knows"),
    ],
)
def test_a_wrong_key_or_value_is_named(tiny, change, says):
    path = tiny()
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(ConfigError) as raised:
        catalogue.load(str(path))
    assert says in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("profile", convergence.PROFILES.values(), ids=convergence.PROFILES)
def test_every_system_of_a_convergence_profile_can_train_on_each_of_its_workloads(profile):
    """A system that cannot is left out of a run with a line among many: "all systems" would be less than was said."""
    reasons = {
        (name, system): systems.get(system).unable(catalogue.load(name))
        for name in profile.workloads
        for system in (*profile.systems, *(profile.on_policy if catalogue.load(name).algo == "ppo" else ()))
    }
    assert set(reasons.values()) == {None}, reasons


def test_an_unknown_workload_gets_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean cartpole-ppo-zoo"):
        catalogue.load("cartpole-ppo-zo")
