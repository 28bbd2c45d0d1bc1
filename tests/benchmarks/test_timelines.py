"""The picture of who waits for whom, and the runs that it is made of."""

import itertools

import pytest
from elsewhere import ROOT

from benchmarks.timelines import DISCIPLINES, FRAGMENTS_S, WINDOW_S, main, recorded, title


def bars(name, **options):
    """Work by role, in the window: (start, end) of each piece."""
    found = {}
    for span in recorded({"name": name, **options}).spans:
        if span.end > WINDOW_S[0] and span.start < WINDOW_S[1]:
            found.setdefault(span.role, []).append((span.start, span.end))
    return found


def overlap(one, other):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


def test_under_a_barrier_nobody_samples_while_the_learner_trains():
    found = bars("strict")
    learner = found.pop("learner")
    assert len(found) == len(FRAGMENTS_S)
    assert all(overlap(actor, learner) == pytest.approx(0) for actor in found.values())


def test_actors_of_a_round_without_a_quota_end_together():
    found = bars("quota-free")
    learner = found.pop("learner")
    last = {
        name: {max(end for _, end in own if end <= start + 1e-9) for start, _ in learner[1:]} for name, own in found.items()
    }
    # Each ends at its own step: forty of them in a fragment.
    for name, ends in last.items():
        waits = [start - max(end for end in ends if end <= start + 1e-9) for start, _ in learner[1:]]
        assert max(waits) <= max(FRAGMENTS_S) / 40 + 1e-9, name
    assert all(overlap(actor, learner) == pytest.approx(0) for actor in found.values())


@pytest.mark.parametrize("name", ["relaxed", "one-sided", "free", "off"])
def test_actors_that_do_not_wait_have_no_gaps(name):
    found = bars(name)
    for actor in (own for role, own in found.items() if role != "learner"):
        assert all(end == pytest.approx(start) for (_, end), (start, _) in itertools.pairwise(actor))


def test_a_streaming_learner_begins_before_the_slowest_chunk():
    found = bars("stream", ahead=0)
    slowest = found[f"actor {len(FRAGMENTS_S) - 1}"]
    assert overlap(found["learner"], slowest) > 0


def test_the_committed_picture_has_every_discipline(tmp_path):
    assert main(["--out", str(tmp_path / "new.svg")]) == 0
    committed, made = (ROOT / "docs" / "images" / "disciplines.svg").read_text(), (tmp_path / "new.svg").read_text()
    for discipline in DISCIPLINES:
        assert f">{title(discipline)}<" in committed
        assert f">{title(discipline)}<" in made
    assert committed.count("<path") == made.count("<path"), "as many bars: draw it again"
