"""Work of buffers and learners in proportion to their producers, counted in operations of the interpreter."""

import itertools
import sys

import pytest
from rules import rule

from tianji.messages import ChunkHeader, SlotRef
from tianji.roles.buffer import Buffer
from tianji.roles.learner import Learner
from tianji.roles.role import Arrived, Begin, PublishWeights, Work, WorkDone
from tianji.roles.updating import UpdateDone

ROUNDS = 3


def operations(call):
    """Operations of the interpreter within a call."""
    done = 0

    def count(frame, event, argument):
        nonlocal done
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        done += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return done


def chunk(producer, sequence, version=0, *, last=False):
    return ChunkHeader(producer, sequence, version, 7, 8, 0, 64, SlotRef(producer, sequence % 4), 100, last=last)


def of_buffer(name, producers):
    """Operations of a buffer that gets rounds of chunks, one by one."""
    buffer = Buffer("buffer", rule(name, producers=producers, round_chunks=producers, gathered=producers))
    arrivals = [Arrived("chunks", [chunk(p, n)]) for n in range(ROUNDS) for p in range(producers)]
    found = operations(lambda: [buffer.handle(arrival) for arrival in arrivals])
    assert buffer.forwarded == ROUNDS * producers
    return found


class Fed:
    """A learner that gets chunks one by one.

    Parameters
    ----------
    behind
        publications of weights since those that made the chunks.
    training
        rounds of chunks that arrive while it trains.
    """

    def __init__(self, producers, name, options, behind=0, training=0, **facts):
        discipline = rule(name, options, **{"producers": producers, "round_chunks": producers, **facts})
        replays = discipline.facts.replays
        self.role = Learner(
            "learner",
            port="batches",
            layout=7,
            discipline=discipline,
            replays=replays,
            budget_steps=1 << 40,
            snapshot_every_steps=None,
        )
        self.producers, self.behind, self.training = producers, behind, training
        self.versions, self.sequence, self.works = [], [0] * producers, []
        self.does(self.role.handle(Begin()))

    def does(self, effects):
        for effect in effects:
            if isinstance(effect, PublishWeights) and not effect.closing:
                self.versions.append(effect.version)
            elif isinstance(effect, Work):
                self.works.append(effect.argument)

    def send(self, producer, *, last=False):
        version = self.versions[max(0, len(self.versions) - 1 - self.behind)]
        one = chunk(producer, self.sequence[producer], version, last=last)
        self.sequence[producer] += 1
        self.does(self.role.handle(Arrived("batches", [one])))
        while self.works and len(self.role.intake.pending) >= self.training * self.producers:
            work = self.works.pop()
            self.does(self.role.handle(WorkDone(UpdateDone(work.chunks, int(work.train), 8), took_ns=1000)))


def one_after_the_other(fed):
    for _, producer in itertools.product(range(ROUNDS), range(fed.producers)):
        fed.send(producer)


def one_is_late(fed):
    """All others have sent two chunks before it sends its first."""
    for _ in range(ROUNDS):
        for producer in (*range(1, fed.producers), *range(1, fed.producers), 0, 0):
            fed.send(producer)


def handed_over(fed):
    """A round closes with the fragments of half of the actors, and then each hands over what it has."""
    for _ in range(ROUNDS):
        for producer in range(fed.producers // 2 + 1):
            fed.send(producer)
        for producer in range(fed.producers):
            fed.send(producer, last=True)


CASES = {
    "strict": (one_after_the_other, "strict", {}, {}),
    "relaxed": (one_after_the_other, "relaxed", {}, {}),
    # A learner that is slower than its actors: chunks are overtaken while they wait.
    "chunks that wait": (one_after_the_other, "one-sided", {"lag_rounds": 1}, {"behind": 1, "training": 1}),
    "in order": (one_is_late, "admitted-in-order", {"eta": 1}, {}),
    "quota-free": (handed_over, "quota-free", {}, {}),
    "stream": (one_after_the_other, "stream", {}, {"one_step": True}),
    "a replay with a round for each chunk": (
        *(one_after_the_other, "relaxed", {}),
        {"round_chunks": 1, "replays": True, "corrects": False},
    ),
}


def of_learner(case, producers):
    feed, name, options, more = CASES[case]
    fed = Fed(producers, name, options, **more)
    found = operations(lambda: feed(fed))
    assert fed.role.rounds > 0
    assert (fed.role.intake.staleness.evicted_chunks > 0) == (case == "chunks that wait")
    return found


@pytest.mark.parametrize("name", ["strict", "relaxed"])
def test_a_buffer_does_as_much_for_each_chunk_of_four_times_as_many_producers(name):
    assert of_buffer(name, 64) < 1.1 * 4 * of_buffer(name, 16)


@pytest.mark.parametrize("case", CASES)
def test_a_learner_does_as_much_for_each_chunk_of_four_times_as_many_producers(case):
    # Heaps and binary searches add a logarithm.
    assert of_learner(case, 64) < 1.1 * 4 * of_learner(case, 16)
