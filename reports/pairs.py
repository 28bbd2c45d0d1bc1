"""Which systems are compared with which, and in what order they are shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from suites.scaling.analysis import COPIES
from suites.statistics.summary import AGAIN
from suites.transmission.analysis import CEILINGS

REFERENCE, RELAXED = "tianji", "tianji-relaxed"
SYNCHRONOUS = ("sync", "sync-one")
"""The same code where everybody waits, with as many actors as TianJi or with one: the first that ran stands for both."""
SAME_CODE = ("xingtian",)
"""Peers made of the same code as the reference: what they differ by is discipline, not engineering."""
NODE_SYSTEMS = (
    "tianji",
    "tianji-fan-in-2",
    "tianji-fan-in-4",
    "tianji-one-learner",
    "tianji-curve",
    "xingtian",
    "rllib",
    "rllib-multi-learner",
)
"""Of the scaling suite, in the order of reading: a ratio of two has the earlier one on top."""

ORDER = (
    "tianji-strict", "tianji", "tianji-reactor", "tianji-stream", "tianji-quota-free", "tianji-exactly-one-round",
    *(f"tianji-admitted-in-order-{lag}" for lag in (0, 1, 2, 4)), *(f"tianji-admitted-{eta}" for eta in (0, 1, 2, 4, 8)),
    "tianji-admitted-interruptible-1", "tianji-relaxed", "tianji-one-sided", "tianji-free", "tianji-unbalanced",
    "tianji-periodic", "tianji-as-published", "tianji-grouped", *NODE_SYSTEMS[1:5], *SYNCHRONOUS, "xingtian", "rllib",
    "rllib-multi-learner", "rllib-old", "rllib-appo", "rllib-impala", "sample-factory", "torchrl", "sb3", "sbx", "ray-store",
    "mp-queue", "pyzmq", *CEILINGS,
)  # fmt: skip
"""Of all systems and pipes, as they are shown."""


def on_own_code(label: str) -> bool:
    """Whether a system is made of TianJi's code."""
    return label.startswith(REFERENCE) or label in (*SAME_CODE, *SYNCHRONOUS)


def first_runs(labels: Iterable[str]) -> list[str]:
    """Labels without those of second runs."""
    return [label for label in labels if not label.endswith(AGAIN)]


def with_themselves(labels: Iterable[str]) -> list[tuple[str, str]]:
    """Each system that ran twice in a block, against its second run: the noise floor."""
    return [(label.removesuffix(AGAIN), label) for label in labels if label.endswith(AGAIN)]


def synchronous(labels: Iterable[str]) -> str | None:
    """The same-code synchronous system among these."""
    return next((label for label in SYNCHRONOUS if label in set(labels)), None)


def of_training(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(faster, slower) pairs of the convergence suite: the reference, its relaxed form and the same-code synchronous system
    against every peer, the first two against the latter, and systems against themselves."""
    labels = set(labels)
    peers = first_runs(sorted(labels - {REFERENCE, *SYNCHRONOUS}))
    pairs = [(ours, waiting) for waiting in SYNCHRONOUS for ours in (REFERENCE, RELAXED)]
    for peer in peers:
        pairs += [(ours, peer) for ours in (REFERENCE, RELAXED, synchronous(labels) or "") if ours != peer]
    # What XingTian's makers claimed.
    pairs += [("xingtian", "rllib")]
    return [pair for pair in pairs + with_themselves(sorted(labels)) if labels.issuperset(pair)]


def of_balance(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(first, second) pairs of the staleness suite: the reference against everybody."""
    return [(REFERENCE, label) for label in sorted(set(labels)) if label != REFERENCE]


def of_nodes(labels: Iterable[str]) -> list[tuple[str, str]]:
    """(first, second) pairs of the scaling suite: every two systems that communicate, and each against its second run."""
    labels = set(labels)
    known = {label: at for at, label in enumerate(NODE_SYSTEMS)}
    communicating = (label for label in labels if not label.endswith((COPIES, AGAIN)))
    systems = sorted(communicating, key=lambda label: (known.get(label, len(known)), label))
    return [*itertools.combinations(systems, 2), *with_themselves(sorted(labels))]


def of_pipes(labels: Iterable[str], ceiling: str) -> list[tuple[str, str]]:
    """(first, second) pairs of the transmission suite.

    Everybody is compared with the ceiling, and TianJi with everybody and itself. There is a published claim of the
    XingTian-style system over Ray. What is encrypted has a ceiling of its own.
    """
    found = sorted(set(labels))
    pairs = [(label, ceiling) for label in first_runs(found) if ceiling in found and label != ceiling]
    if REFERENCE in found:
        pairs += [(REFERENCE, label) for label in found if label not in (REFERENCE, ceiling)]
    more = [("xingtian", "ray-store"), ("tianji-curve", "libzmq-curve")]
    return pairs + [pair for pair in more if set(found).issuperset(pair)]
