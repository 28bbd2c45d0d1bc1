"""Ledgers of staleness, loss and duplication."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.disciplines.staleness import Lag, SequenceLedger, StalenessLedger, Versions


def test_a_strict_bound_evicts_any_lag_and_counts_it():
    ledger = StalenessLedger(0)
    assert ledger.admit(Lag(0, 0), samples=8)
    assert not ledger.admit(Lag(20, 1), samples=5)
    counters = ledger.counters()
    assert (counters["samples_admitted"], counters["samples_evicted"], counters["chunks_evicted"]) == (8, 5, 1)
    assert (counters["staleness_mean_versions"], counters["staleness_max_versions"]) == (10, 20)
    assert (counters["staleness_mean_rounds"], counters["staleness_max_rounds"]) == (0.5, 1)


def test_a_mean_that_was_adopted_is_a_version_and_no_round():
    ledger = StalenessLedger(1)
    assert ledger.admit(Lag(21, 1), samples=8), "twenty optimizer steps and a mean: one round"
    assert not ledger.admit(Lag(40, 2), samples=8)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1), st.none() | st.integers(0, 50))
def test_every_sample_is_admitted_or_evicted(chunks, bound):
    ledger = StalenessLedger(bound)
    for lag, samples in chunks:
        assert ledger.admit(Lag(10 * lag, lag), samples) == (bound is None or lag <= bound)
    assert ledger.admitted_samples + ledger.evicted_samples == sum(samples for _, samples in chunks)


def test_a_bound_in_force_is_never_above_the_largest():
    ledger = StalenessLedger(4, measured=True)
    for wanted, found in ((None, 4), (2, 2), (9, 4)):
        ledger.narrow(wanted)
        assert ledger.bound == found == ledger.counters()["lag_bound_rounds"]
    never_below = StalenessLedger(16, measured=True, least=8)
    never_below.narrow(3)
    assert never_below.bound == 8
    free = StalenessLedger(None)
    free.narrow(3)
    assert free.bound is None
    assert "lag_bound_rounds" not in free.counters()


def test_a_policy_from_the_future_is_an_error():
    with pytest.raises(ValueError, match="1 versions ahead"):
        StalenessLedger(None).admit(Lag(-1, 0), 1)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4000), st.data())
def test_the_round_of_a_version_is_known_as_long_as_a_chunk_of_it_may_come(steps, data):
    """Against a table of all: producers use rising versions; what they may still use is never forgotten."""
    versions, table, published = Versions(2), {0: 0}, [0]
    versions.publish(0, 0)
    used = {0: 0, 1: 0}
    version = rounds = 0
    for step, ends_round in steps:
        version, rounds = version + step, rounds + ends_round
        versions.publish(version, rounds)
        table[version] = rounds
        published.append(version)
    for _ in range(20):
        producer = data.draw(st.sampled_from([0, 1]))
        used[producer] = data.draw(st.sampled_from([v for v in published[-200:] if v >= used[producer]] or published[-1:]))
        assert versions.use(producer, used[producer]) == table[used[producer]]


def test_what_no_actor_can_use_any_more_is_forgotten_and_what_a_slow_one_may_use_is_kept():
    versions = Versions(2)
    for version in range(5000):
        versions.publish(version, version)
        versions.use(0, version)
    assert versions.use(1, 0) == 0, "its first chunk took as long as 5,000 rounds"
    for version in range(5000, 20_000):
        versions.publish(version, version)
        versions.use(0, version)
        versions.use(1, version - 1)
    assert len(versions._versions) <= 10_000
    with pytest.raises(ValueError, match="version 3 was never published"):
        versions.rounds(3)


def test_a_chunk_that_waits_is_not_forgotten_though_its_producer_has_gone_on():
    versions = Versions(1)
    versions.publish(0, 0)
    versions.use(0, 0)
    for version in range(1, 5000):
        versions.publish(version, version, waiting=(5,) if version >= 5 else ())
        versions.use(0, version)
    assert versions.rounds(5) == 5


def test_gaps_are_losses_and_repeats_are_duplicates():
    ledger = SequenceLedger(1000)
    for producer, sequence in [(0, 0), (1, 0), (0, 1), (0, 4), (0, 4), (1, 1)]:
        ledger.see(producer, sequence)
    assert (ledger.lost, ledger.duplicated) == (2, 1)
