"""What work takes, from made-up accounts, and from those of a run in lockstep."""

import pytest

from suites.calibration import accounts
from suites.calibration.accounts import Missing, durations, halved, machine_of, overhead_s, work_of
from suites.records.events import Delays, Transfer
from tianji.config import PPOConfig, TrainConfig
from tianji.messages import Done, Report
from tianji.simulation.calibration import Calibration, Drawn
from tianji.simulation.machines import Machine
from tianji.telemetry import Account, bin_of
from tianji.topology import parameters
from tianji.worlds import lockstep

MS = 1_000_000
CONFIG = TrainConfig(
    env="CartPole-v1", envs_per_actor=4, actors=2, ppo=PPOConfig(rollout_steps=16, minibatch_size=32), stop_steps=512
)


def report(role, processor_s=0.0, **took_ms):
    account = Account()
    for name, all_ms in took_ms.items():
        for one in all_ms:
            account.record(name, int(one * MS))
    return account.report(role, {"processor_s": processor_s}, process=False)


ALONE = [
    report("actor g0.a0", 0.015, fragment=[2, 2, 3], simulator=[40]),
    report("actor g0.a1", 0.010, fragment=[4]),
    report("learner g0", 0.040, round=[10, 20]),
]
GROUPED = [report("root", mean=[0.02, 0.06]), report("learner g0", adoption=[0.3]), report("learner g1", adoption=[0.3])]


def test_accounts_of_all_roles_are_one_distribution():
    found = work_of(CONFIG, 99, ALONE, GROUPED)
    (fragment,), (trained,) = found.fragments, found.rounds
    assert (fragment.steps, fragment.environments, trained.samples, found.parameters) == (16, 4, 128, 99)
    assert trained.reuse == CONFIG.ppo.epochs
    assert fragment.compute.bins == {bin_of(2 * MS): 2, bin_of(3 * MS): 1, bin_of(4 * MS): 1}
    assert (fragment.compute.count, fragment.compute.sum_s) == (4, pytest.approx(0.011))
    assert fragment.wait is not None
    assert fragment.wait.sum_s == pytest.approx(0.04)
    assert (trained.compute.count, trained.compute.mean_s) == (2, pytest.approx(0.015))
    assert found.adoption is not None
    assert (found.adoption.count, found.adoption.mean_s) == (2, pytest.approx(0.0003))


def test_a_mean_of_two_models_is_twice_that_of_one():
    found = work_of(CONFIG, 99, ALONE, GROUPED).mean
    assert found is not None
    assert (found.count, found.sum_s) == (2, pytest.approx(0.00004))
    assert found.bins == {bin_of(10_000): 1, bin_of(30_000): 1}
    # Bins cannot fall below the first.
    assert halved(accounts.Durations(3, 6e-9, {3: 1, 20: 2})).bins == {0: 1, 4: 2}


def test_what_no_work_took_is_overhead():
    # Without the waits for a simulator, which take no processor.
    assert overhead_s(ALONE) == pytest.approx(0.065 - 0.011 - 0.030)


@pytest.mark.parametrize(("left", "says"), [(ALONE[2:], "fragment"), (ALONE[:2], "round")])
def test_a_run_that_ended_too_soon_says_what_it_lacks(left, says):
    with pytest.raises(Missing, match=says):
        work_of(CONFIG, 99, left, GROUPED)
    assert durations(left, "mean") is None


def channel(trip_ns, rate):
    mib = 1 << 20
    moved = Transfer(0, size_bytes=mib, messages=101, intervals=100, seconds=100 * mib / rate, cpu_s=0.0, tcp_bytes=None)
    percentiles = [trip_ns // 2] * 50 + [trip_ns] * 51
    return [moved, Delays(0, kind="round_trip", size_bytes=1024, count=9, percentiles_ns=percentiles)]


def test_messages_take_half_a_round_trip_and_the_speed_of_large_ones():
    found = machine_of(2, 1e-5, channel(80_000, 4e9), channel(300_000, 1e8))
    assert (found.cores, found.message_seconds, found.wake_seconds) == (2, 1e-5, pytest.approx(40e-6))
    assert found.copy_bytes_per_s == pytest.approx(4e9)
    assert (found.latency_seconds, found.link_bytes_per_s) == (pytest.approx(110e-6), pytest.approx(1e8))
    alone = machine_of(2, 1e-5, channel(80_000, 4e9))
    assert (alone.latency_seconds, alone.link_bytes_per_s) == (0, Machine().link_bytes_per_s)


def test_a_real_account_becomes_work_that_can_be_drawn():
    from tianji.environments.making import describe

    reports = []

    def hear(message):
        if isinstance(message, Report):
            reports.append(message)
        return "steps" if isinstance(message, Done) else None

    description = describe(CONFIG.env)
    lockstep.run(CONFIG, description, hear)
    found = work_of(CONFIG, parameters(CONFIG, description), reports, [])
    # 512 steps are 8 fragments of 64, and 4 rounds.
    assert (found.fragments[0].compute.count, found.rounds[0].compute.count) == (8, 4)
    times = Drawn(Calibration(Machine(), "here", {"mine": found}), "mine", CONFIG, seed=0)
    assert sum(times.round(0, 128) for _ in range(4)) == pytest.approx(found.rounds[0].compute.sum_s)
