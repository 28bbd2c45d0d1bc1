"""Laws of disciplines: properties that always hold, checked over the history of a run in any order of events.

A history records when actors began fragments and which chunks learners trained on. `tianji.simulation.historian` writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tianji.disciplines.sizes import Facts, Unpublished
from tianji.disciplines.staleness import StalenessLedger


class Rule(Protocol):
    """The part of a discipline that laws use."""

    facts: Facts

    @property
    def bound(self) -> int | None: ...

    @property
    def window(self) -> int | None: ...

    @property
    def period(self) -> Unpublished: ...

    def staleness(self) -> StalenessLedger: ...


@dataclass(frozen=True)
class Began:
    """Record of an actor that began a fragment."""

    actor: str
    begun: int
    """Number of fragments that it had begun before."""
    heard: int
    """Number of versions of the weights that its learner had published by then, since it was connected."""
    in_flight: int = 0
    """Fragments of its group, including this one, that had begun and whose round had not ended."""
    handed: int = 0
    """Number of last chunks that it had sent before."""


@dataclass(frozen=True)
class Used:
    """Record of a chunk that a learner trained on or stored in a replay."""

    producer: int
    sequence: int
    behind: int
    """Rounds that its learner had completed since it published the chunk's policy."""
    last: bool = False
    """Whether its producer made no other chunk for the round."""


@dataclass(frozen=True)
class Took:
    """Record of a learner that took chunks, to train on them in a round or to store them."""

    learner: str
    rounds: int
    """Number of rounds that it had begun before."""
    chunks: tuple[Used, ...]
    since: Unpublished = field(default_factory=Unpublished)
    """Its work since it had published its weights."""


@dataclass(frozen=True)
class Published:
    """Record of a learner that published its weights after it had trained."""

    learner: str
    since: Unpublished
    """Its work since the publication before."""


@dataclass
class History:
    """Records of a run, in order, by role."""

    began: list[Began] = field(default_factory=list)
    took: list[Took] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    """By learner, the most chunks of one actor that it ever kept when it had acted on all that it knew."""


Broken = Callable[[History, Rule], Iterator[str]]
"""Function that finds where a law was broken, one line each."""


@dataclass(frozen=True)
class Law:
    """A property that always holds under a discipline."""

    text: str
    """The property in one sentence."""
    broken: Broken


def lag_at_most(rounds: int) -> Law:
    """Law: no chunk is older than `rounds` rounds when it is trained on."""
    text = "a chunk is trained on by the policy that made it" if rounds == 0 else f"no chunk is over {rounds} rounds old"

    def broken(history: History, rule: Rule) -> Iterator[str]:
        return (f"{one} is {chunk.behind} rounds old" for one, chunk in _used(history) if chunk.behind > rounds)

    return Law(f"{text} when it is used", broken) if rounds else Law(text, broken)


def lag_exactly(rounds: int) -> Law:
    """Law: every chunk is exactly `rounds` rounds old. Those of the first rounds are fresher."""

    def broken(history: History, rule: Rule) -> Iterator[str]:
        for took in history.took:
            wanted = min(rounds, took.rounds)
            yield from (f"{took.learner}: {chunk}, not {wanted} rounds old" for chunk in took.chunks if chunk.behind != wanted)

    return Law(f"a chunk is exactly {rounds} round old when it is trained on (0 in the first round)", broken)


def waits_for_weights(ahead: int) -> Law:
    """Law: an actor has begun at most `ahead` - 1 more fragments than it has received versions of the weights."""
    text = "an actor that has sent a chunk begins no other before it was given new weights"
    if ahead > 1:
        text = f"an actor begins at most {ahead - 1} fragment more than it was given weights"

    def broken(history: History, rule: Rule) -> Iterator[str]:
        return (f"{one}" for one in history.began if one.begun >= one.heard + ahead - 1)

    return Law(text, broken)


def _not_one_of_each(history: History, rule: Rule) -> Iterator[str]:
    everybody = list(range(rule.facts.producers))
    rounds: dict[tuple[str, int], list[int]] = {}
    for took in history.took:
        rounds.setdefault((took.learner, took.rounds), []).extend(chunk.producer for chunk in took.chunks)
    for (learner, number), producers in rounds.items():
        if sorted(producers) != everybody:
            yield f"{learner}, round {number}: chunks of {producers}"


one_of_each_in_a_round = Law("a round is one chunk of every actor", _not_one_of_each)


def _twice(history: History, rule: Rule) -> Iterator[str]:
    times = Counter((one.learner, chunk.producer, chunk.sequence) for one, chunk in _used(history))
    return (f"{chunk}: {n} times" for chunk, n in times.items() if n > 1)


each_chunk_once = Law("no chunk is used twice", _twice)


def _too_old(history: History, rule: Rule) -> Iterator[str]:
    bound = rule.bound
    if bound is None or rule.staleness().correct:
        return
    yield from (f"{one}: {chunk}" for one, chunk in _used(history) if chunk.behind > bound)


age_within_the_bound = Law("a chunk older than the bound is dropped or corrected for", _too_old)


def _too_many(history: History, rule: Rule) -> Iterator[str]:
    most = rule.window
    yield from (f"{one}" for one in history.began if most is not None and one.in_flight > most)


in_flight_within = Law("no more fragments than the window are in flight", _too_many)


def _not_handed_over(history: History, rule: Rule) -> Iterator[str]:
    everybody = list(range(rule.facts.producers))
    for took in history.took:
        producers = sorted(chunk.producer for chunk in took.chunks if chunk.last)
        if producers != everybody:
            yield f"{took.learner}, round {took.rounds}: last chunks of {producers}"


each_hands_over_once = Law("a round has one last chunk of every actor", _not_handed_over)


def _goes_on(history: History, rule: Rule) -> Iterator[str]:
    return (f"{one}" for one in history.began if one.handed >= one.heard)


nothing_after_handing_over = Law("an actor that has handed over begins nothing before it was given new weights", _goes_on)


def _more_than_memory(history: History, rule: Rule) -> Iterator[str]:
    most = rule.facts.producers * rule.facts.slots
    return (f"{one.learner}, round {one.rounds}: {len(one.chunks)} chunks" for one in history.took if len(one.chunks) > most)


rounds_within_memory = Law("a round has no more chunks than all actors have slots", _more_than_memory)


def _not_whole_tags(history: History, rule: Rule) -> Iterator[str]:
    everybody, tags = range(rule.facts.producers), Counter[str]()
    for took in history.took:
        tag = tags[took.learner]
        tags[took.learner] += 1
        if {(chunk.producer, chunk.sequence) for chunk in took.chunks} != {(producer, tag) for producer in everybody}:
            yield f"{took.learner}, tag {tag}: {[(chunk.producer, chunk.sequence) for chunk in took.chunks]}"


whole_tags_in_turn = Law("a learner takes a tag as a whole, one tag after the other", _not_whole_tags)


def _out_of_order(history: History, rule: Rule) -> Iterator[str]:
    for took in history.took:
        producers = [chunk.producer for chunk in took.chunks]
        if producers != sorted(producers):
            yield f"{took.learner}, round {took.rounds}: {producers}"


in_order_of_producers = Law("chunks that are taken together are handled in the order of their producers", _out_of_order)


def _off_schedule(history: History, rule: Rule) -> Iterator[str]:
    period = rule.period
    yield from (f"{one}: too early" for one in history.published if not one.since.reaches(period))
    yield from (f"{one}: its weights were due" for one in history.took if one.since.reaches(period))


weights_on_schedule = Law("weights go out at the first end of a round when they are due, and not before", _off_schedule)


def leaves_slots(room: int) -> Law:
    """A learner never keeps so many chunks of an actor that this one has fewer slots than `room` left."""

    def broken(history: History, rule: Rule) -> Iterator[str]:
        most = rule.facts.slots - room
        return (f"{learner} kept {held} chunks of one actor" for learner, held in history.held.items() if held > most)

    return Law(f"every actor has memory for {room} more chunks", broken)


def _used(history: History) -> Iterator[tuple[Took, Used]]:
    return ((one, chunk) for one in history.took for chunk in one.chunks)
