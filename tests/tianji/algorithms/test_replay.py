"""The replay against a list of episodes that forgets nothing, fed with the same chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from baselines.certificate import transitions_of
from tianji.algorithms.replay import Experience, Replay
from tianji.environments.description import EnvDescription
from tianji.environments.vector import Stacks
from tianji.layout import rollout_layout, shortened


def seen(shape, dtype, stack=1):
    return EnvDescription("x", shape, dtype, 0, 2, stack)


class World:
    """Environments whose every observation is a number of its own, chopped into chunks as a sampler does.

    `lived` holds, for each environment, every transition as it was lived: (stack, action, next stack or None where the
    episode terminated).
    """

    def __init__(self, rng, environments, stack, first_number=0):
        self.rng, self.stack, self.environments = rng, stack, environments
        self.number, self.action, self.sequence = first_number, 0, -1
        self.episodes = [[self.fresh()] for _ in range(environments)]
        self.rolling = Stacks(self.latest(), stack)
        self.lived = [[] for _ in range(environments)]

    def fresh(self):
        self.number += 1
        return self.number

    def latest(self):
        return np.array([[episode[-1]] for episode in self.episodes], np.int32)

    def seen(self, episode):
        """The last S observations of an episode, its first one repeated in front."""
        return ([episode[0]] * self.stack + episode)[-self.stack :]

    def chunk(self, steps, ends, most=None):
        """Make a chunk of `steps` steps of every environment. If a slot holds more, the rest is meaningless."""
        layout = rollout_layout(most or steps, self.environments, (1,), "<i4", behaviour=False, stack=self.stack)
        views = layout.views(bytearray(b"\x01" * layout.capacity_bytes))
        history = self.stack - 1
        if history:
            views["observation"][: self.stack] = self.rolling.seen.swapaxes(0, 1)
            views["age"][:] = self.rolling.age
        else:
            views["observation"][0] = self.rolling.seen
        ragged = 0
        for t in range(steps):
            begun = np.zeros(self.environments, bool)
            for b, episode in enumerate(self.episodes):
                before, draw = self.seen(episode), self.rng.random()
                self.action += 1
                episode.append(self.fresh())
                terminated, truncated = draw < ends / 2, ends / 2 <= draw < ends
                views["action"][t, b], views["reward"][t, b] = self.action, -self.action
                views["terminated"][t, b], views["truncated"][t, b] = terminated, truncated
                self.lived[b].append((before, self.action, None if terminated else self.seen(episode)))
                if truncated:
                    views["final_observation"][ragged] = episode[-1]
                    ragged += 1
                if terminated or truncated:
                    episode[:] = [self.fresh()]
                    begun[b] = True
            views["observation"][history + t + 1] = self.latest()
            self.rolling.push(self.latest(), begun)
        self.sequence += 1
        return shortened(views, steps)


def drawn_from(replay, count=4000, seed=0):
    """What draws bring up, by action."""
    drawn = replay.draw(np.random.default_rng(seed), count)
    found = {}
    for i, action in enumerate(drawn["action"].tolist()):
        assert drawn["reward"][i] == -action
        following = None if drawn["terminated"][i] else drawn["next_observation"][i].reshape(-1).tolist()
        found[action] = (drawn["observation"][i].reshape(-1).tolist(), following)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=12),
    st.integers(20, 60),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_what_is_drawn_was_lived_and_all_that_is_recent_is_drawn(seed, stack, environments, chunks, rows, ends):
    rng = np.random.default_rng(seed)
    worlds = [World(rng, environments, stack, 10_000 * p) for p in range(2)]
    replay = Replay(rows * 2 * environments, 2 * environments, seen((1,), "<i4", stack))
    kept = [[] for _ in range(2 * environments)]
    for producer, world in enumerate(worlds):
        world.action = 10_000 * producer
    for k, (steps, lost) in enumerate(chunks):
        for producer, world in enumerate(worlds):
            before = [len(lived) for lived in world.lived]
            views = world.chunk(steps, ends, most=9)
            # One producer's chunks are lost at times; a first one arrives, so that there is something to draw.
            if not (lost and producer and k):
                replay.insert(Experience(views, producer, world.sequence))
                for b, lived in enumerate(world.lived):
                    kept[producer * environments + b] += lived[before[b] :]
    found = drawn_from(replay)
    lived = {action: (stacked, following) for rows_of in kept for stacked, action, following in rows_of}
    for action, transition in found.items():
        assert transition == lived[action], "what was drawn was not lived like that"
    recent = set()
    for rows_of in kept:
        # Rows beside transitions take room: one for each truncation, and S for each gap.
        room = rows - sum(stack for _, lost in chunks if lost) - sum(1 for _ in rows_of) * (ends > 0)
        recent |= {action for _, action, _ in rows_of[-room:]} if room > 0 else {rows_of[-1][1]}
    assert recent <= set(found), "what is recent was never drawn"
    assert replay.size >= len(found)


@pytest.mark.parametrize("stack", [1, 4])
def test_without_truncations_it_keeps_the_capacity_exactly(stack):
    world = World(np.random.default_rng(0), 2, stack)
    replay = Replay(60, 2, seen((1,), "<i4", stack))
    for _ in range(20):
        replay.insert(Experience(world.chunk(7, 0.0), 0, world.sequence))
    wanted = {action for lived in world.lived for _, action, _ in lived[-30:]}
    found = set(drawn_from(replay))
    assert wanted <= found
    assert len(found) <= len(wanted) + 2 * 2


@pytest.mark.parametrize(("stack", "ends"), [(1, 0.2), (4, 0.2), (4, 0.0)])
def test_draws_are_uniform(stack, ends):
    world = World(np.random.default_rng(1), 3, stack)
    replay = Replay(120, 3, seen((1,), "<i4", stack))
    for _ in range(12):
        replay.insert(Experience(world.chunk(9, ends), 0, world.sequence))
    actions = replay.draw(np.random.default_rng(2), 60_000)["action"]
    _, counts = np.unique(actions, return_counts=True)
    assert len(counts) > 80
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("recent", [0.0, 0.6, 1.0])
def test_recent_draws_are_uniform_over_the_newest_of_each_environment(recent):
    world, replay = World(np.random.default_rng(3), 2, 1), Replay(100, 2, seen((1,), "<i4"))
    for _ in range(5):
        replay.insert(Experience(world.chunk(10, ends=0.0), 0, world.sequence))
    newest = [action for lived in world.lived for _, action, _ in lived[-8:]]
    drawn = replay.draw(np.random.default_rng(0), 8000, recent, 15)["action"].tolist()
    within = [drawn.count(action) for action in newest]
    # Other draws are from all 100 transitions, of which these are 16.
    expected = 8000 * (recent + (1 - recent) * 0.16)
    assert sum(within) == (8000 if recent == 1 else pytest.approx(expected, abs=4 * (8000 * 0.25) ** 0.5))
    assert chisquare(within).pvalue > 1e-3
    assert recent == 1 or len(set(drawn)) == 100


def test_the_newest_part_of_a_replay_has_a_transition_wherever_episodes_end():
    """An episode that was cut after its first step leaves an observation that starts no transition as the newest row."""
    for seed in range(20):
        world, replay = World(np.random.default_rng(seed), 2, 3), Replay(60, 2, seen((1,), "<i4", 3))
        for _ in range(4):
            replay.insert(Experience(world.chunk(2, ends=0.9), 0, world.sequence))
            drawn = replay.draw(np.random.default_rng(0), 50, 1.0, 1)["action"].tolist()
            assert set(drawn) <= {action for lived in world.lived for _, action, _ in lived[-2:]}


def test_draws_follow_from_the_generator():
    world = World(np.random.default_rng(1), 2, 2)
    replay = Replay(100, 2, seen((1,), "<i4", 2))
    replay.insert(Experience(world.chunk(20, 0.3), 0, 0))
    first, again, other = (replay.draw(np.random.default_rng(seed), 50) for seed in (5, 5, 6))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["action"], other["action"])


def test_a_gap_begins_afresh_with_the_history_that_the_chunk_carries():
    world = World(np.random.default_rng(3), 1, 4)
    replay = Replay(100, 1, seen((1,), "<i4", 4))
    replay.insert(Experience(world.chunk(5, 0.0), 0, 0))
    world.chunk(5, 0.0)  # lost
    replay.insert(Experience(world.chunk(5, 0.0), 0, 2))
    lived = {action: (seen, following) for seen, action, following in world.lived[0]}
    found = drawn_from(replay)
    assert sorted(found) == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
    assert all(found[action] == lived[action] for action in found)


def test_a_chunk_that_goes_on_adds_one_row_a_step_and_one_that_does_not_adds_its_history_too():
    world = World(np.random.default_rng(3), 1, 4)
    replay = Replay(100, 1, seen((1,), "<i4", 4))
    written = []
    for sequence in (0, 1, 3):
        replay.insert(Experience(world.chunk(5, 0.0), 0, sequence))
        written.append(int(replay._written[0]))
    assert written == [6, 11, 11 + 3 + 6]
    assert replay.size == 15


def test_a_million_frames_of_atari_fit_into_seven_and_a_half_gigabytes():
    replay = Replay(1_000_000, 8, seen((84, 84), "|u1", 4))
    frames = 84 * 84 * 8 * replay.rows
    assert replay.rows * 8 >= 1_000_000
    assert replay.nbytes <= 7.5e9
    assert (replay.nbytes - frames) / (8 * replay.rows) < 16, "bytes beside each frame"
    assert replay.drawn_bytes == 5 * 84 * 84


def test_bytes_stay_bytes():
    layout = rollout_layout(3, 1, (2, 2), "|u1", behaviour=False, stack=2)
    views = layout.views(bytearray(layout.capacity_bytes))
    views["observation"][...] = np.arange(5, dtype=np.uint8)[:, None, None, None]
    replay = Replay(20, 1, seen((2, 2), "|u1", 2))
    replay.insert(Experience(views, 0, 0))
    drawn = replay.draw(np.random.default_rng(0), 8)
    assert drawn["observation"].dtype == np.uint8
    assert drawn["observation"].shape == drawn["next_observation"].shape == (8, 2, 2, 2)


@pytest.mark.parametrize(("producer", "steps", "says"), [(0, 40, "do not fit"), (2, 5, "exceeds the replay's 4 streams")])
def test_what_it_has_no_room_for_is_refused(producer, steps, says):
    world = World(np.random.default_rng(0), 2, 1)
    with pytest.raises(ValueError, match=says):
        Replay(100, 4, seen((1,), "<i4")).insert(Experience(world.chunk(steps, 0.0), producer, 0))


def test_an_empty_replay_says_so():
    with pytest.raises(ValueError, match="no transition"):
        Replay(10, 1, seen((1,), "<f4")).draw(np.random.default_rng(0), 1)


def test_a_chunks_transitions_are_those_that_were_lived():
    world = World(np.random.default_rng(8), 3, 1)
    rows = transitions_of(world.chunk(20, 0.4))
    assert rows["terminated"].any()
    lived = {action: (seen, following) for of in world.lived for seen, action, following in of}
    for i, action in enumerate(rows["action"].tolist()):
        following = None if rows["terminated"][i] else rows["next_observation"][i].tolist()
        assert (rows["observation"][i].tolist(), following) == lived[action]
