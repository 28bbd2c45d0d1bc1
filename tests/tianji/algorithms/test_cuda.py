"""The learner on a GPU: its updaters compute what they compute on a CPU, and runs train, end and go on."""

import msgspec
import numpy as np
import pytest
import torch
from small_runs import DQN, IMPALA, PPO

from baselines.system import Task
from baselines.tianji import TianJi
from tianji.algorithms import dqn_torch, impala_torch, ppo_torch
from tianji.algorithms.dqn import Regression
from tianji.algorithms.graphs_torch import MOST, SEEN_BEFORE
from tianji.algorithms.networks import make_network
from tianji.algorithms.rollouts import Rollouts
from tianji.config import DQNConfig, IMPALAConfig, PPOConfig
from tianji.run.training import train
from tianji.run_folder import RunFolder, read_state, state_path

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")

ROWS, ACTIONS = 64, 6
VECTORS, FRAMES = 8, (4, 84, 84)
UPDATERS = {
    "ppo": (ppo_torch.TorchUpdater, PPOConfig(value_clip=0.2)),
    "impala": (impala_torch.TorchUpdater, IMPALAConfig()),
    "dqn": (dqn_torch.TorchUpdater, DQNConfig()),
}
NETWORKS = {
    "ppo": [("mlp-separate", VECTORS), ("mlp-shared", VECTORS), ("nature-shared", FRAMES)],
    "impala": [("mlp-separate", VECTORS), ("nature-shared", FRAMES)],
    "dqn": [("mlp-q", VECTORS), ("nature-q", FRAMES)],
}
TF32 = 3e-2
"""Bound on the relative error of a gradient where torch lets a GPU's convolutions round their factors to ten bits, as it does
unless told otherwise. Products of matrices keep all bits."""
CASES = [(algo, kind, features) for algo, some in NETWORKS.items() for kind, features in some]


def batch_of(algo, features, seed=0):
    rng = np.random.default_rng(seed)
    seen = (
        rng.normal(size=(ROWS, features)).astype(np.float32)
        if isinstance(features, int)
        else rng.integers(0, 256, (ROWS, *features), np.uint8)
    )
    action = rng.integers(0, ACTIONS, ROWS)
    if algo == "dqn":
        return Regression(seen, action, rng.normal(size=ROWS).astype(np.float32))
    return Rollouts(seen, action, *(rng.normal(size=(4, ROWS)) * 0.5 - 0.5).astype(np.float32))


def updater_of(algo, kind, features, device, **changed):
    build, config = UPDATERS[algo][0], msgspec.structs.replace(UPDATERS[algo][1], **changed)
    network = make_network(kind, features, (64, 64), ACTIONS)
    return build(network, config, network.initialise(3), device)


def apart(got, expected):
    """Length of the difference over the length of what is expected."""
    got, expected = (np.asarray(x, np.float64) for x in (got, expected))
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(("algo", "kind", "features"), CASES)
def test_a_gradient_is_the_processor_s(algo, kind, features):
    batch = batch_of(algo, features)
    expected, got = (updater_of(algo, kind, features, device).gradient(batch).cpu() for device in ("cpu", "cuda"))
    assert apart(got, expected) < (TF32 if kind.startswith("nature") else 1e-5)


@pytest.mark.parametrize(("algo", "kind", "features"), CASES)
def test_a_gradient_of_convolutions_in_full_precision_is_the_processor_s(algo, kind, features):
    batch = batch_of(algo, features)
    with torch.backends.cudnn.flags(allow_tf32=False):
        got = updater_of(algo, kind, features, "cuda").gradient(batch).cpu()
    assert apart(got, updater_of(algo, kind, features, "cpu").gradient(batch)) < 1e-5


@pytest.mark.parametrize(("algo", "kind", "features"), CASES)
def test_what_actors_are_told_is_the_network_s(algo, kind, features):
    updater, batch = updater_of(algo, kind, features, "cuda"), batch_of(algo, features)
    told = updater.network.views(updater.weights())
    if algo == "dqn":
        pairs = [(updater.values(batch.features), updater.network.scores(told, batch.features))]
    else:
        pairs = list(zip(updater.both(batch.features), updater.network.both(told, batch.features), strict=True))
    for got, expected in pairs:
        assert apart(got, expected) < (TF32 if kind.startswith("nature") else 1e-5)


@pytest.mark.parametrize(("algo", "kind", "features"), CASES)
@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")])
def test_a_state_goes_on_on_another_device(algo, kind, features, first, then):
    here, there = (updater_of(algo, kind, features, device) for device in (first, then))
    for seed in range(3):
        here.step(batch_of(algo, features, seed), 1e-3)
    there.restore({name: np.array(value) for name, value in here.state().items()})
    assert np.array_equal(there.weights(), here.weights())
    before = here.weights().copy()
    for updater in (here, there):
        updater.step(batch_of(algo, features, 3), 1e-3)
        assert updater.sound()
    assert not np.array_equal(here.weights(), before)
    # A step is some 1e-3 long in every weight, whose direction may turn where a gradient is nearly nothing.
    moved = apart(there.weights() - before, here.weights() - before)
    assert moved < (0.1 if kind.startswith("nature") else 1e-2)
    assert {name: int(x.state()["optimizer_steps"]) for name, x in (("here", here), ("there", there))} == {
        "here": 4,
        "there": 4,
    }


@pytest.mark.parametrize(("algo", "kind", "features"), CASES)
def test_a_recorded_step_is_the_step(algo, kind, features):
    recorded, plain = (updater_of(algo, kind, features, "cuda") for _ in range(2))
    for seed in range(3 * SEEN_BEFORE):
        batch, rate = batch_of(algo, features, seed), 1e-3 / (1 + seed)
        recorded.step(batch, rate)
        plain.accumulate(batch, 1.0)
        plain.apply(rate)
        assert apart(recorded.weights(), plain.weights()) < (1e-3 if kind.startswith("nature") else 1e-6)
    assert (len(recorded._graphs), len(plain._graphs)) == (1, 0)
    got, expected = recorded.state(), plain.state()
    assert int(got["optimizer_steps"]) == int(expected["optimizer_steps"]) == 3 * SEEN_BEFORE
    assert float(recorded._norms) == pytest.approx(float(plain._norms), rel=TF32)


def test_a_recorded_step_clips_each_part_as_the_processor_does():
    clipping = {"clip_gradients": "each", "max_grad_norm": 0.05}
    recorded, plain, whole = (
        updater_of("ppo", "mlp-separate", VECTORS, device, **changed)
        for device, changed in (("cuda", clipping), ("cpu", clipping), ("cpu", {"max_grad_norm": 0.05}))
    )
    before = plain.weights().copy()
    for seed in range(3 * SEEN_BEFORE):
        for updater in (recorded, plain, whole):
            updater.step(batch_of("ppo", VECTORS, seed), 1e-3 / (1 + seed))
    assert len(recorded._graphs) == 1
    moved = recorded.weights() - before
    assert apart(moved, plain.weights() - before) < 1e-2 < apart(moved, whole.weights() - before)
    assert float(recorded._norms) == pytest.approx(float(plain._norms), rel=1e-3)


def test_a_recorded_step_goes_on_from_what_is_loaded_and_restored():
    recorded, other = (updater_of("ppo", "mlp-separate", VECTORS, "cuda") for _ in range(2))
    for seed in range(2 * SEEN_BEFORE):
        recorded.step(batch_of("ppo", VECTORS, seed), 1e-3)
    other.step(batch_of("ppo", VECTORS, 50), 1e-3)
    recorded.restore({name: np.array(value) for name, value in other.state().items()})
    mean = (recorded.weights() + 0.5).astype(np.float32)
    for updater in (recorded, other):
        updater.load(mean)
        updater.step(batch_of("ppo", VECTORS, 51), 1e-3)
    assert len(recorded._graphs) == 1
    assert apart(recorded.weights() - mean, other.weights() - mean) < 1e-6
    assert int(recorded.state()["optimizer_steps"]) == 2


def test_shapes_that_seldom_come_back_are_not_recorded():
    updater, plain = (updater_of("ppo", "mlp-separate", VECTORS, "cuda") for _ in range(2))
    sizes = [10, 20, 30] * SEEN_BEFORE + [40] * (SEEN_BEFORE + 2) + list(range(50, 64)) * (SEEN_BEFORE + 1)
    for seed, size in enumerate(sizes):
        batch = batch_of("ppo", VECTORS, seed).take(np.arange(size))
        updater.step(batch, 1e-3)
        plain.accumulate(batch, 1.0)
        plain.apply(1e-3)
        # The first shapes came as often as goes unrecorded, and the fourth has to come so often, too.
        assert seed >= 4 * SEEN_BEFORE or len(updater._graphs) == 0
    assert len(updater._graphs) == MOST
    assert apart(updater.weights(), plain.weights()) < 1e-5


def test_what_is_not_finite_is_seen():
    """In a recorded step, too."""
    updater, batch = updater_of("ppo", "mlp-separate", VECTORS, "cuda"), batch_of("ppo", VECTORS)
    for _ in range(2 * SEEN_BEFORE):
        updater.step(batch, 1e-3)
    assert updater.sound()
    batch.advantage[0] = np.nan
    updater.step(batch, 1e-3)
    assert not updater.sound()


def test_rows_that_lie_on_the_device_are_those_of_the_batch():
    updater, batch = updater_of("ppo", "nature-shared", FRAMES, "cuda"), batch_of("ppo", FRAMES)
    placed = updater.place(batch.features)
    assert placed.device.type == "cuda"
    rows = np.random.default_rng(1).permutation(ROWS)[:40]
    assert np.array_equal(placed[rows].cpu().numpy(), batch.features[rows])


def configuration(workload, **changes):
    config = TianJi().config(Task("tianji", msgspec.structs.replace(workload, device="cuda"), 7, (0, 1)))
    return msgspec.structs.replace(config, checkpoint_seconds=60.0, **changes)


RUNS = [pytest.param(w, id=w.algo) for w in (PPO, DQN, IMPALA)]


@pytest.mark.parametrize("workload", RUNS)
def test_a_run_trains_and_goes_on(workload, tmp_path):
    config = configuration(workload)
    result = train(config, out=tmp_path / "run")
    assert result.outcome == "steps"
    first = read_state(state_path(RunFolder(tmp_path / "run").state, 0))
    more = msgspec.structs.replace(config, stop_steps=2 * config.stop_steps)
    again = train(more, out=tmp_path / "run", resume=True)
    assert again.steps > result.steps
    assert again.version > result.version > 0
    after = read_state(state_path(RunFolder(tmp_path / "run").state, 0))
    assert int(after.arrays["optimizer_steps"]) > int(first.arrays["optimizer_steps"]) > 0
    assert np.isfinite(after.arrays["weights"]).all()
    assert not np.array_equal(after.arrays["weights"], first.arrays["weights"])


@pytest.mark.parametrize("workload", RUNS)
def test_runs_in_lockstep_repeat(workload):
    """Perceptrons alone: convolutions on a GPU add in an order of their own."""
    config = configuration(workload, world="lockstep")
    one, other = train(config), train(config)
    assert one.version > 0
    assert np.array_equal(one.weights, other.weights)
