import pytest
from hypothesis import given
from hypothesis import strategies as st

from tianji.staleness import SequenceLedger, StalenessLedger


def test_a_strict_bound_evicts_any_lag_and_counts_it():
    ledger = StalenessLedger(bound=0)
    assert ledger.admit(20, 20, samples=8)
    assert not ledger.admit(20, 0, samples=5)
    counters = ledger.counters()
    assert (counters["samples_admitted"], counters["samples_evicted"], counters["chunks_evicted"]) == (8, 5, 1)
    assert counters["staleness_mean_versions"] == 10
    assert counters["staleness_max_versions"] == 20


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), min_size=1), st.none() | st.integers(0, 50))
def test_every_sample_is_admitted_or_evicted(chunks, bound):
    ledger = StalenessLedger(bound)
    for lag, samples in chunks:
        assert ledger.admit(100, 100 - lag, samples) == (bound is None or lag <= bound)
    assert ledger.admitted_samples + ledger.evicted_samples == sum(samples for _, samples in chunks)


def test_a_policy_from_the_future_is_an_error():
    with pytest.raises(ValueError, match="version 3"):
        StalenessLedger(None).admit(2, 3, 1)


def test_gaps_are_losses_and_repeats_are_duplicates():
    ledger = SequenceLedger(1000)
    for producer, sequence in [(0, 0), (1, 0), (0, 1), (0, 4), (0, 4), (1, 1)]:
        ledger.see(producer, sequence)
    assert (ledger.lost, ledger.duplicated) == (2, 1)
