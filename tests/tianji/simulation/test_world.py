"""The simulated world against closed forms, and against the lockstep world."""

import functools

import pytest

from tianji.config import DQNConfig, IMPALAConfig, NetworkConfig, PPOConfig, TrainConfig
from tianji.disciplines.registry import DISCIPLINES
from tianji.environments.making import describe
from tianji.messages import Done, Report, Snapshot
from tianji.simulation.historian import Historian
from tianji.simulation.machines import Machine
from tianji.simulation.world import Simulation
from tianji.worlds import lockstep

CARTPOLE = functools.cache(lambda: describe("CartPole-v1"))


class Constant:
    """Work that always takes the same time, of which a fragment's is waiting."""

    def __init__(self, fragments_s, round_s, mean_s=0.0, computed=False):
        self.fragments_s, self.round_s, self.mean_s, self.computed = fragments_s, round_s, mean_s, computed

    def fragment(self, actor):
        one = self.fragments_s[actor % len(self.fragments_s)]
        return (one, 0.0) if self.computed else (0.0, one)

    def round(self, group, samples):
        return self.round_s

    def mean(self, models):
        return self.mean_s


def config(**more):
    given = {
        "env": "CartPole-v1",
        "actors": 4,
        "envs_per_actor": 1,
        "ppo": PPOConfig(rollout_steps=32, epochs=2, minibatch_size=32),
        "network": NetworkConfig(kind="mlp-separate", hidden=(8,)),
    }
    return TrainConfig(**given | more)


def ran(made, times, seconds=None, **more):
    found = []

    def heard(message):
        found.append(message)
        return "steps" if isinstance(message, Done) else None

    simulation = Simulation(made, CARTPOLE(), times, on_message=heard, **more)
    simulation.run(seconds)
    return simulation, found


def rounds(simulation, group=0):
    return simulation.processes[f"learner g{group}"].hosts[0].role.rounds


def test_a_barrier_waits_for_the_slowest_and_relaxed_actors_do_not():
    times = Constant((0.1, 0.1, 0.1, 0.4), 0.05)
    strict, _ = ran(config(discipline="strict"), times, 45.0)
    assert rounds(strict) == pytest.approx(45 / 0.45, abs=1)
    relaxed, _ = ran(config(discipline="relaxed", chunk_slots=8), times, 45.0)
    # 32.5 fragments a second, four in a round.
    assert rounds(relaxed) == pytest.approx(45 * 32.5 / 4, rel=0.02)


def test_a_round_takes_what_its_configuration_states_at_least():
    # On a share of a core the updates take longer, and a wait does not.
    made = config(update_seconds=0.2)
    for round_s, expected in ((0.03, 0.2), (0.1, 0.4)):  # Of computation at a quarter of the speed, or of waiting.
        simulation, _ = ran(made, Constant((0.1,), round_s), 30.0, machine=Machine(cores=0.25))
        assert rounds(simulation) == pytest.approx(30 / (0.1 + expected), abs=1)


@pytest.mark.parametrize("name", DISCIPLINES.names())
@pytest.mark.parametrize("learn", [False, True], ids=["pretended", "real"])
def test_laws_hold_and_runs_end(name, learn):
    algo = "impala" if name == "stream" else "ppo"
    made = config(algo=algo, impala=IMPALAConfig(rollout_steps=32), discipline=name, chunk_slots=8, stop_steps=2048)
    historian = Historian()
    _, told = ran(made, Constant((0.3, 0.1, 0.15, 0.2), 0.1), trace=historian, learn=learn)
    for law in made.rule.laws:
        assert list(law.broken(historian.history, made.rule)) == [], law.text
    assert historian.history.took
    assert sorted(m.role for m in told if isinstance(m, Report)) == sorted(
        ["learner g0", "buffer g0", *(f"actor g0.a{n}" for n in range(4))]
    )


@pytest.mark.parametrize("name", ["strict", "exactly-one-round", "reactor"])
def test_work_that_is_done_gives_the_weights_of_the_lockstep_world(name):
    made = config(discipline=name, stop_steps=1024, seed=3)

    def snapshots(told):
        return [message.weights for message in told if isinstance(message, Snapshot)]

    _, told = ran(made, Constant((0.3, 0.1, 0.15, 0.2), 0.1), learn=True)
    expected = []

    def heard(message):
        expected.append(message)
        return "steps" if isinstance(message, Done) else None

    lockstep.run(made, CARTPOLE(), heard)
    assert snapshots(told) == snapshots(expected)
    assert len(snapshots(told)) > 1


def test_a_message_takes_the_latency_and_its_size_over_the_bandwidth():
    """One actor on another node than its learner: a round is its fragment, the round of updates, and a way there and back."""
    made = config(actors=2, discipline="strict", buffer=False, placement="apart")
    machine = Machine(latency_seconds=0.02, link_bytes_per_s=1e5)
    simulation, _ = ran(made, Constant((0.1, 0.3), 0.05), 100.0, machine=machine, nodes=2)
    edge = simulation.processes["actor g0.a1"].hosts[0].outlets["chunks"]
    weights = simulation.processes["learner g0"].hosts[0].weights_out
    chunk_s = (128 + edge.spec.layout.size_bytes(0)) / 1e5
    # Credit follows the weights, which are larger: it waits for them at the link.
    back_s = (4 * weights.parameters + 64) / 1e5
    whole = 0.3 + 0.02 + chunk_s + 0.05 + 0.02 + back_s
    assert rounds(simulation) == pytest.approx(100 / whole, abs=1)


def test_a_slow_link_skips_weights_and_queues_none():
    # Weights are much larger than chunks.
    network = NetworkConfig(kind="mlp-separate", hidden=(64, 64))
    made = config(actors=2, discipline="relaxed", chunk_slots=8, buffer=False, placement="apart", network=network)
    weights_s = 0.5
    parameters = ran(made, Constant((0.05,), 0.01), 1.0)[0].processes["learner g0"].hosts[0].weights_out.parameters
    machine = Machine(latency_seconds=0.001, link_bytes_per_s=4 * parameters / weights_s)
    simulation, _ = ran(made, Constant((0.05,), 0.01), 30.0, machine=machine, nodes=2)
    node = simulation.processes["learner g0"].node
    # Rounds are shorter than the way of the weights. The newest ones go out when those before were read.
    assert rounds(simulation) > 2 * 30 / weights_s
    assert node.out_ns - simulation.now_ns < 1.1 * weights_s * 1e9
    # The link is busy all the time, but for a fragment in which nobody reads, and a question.
    assert node.out_busy_ns > 0.8 * 30e9


def test_processes_share_the_cores_of_a_node():
    times = Constant((0.2,), 0.0, computed=True)
    made = config(discipline="relaxed", chunk_slots=8, placement="apart", buffer=False)
    whole, _ = ran(made, times, 30.0, machine=Machine(cores=8))
    half, _ = ran(made, times, 30.0, machine=Machine(cores=2))
    assert rounds(whole) == pytest.approx(150, abs=2)
    assert rounds(half) == pytest.approx(75, abs=3)


def test_who_gets_messages_computes_for_them():
    """Strict: a fragment, its message, the updates, and a message back, of which each end does its half."""
    made = config(actors=1, discipline="strict", buffer=False, placement="apart")
    free, costly = (
        ran(made, Constant((0.1,), 0.05), 100.0, machine=Machine(message_seconds=seconds))[0] for seconds in (0.0, 0.02)
    )
    messages = costly.messages / rounds(costly)
    assert messages >= 2
    assert 0.15 * rounds(free) == pytest.approx(100, rel=0.01)
    # The sender's half always delays the round, and the receiver's half only where the round waits for it.
    whole = 100 / rounds(costly)
    assert 0.15 + 2 * 0.02 <= whole <= 0.15 + messages * 0.02


def test_groups_that_wait_take_the_time_of_the_slowest_and_the_root_s():
    made = config(groups=3, actors=1, discipline="strict")
    simulation, _ = ran(made, Constant((0.1, 0.2, 0.3), 0.05, mean_s=0.02), 100.0, nodes=3)
    # Each group adopts the mean in as much time as the Root takes to compute it.
    assert rounds(simulation) == pytest.approx(100 / (0.3 + 0.05 + 2 * 0.02), abs=1)


def test_accounts_are_of_the_clock_of_events():
    simulation, told = ran(config(discipline="strict", stop_steps=1280), Constant((0.1, 0.1, 0.1, 0.4), 0.05))
    reports = {message.role: message for message in told if isinstance(message, Report)}
    whole = simulation.now_ns / 1e9
    assert whole == pytest.approx(10 * 0.45, rel=0.15)
    assert reports["learner g0"].busy_s["update"] == pytest.approx(10 * 0.05)
    assert reports["actor g0.a3"].wait_s["simulator"] == pytest.approx(10 * 0.4, rel=0.11)
    assert reports["actor g0.a1"].wait_s["weights"] == pytest.approx(10 * 0.35, rel=0.11)


def test_an_equal_simulation_repeats():
    def told():
        _, found = ran(config(discipline="relaxed", stop_steps=2048), Constant((0.3, 0.1, 0.15, 0.2), 0.1))
        return [(m.role, m.counters) for m in found if isinstance(m, Report)]

    assert told() == told()


def test_a_replay_is_trained_on_while_actors_sample():
    dqn = DQNConfig(train_every_steps=32, updates=4, batch_size=8, replay_capacity=400, learning_starts=64)
    made = config(algo="dqn", dqn=dqn, network=NetworkConfig(kind="mlp-q", hidden=(8,)), chunk_slots=8, stop_steps=3200)
    simulation, _ = ran(made, Constant((0.1,), 0.08))
    # 32 steps of four actors take a tenth of a second, and learning is faster.
    assert simulation.now_ns / 1e9 == pytest.approx(100 * 0.1, rel=0.15)
    assert rounds(simulation) >= 95


def test_time_stops_where_it_is_told_and_goes_on():
    simulation, _ = ran(config(discipline="strict"), Constant((0.1,) * 4, 0.1), 5.0)
    before = rounds(simulation)
    simulation.run(5.0)
    assert simulation.now_ns == 10_000_000_000
    assert rounds(simulation) == pytest.approx(2 * before, abs=1)


def test_a_run_in_which_nobody_hears_anything_is_a_deadlock():
    simulation = Simulation(config(discipline="strict"), CARTPOLE(), Constant((0.1,), 0.1))
    for process in simulation.processes.values():
        process.rings = lambda host, end: False
    with pytest.raises(lockstep.Deadlock, match="waits for"):
        simulation.run()
