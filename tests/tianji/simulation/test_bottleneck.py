"""What binds: one case for each answer."""

import pytest

from tianji.simulation.bottleneck import Shares, binds


@pytest.mark.parametrize(
    ("shares", "answer"),
    [
        (Shares(update=0.8, samples=0.2, sampling=0.2), "learner"),
        (Shares(update=0.1, send=0.6, samples=0.3, sampling=0.3), "learner's messages"),
        (Shares(update=0.2, samples=0.8, sampling=0.5, simulators=0.3), "sampling"),
        (Shares(update=0.2, samples=0.8, sampling=0.1, simulators=0.6), "simulators"),
        (Shares(update=0.2, samples=0.8, sampling=0.1, simulators=0.2), "slowest actor"),
        (Shares(update=0.2, samples=0.8, sampling=0.1, hub_out=0.5, hub_in=0.2), "learner's link, out"),
        (Shares(update=0.2, samples=0.8, sampling=0.1, hub_out=0.2, hub_in=0.5), "learner's link, in"),
        # A group's samples stay on its node, so the Root's link is not what they wait for.
        (Shares(update=0.2, samples=0.8, sampling=0.5, hub_in=0.7, hub="Root"), "sampling"),
        (Shares(update=0.3, barrier=0.7, root=0.5, hub_in=0.1, hub_out=0.1, hub="Root"), "Root's core"),
        (Shares(update=0.3, barrier=0.7, root=0.1, hub_in=0.2, hub_out=0.4, hub="Root"), "Root's link, out"),
        (Shares(update=0.3, barrier=0.7, root=0.1, hub_in=0.4, hub_out=0.2, hub="Root"), "Root's link, in"),
        (Shares(update=0.3, barrier=0.7, root=0.1, hub_in=0.1, hub_out=0.1, hub="Root"), "slowest group"),
        # Nothing waits for the Root, but it has no time left.
        (Shares(update=0.95, root=0.97, hub="Root"), "learner; Root's core is full"),
    ],
)
def test_the_largest_part_of_the_learners_time_decides(shares, answer):
    assert binds(shares) == answer
