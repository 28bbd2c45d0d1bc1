"""The balance of production and consumption, under any order of events."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tianji.disciplines.balance import CALM_ROUNDS, Balance


class System:
    """Actors, a buffer that gathers, and a learner with or without a replay, moved by hand one event at a time."""

    def __init__(self, balance, *, batch, holds_slots):
        self.balance, self.batch, self.holds_slots = balance, batch, holds_slots
        self.actors = [balance.first_credit] * balance.producers
        """Credit of each."""
        self.buffer, self.here = [], []
        """Owners of chunks at the buffer, and of slots that the learner reads."""
        each = balance.slots // balance.producers
        self.idle = [a for a in range(balance.producers) for _ in range(each - balance.first_credit)]
        self.training = []
        self.busy = False
        self.rounds, self.inserted = 0, 0
        self.widest = balance.window

    def lacks_samples(self):
        return not self.busy and not self.balance.may_train()

    def waits(self):
        """Whether the learner has nothing to do while an actor that has a slot here has no credit."""
        return self.lacks_samples() and any(self.actors[a] == 0 for a in self.idle)

    def moves(self):
        b = self.balance
        possible = {
            "produce": any(self.actors),
            "forward": len(self.buffer) >= self.batch,
            "grant": bool(self.idle) and b.may_grant(),
            "begin": not self.busy and b.may_train(),
            "end": self.busy,
            "widen": self.lacks_samples() and bool(self.idle) and b.may_widen(idle_actor=self.waits()),
        }
        return [name for name, can in possible.items() if can]

    def move(self, name, chance):
        b = self.balance
        if name == "produce":
            actor = chance.choice([a for a, credit in enumerate(self.actors) if credit])
            self.actors[actor] -= 1
            self.buffer.append(actor)
            b.speeds.produced(actor, 7 * (1 + actor))
        elif name == "forward":
            for actor in self.buffer[: self.batch]:
                b.arrive(1)
                b.insert(b.chunk_samples)
                self.inserted += b.chunk_samples
                (self.here if self.holds_slots else self.idle).append(actor)
            del self.buffer[: self.batch]
        elif name == "grant":
            assert b.backlog // b.chunk_samples + b.outstanding < b.window
            actor = min(self.idle, key=lambda a: self.actors[a])
            self.idle.remove(actor)
            self.actors[actor] += 1
            b.grant()
        elif name == "begin":
            b.begin_round()
            self.busy = True
            if self.holds_slots:
                self.training, self.here = self.here[: b.round_chunks], self.here[b.round_chunks :]
        elif name == "widen":
            b.widen(idle_actor=self.waits())
        else:
            self.busy, self.rounds = False, self.rounds + 1
            self.idle += self.training
            self.training = []
            b.end_round(round(b.reuse * b.round_samples), 11)
        self.widest = max(self.widest, b.window)


@st.composite
def systems(draw):
    rounds, batch, producers = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    replay = draw(st.booleans())
    samples = draw(st.integers(1, 64))
    # A round is trained on in its slots: they and what a buffer can hold back are what it needs at least.
    each = draw(st.integers(-(-(rounds + batch - 1) // producers), 8))
    free = draw(st.integers(0, 20 * samples)) if replay else 0
    balance = Balance(
        "two-sided",
        round_chunks=rounds,
        chunk_samples=samples,
        reuse=draw(st.sampled_from([1.0, 4.0, 32.0])),
        producers=producers,
        slots=producers * each,
        batch_chunks=batch,
        lag_rounds=None if replay else draw(st.none() | st.integers(1, 8)),
        free_samples=free,
    )
    return System(balance, batch=batch, holds_slots=not replay)


@settings(max_examples=300, deadline=None)
@given(systems(), st.randoms(use_true_random=True), st.sampled_from(["any", "actors first", "learner first"]))
def test_whatever_the_order_nobody_is_stuck_and_the_ratio_stays_in_its_band(system, chance, order):
    b = system.balance
    favourites = {"any": (), "actors first": ("produce", "forward", "grant"), "learner first": ("end", "begin")}[order]
    for _ in range(400):
        moves = system.moves()
        assert moves, f"stuck with backlog {b.backlog}, {b.outstanding} outstanding, window {b.window}"
        system.move(chance.choice([m for m in moves if m in favourites] or moves), chance)
        # From the first event on.
        assert 0 <= b.backlog <= b.backlog + b.outstanding * b.chunk_samples <= system.widest * b.chunk_samples
        assert b.outstanding == sum(system.actors) + len(system.buffer)
        # Samples trained on, with the current round, never exceed the inserted ones, and lag by at most what the slots hold.
        paid = system.rounds * b.round_samples + system.busy * b.round_samples
        due = system.inserted - b.free
        assert due - b.slots * b.chunk_samples <= paid <= due
    assert system.rounds > 0
    assert b.consumed == b.reuse * system.rounds * b.round_samples
    assert b.counters()["consumption_ratio"] <= b.reuse


@settings(max_examples=200, deadline=None)
@given(systems(), st.randoms(use_true_random=True))
def test_no_actor_waits_for_a_slower_one(system, chance):
    """While the learner lacks samples, an actor without credit gets some as soon as the learner has seen to what it can do.

    The slowest actor never delivers here: all others go on, up to the memory that there is.
    """
    b = system.balance
    if b.producers == 1:
        return
    stuck = b.producers - 1
    for _ in range(300):
        while own := [m for m in system.moves() if m in ("forward", "begin", "end", "grant", "widen")]:
            system.move("end" if "end" in own else own[0], chance)
        if b.window < b._most:
            assert not system.waits()
        going = [a for a in range(stuck) if system.actors[a]]
        if not going:
            break
        actor = chance.choice(going)
        system.actors[actor] -= 1
        system.buffer.append(actor)
        b.speeds.produced(actor, 1)
    others = (b.producers - 1) * (b.slots // b.producers)
    if others >= b.round_chunks + b._least - b.round_chunks and b._most == b.slots:
        assert system.rounds * b.round_chunks > 100, "they trained on without it"


def balance(mode="two-sided", rounds=2, producers=20, slots=40, **more):
    return Balance(mode, round_chunks=rounds, chunk_samples=10, reuse=3, producers=producers, slots=slots, **more)


@pytest.mark.parametrize(
    ("produce", "train", "chunks"), [(1, 100, 2), (100, 100, 2), (100, 50, 4), (100, 30, 7), (1000, 1, 40)]
)
def test_the_window_is_the_bandwidth_delay_product(produce, train, chunks):
    b = balance(producers=4)
    assert b.window == 9, "before anything is measured nobody idles: two chunks of each actor, and a round less one"
    for _ in range(400):
        b.speeds.produced(0, produce)
        b.speeds.trained(train)
    # n * t_produce / t_round, rounded up, at least a round, at most the slots.
    assert b.window == chunks


def test_the_first_credit_is_within_the_first_window():
    b = balance(producers=4, slots=64, rounds=4)
    assert (b.window, b.first_credit, b.outstanding) == (11, 2, 8)
    assert balance("one-sided", producers=4, slots=64).outstanding == 64
    # A chunk of each is the least, whatever the window.
    assert balance(producers=40, slots=40, rounds=1).first_credit == 1


def test_starving_widens_the_window_at_once_and_calm_narrows_it_again():
    b = balance(producers=4)
    for _ in range(30):
        b.speeds.produced(0, 1)
        b.speeds.trained(100)
    b.outstanding = b.window
    for _ in range(3):
        assert b.may_widen(idle_actor=True)
        b.widen(idle_actor=True)
        b.grant()
    assert (b.window, b.margin) == (5, 3)
    assert not b.may_widen(idle_actor=False), "it is known that this round waits"
    b.insert(20 * (2 * CALM_ROUNDS + 1))
    b.begin_round()
    assert b.starved == 1, "one round had to wait, however far the window grew for it"
    for _ in range(2 * CALM_ROUNDS):
        b.begin_round()
    assert (b.margin, b.starved) == (1, 1)


def test_a_learner_that_waits_round_after_round_gets_a_wider_window_and_one_that_waits_once_does_not():
    """Every actor has credit, in hand or on its way."""
    b = balance(producers=4)
    for _ in range(30):
        b.speeds.produced(0, 1)
        b.speeds.trained(100)
    margins = []
    for waits in (True, False, True, True, True, False):
        b.outstanding = b.window
        if waits:
            assert b.may_widen(idle_actor=False)
            b.widen(idle_actor=False)
            assert not b.may_widen(idle_actor=False)
        b.insert(20)
        b.begin_round()
        margins.append(b.margin)
    assert margins == [0, 0, 0, 1, 2, 2]
    assert b.starved == 4


def test_a_slow_round_narrows_the_window_only_until_somebody_waits():
    """A single slow round narrows the window only until the learner waits while an actor waits.

    Under the earlier rule it stayed narrow for as long as the mean remembered the round."""
    b = balance(producers=8, rounds=8, slots=64)
    for _ in range(50):
        b.speeds.produced(0, 100)
        b.speeds.trained(10)
    assert b.window == 64
    b.speeds.trained(100_000)
    assert b.window == 8
    b.outstanding = 8
    for _ in range(15):
        assert b.may_widen(idle_actor=True)
        b.widen(idle_actor=True)
        b.grant()
    assert b.window == 23


def test_a_replay_that_fills_is_not_paid_for_but_the_chunk_that_makes_it_warm_is():
    b = balance(rounds=1, free_samples=25)
    for _ in range(2):
        b.insert(10)
        assert not b.may_train()
    b.insert(10)
    assert b.may_train()
    b.begin_round()
    assert not b.may_train()
    b.end_round(30, 1)
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
        assert not b.may_widen(idle_actor=True)


def test_the_window_ends_at_the_bound_but_never_keeps_an_actor_from_its_chunk():
    """W/n rounds of others before it make a chunk that much older; what is under way when nobody idles is always allowed."""
    for lag, most in ((5, 10), (1, 7), (None, 42)):
        b = balance(producers=3, slots=42, lag_rounds=lag)
        b.outstanding = b.window
        while b.may_widen(idle_actor=True):
            b.widen(idle_actor=True)
            b.grant()
        assert b.window == most, lag


def test_the_bound_follows_the_slowest_and_what_lies_before_it():
    b = balance(producers=2, rounds=2, slots=16, lag_rounds=8)
    assert b.lag_rounds() is None
    for _ in range(200):
        b.speeds.produced(0, 100)
        b.speeds.produced(1, 390)
        b.speeds.trained(10)
    # Two chunks take 159 ns of both: in 390 ns two rounds end, in part a third; and one had begun.
    assert b.lag_rounds() == 4
    b.insert(20)
    assert b.lag_rounds() == 4, "they are the round that comes next"
    b.insert(10)
    assert b.lag_rounds() == 5
    b.insert(10_000)
    assert b.lag_rounds() == 4 + (b.window * 10 - 1) // 20, "what is beyond the window widens no bound"
