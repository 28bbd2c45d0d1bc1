"""The production-consumption rule, under whatever order of events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.balance import CALM_ROUNDS, Balance, Smoothed


class System:
    """Actors, a buffer that gathers, and a learner with or without a replay, moved by hand one event at a time."""

    def __init__(self, balance, *, batch, holds_slots):
        self.balance, self.batch, self.holds_slots = balance, batch, holds_slots
        self.actors, self.buffer, self.idle = balance.slots, 0, 0
        self.here, self.training = 0, False
        self.rounds, self.inserted = 0, 0

    def moves(self):
        possible = {
            "produce": self.actors > 0,
            "forward": self.buffer >= self.batch,
            "grant": self.idle > 0 and self.balance.may_grant(),
            "begin": not self.training and self.balance.may_train(),
            "end": self.training,
        }
        return [name for name, can in possible.items() if can]

    def move(self, name):
        b = self.balance
        if name == "produce":
            self.actors, self.buffer = self.actors - 1, self.buffer + 1
            b.produced.see(7)
        elif name == "forward":
            for _ in range(self.batch):
                self.buffer -= 1
                b.arrive(1)
                b.insert(b.chunk_samples)
                self.inserted += b.chunk_samples
                if not self.holds_slots or not b.warm:
                    self.idle += 1
        elif name == "grant":
            assert b.backlog // b.chunk_samples + b.outstanding < b.window
            b.grant()
            self.idle, self.actors = self.idle - 1, self.actors + 1
        elif name == "begin":
            b.begin_round()
            self.training = True
        else:
            self.training, self.rounds = False, self.rounds + 1
            if self.holds_slots:
                self.idle += b.round_chunks
            b.end_round(round(b.reuse * b.round_samples), 11, withheld=self.idle)


@st.composite
def systems(draw):
    rounds, batch = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    replay = draw(st.booleans())
    samples = draw(st.integers(1, 64))
    # A round is trained on in its slots: they and what a buffer can hold back are what it needs at least.
    slots = draw(st.integers(rounds + batch - 1, 20))
    free = draw(st.integers(0, 20 * samples)) if replay else 0
    balance = Balance(
        "two-sided",
        round_chunks=rounds,
        chunk_samples=samples,
        reuse=draw(st.sampled_from([1.0, 4.0, 32.0])),
        slots=slots,
        batch_chunks=batch,
        free_samples=free,
    )
    return System(balance, batch=batch, holds_slots=not replay)


@settings(max_examples=300, deadline=None)
@given(systems(), st.randoms(use_true_random=False), st.sampled_from(["any", "actors first", "learner first"]))
def test_whatever_the_order_nobody_is_stuck_and_the_ratio_stays_in_its_band(system, chance, order):
    b = system.balance
    favourites = {"any": (), "actors first": ("produce", "forward", "grant"), "learner first": ("end", "begin")}[order]
    for _ in range(400):
        moves = system.moves()
        assert moves, f"stuck with backlog {b.backlog}, {b.outstanding} outstanding, window {b.window}"
        system.move(chance.choice([m for m in moves if m in favourites] or moves))
        assert 0 <= b.backlog <= b.slots * b.chunk_samples
        # What has been trained on, and what is being: never more than was paid for, and behind by no more than the slots hold.
        paid = system.rounds * b.round_samples + system.training * b.round_samples
        due = system.inserted - b.free
        assert due - b.slots * b.chunk_samples <= paid <= due
    assert system.rounds > 0
    assert b.consumed == b.reuse * system.rounds * b.round_samples
    assert b.counters()["consumption_ratio"] <= b.reuse


def balance(mode="two-sided", rounds=2, slots=40, **more):
    return Balance(mode, round_chunks=rounds, chunk_samples=10, reuse=3, slots=slots, **more)


@pytest.mark.parametrize(
    ("produce", "train", "chunks"), [(1, 100, 2), (100, 100, 2), (100, 50, 4), (100, 30, 7), (1000, 1, 40)]
)
def test_the_window_is_the_bandwidth_delay_product(produce, train, chunks):
    b = balance()
    assert b.window == 40, "before anything is measured all slots are in use"
    for _ in range(400):
        b.produced.see(produce)
        b.trained.see(train)
    # n * t_produce / t_round, rounded up, at least a round, at most the slots.
    assert b.window == chunks


def test_starving_widens_the_window_and_calm_narrows_it_again():
    b = balance()
    b.produced.see(1)
    for _ in range(30):
        b.produced.see(1)
    for _ in range(3):
        b.end_round(60, 100, withheld=5)
    assert (b.margin, b.starved) == (3, 3)
    b.insert(20)
    for _ in range(2 * CALM_ROUNDS):
        b.end_round(60, 100, withheld=5)
    assert b.margin == 1
    # Nothing is withheld from anybody who has nothing: the actors are the slower side.
    b.withdraw(20)
    b.end_round(60, 100, withheld=0)
    assert b.margin == 1


def test_a_replay_that_fills_is_not_paid_for_but_the_chunk_that_makes_it_warm_is():
    b = balance(rounds=1, free_samples=25)
    for _ in range(2):
        b.insert(10)
        assert not b.may_train()
    b.insert(10)
    assert b.may_train()
    b.begin_round()
    assert not b.may_train()
    b.end_round(30, 1, withheld=0)
    assert b.counters()["consumption_ratio"] == b.counters()["consumption_ratio_target"] == 3


def test_off_lets_the_learner_train_without_samples_and_one_sided_does_not():
    for mode, free in (("off", True), ("one-sided", False)):
        b = balance(mode, rounds=1)
        assert not b.may_train()
        b.insert(10)
        b.begin_round()
        assert b.may_train() == free
        b.backlog = 10**6
        assert b.may_grant()


def test_the_window_leaves_no_chunk_to_grow_older_than_the_bound():
    b = balance(lag_rounds=3)
    assert b.window == 6
    b.produced.see(1000)
    b.trained.see(1)
    assert b.window == 6
    # Less than a round and what a buffer holds back would stop the flow: chunks beyond the bound are then evicted.
    assert balance(lag_rounds=1, batch_chunks=4).window == 5


def test_smoothing_follows_the_rfc():
    # RFC 6298: SRTT = 7/8 SRTT + 1/8 R.
    s, mean = Smoothed(), None
    for r in [100.0, 300.0, 120.0, 80.0]:
        mean = r if mean is None else 0.875 * mean + 0.125 * r
        s.see(r)
        assert s.mean == pytest.approx(mean)
