"""Rounds whose chunks differ in length: what was lived in one piece, cut at arbitrary rows, against a slow loop."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.xingtian.collation import collate
from tianji.algorithms import impala, ppo, updaters
from tianji.algorithms.networks import ActorCritic
from tianji.config import IMPALAConfig, PPOConfig, TrainConfig
from tianji.environments.description import EnvDescription
from tianji.layout import rollout_layout, shortened

STEPS = 12
DESCRIBE = EnvDescription("x", (3,), "<f4", 0, 3)
NETWORK = ActorCritic(3, (8,), 3)
WEIGHTS = NETWORK.initialise(0) + 0.3 * np.random.default_rng(0).normal(size=NETWORK.size).astype(np.float32)
BLOCKS = NETWORK.views(WEIGHTS)
PPO = PPOConfig(gamma=0.9, gae_lambda=0.8)
IMPALA = IMPALAConfig(gamma=0.9, vtrace_lambda=0.8, rho_clip=1.2, c_clip=0.9)


def lived(rng, environments):
    """STEPS of each environment in a slot of its own size; a last observation for every step, as if all were truncated."""
    layout = rollout_layout(STEPS, environments, (3,), "<f4", behaviour=True)
    chunk = layout.views(bytearray(layout.capacity_bytes))
    for name in ("observation", "reward", "final_observation"):
        chunk[name][...] = rng.normal(size=chunk[name].shape)
    chunk["action"][...] = rng.integers(0, 3, chunk["action"].shape)
    chunk["log_probability"][...] = -1.1 + 0.3 * rng.normal(size=chunk["action"].shape)
    draw = rng.random(chunk["action"].shape)
    chunk["terminated"][...], chunk["truncated"][...] = draw < 0.1, draw > 0.9
    return chunk


def piece(chunk, first, end):
    """These steps as a chunk that was cut: the rest of its slot holds what was there before."""
    environments = chunk["action"].shape[1]
    layout = rollout_layout(STEPS, environments, (3,), "<f4", behaviour=True)
    slot = layout.views(bytearray(b"\x01" * layout.capacity_bytes))
    for name in slot:
        if name != "final_observation":
            rows = end - first + (name == "observation")
            slot[name][:rows] = chunk[name][first : first + rows]
    skipped, kept = (np.count_nonzero(chunk["truncated"][part]) for part in (slice(first), slice(first, end)))
    slot["final_observation"][:kept] = chunk["final_observation"][skipped : skipped + kept]
    return shortened(slot, end - first)


def slowly(chunk, rule):
    """By feature vector, what a rule's batch has to hold of each row: one environment after another, in Python."""
    t_max, b_max = chunk["action"].shape
    of_finals = iter(chunk["final_observation"])
    last = {place: next(of_finals) for place in zip(*map(list, np.nonzero(chunk["truncated"])), strict=True)}
    rows = {}
    for b in range(b_max):
        above = after = 0.0
        for t in range(t_max - 1, -1, -1):
            value, following = (
                float(NETWORK.values(BLOCKS, x[None])[0])
                for x in (chunk["observation"][t, b], last.get((t, b), chunk["observation"][t + 1, b]))
            )
            terminated, ended = chunk["terminated"][t, b], chunk["terminated"][t, b] or chunk["truncated"][t, b]
            logits = NETWORK.scores(BLOCKS, chunk["observation"][t, b][None])[0].astype(np.float64)
            now = logits[chunk["action"][t, b]] - np.log(np.exp(logits).sum())
            behaviour = float(chunk["log_probability"][t, b])
            ratio = np.exp(now - behaviour)
            delta = float(chunk["reward"][t, b]) + (0 if terminated else 0.9 * following) - value
            if ended:
                above = after = 0.0
            if rule == "impala":
                rho, c = min(1.2, ratio), min(0.9, ratio)
                advantage, log_probability = rho * (delta + 0.9 * after), now
                after = above = rho * delta + 0.9 * 0.8 * c * above
            else:
                weight = 1.0 if rule == "ppo" else min(1.0, ratio)
                advantage, log_probability = delta + 0.9 * 0.8 * above, now if rule == "decoupled" else behaviour
                above = weight * delta + 0.9 * 0.8 * weight * above
            rows[chunk["observation"][t, b].tobytes()] = (
                chunk["action"][t, b], log_probability, advantage, value + above, value, ratio if rule == "decoupled" else 1.0
            )  # fmt: skip
    return rows


def assessed(rule, chunks):
    if rule == "impala":
        return impala.assess(chunks, lambda x: NETWORK.both(BLOCKS, x), DESCRIBE, IMPALA)
    if rule in ("stale", "decoupled"):
        config = PPO if rule == "stale" else msgspec.structs.replace(PPO, correction=rule)
        return ppo.assess_stale(chunks, lambda x: NETWORK.both(BLOCKS, x), DESCRIBE, config)
    return ppo.assess(chunks, lambda x: NETWORK.values(BLOCKS, x), DESCRIBE, PPO)


def by_features(batch):
    value = [0.0] * len(batch) if batch.value is None else batch.value
    weight = np.ones(len(batch)) if batch.weight is None else batch.weight
    columns = (batch.action, batch.log_probability, batch.advantage, batch.value_target, value, weight)
    return {x.tobytes(): row for x, *row in zip(batch.features, *columns, strict=True)}


@pytest.mark.long(why="a network learns")
@pytest.mark.parametrize("rule", ["ppo", "stale", "decoupled", "impala"])
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 3), st.integers(0, STEPS)), min_size=1, max_size=4))
def test_cut_chunks_are_bootstrapped_at_their_cuts(rule, seed, producers):
    rng = np.random.default_rng(seed)
    whole, pieces, expected = [], [], {}
    for environments, cut in producers:
        chunk = lived(rng, environments)
        whole.append(chunk)
        for first, end in ((0, cut), (cut, STEPS)):
            if first < end:
                pieces.append(piece(chunk, first, end))
                expected |= slowly(pieces[-1], rule)
    batch = assessed(rule, pieces)
    found, uncut = by_features(batch), by_features(assessed(rule, whole))
    assert len(batch) == len(expected) == len(uncut)
    assert found.keys() == expected.keys() == uncut.keys()
    for x, row in expected.items():
        np.testing.assert_allclose(found[x][:4], row[:4], rtol=1e-4, atol=1e-4)
        # A cut moves no column but those that look ahead.
        np.testing.assert_allclose(found[x][:2], uncut[x][:2], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[x][4:], uncut[x][4:], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[x][5], row[5], rtol=1e-4)
        if rule != "impala":
            np.testing.assert_allclose(found[x][4], row[4], rtol=1e-4, atol=1e-5)
    for chunk, (_, cut) in zip(whole, producers, strict=True):
        for observation in chunk["observation"][cut:-1].reshape(-1, 3):
            # What comes after a cut has the same future as before.
            np.testing.assert_allclose(
                found[observation.tobytes()][2:4], uncut[observation.tobytes()][2:4], rtol=1e-4, atol=1e-5
            )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, STEPS), min_size=1, max_size=4))
def test_cut_chunks_that_their_producers_assessed_are_collated(seed, lengths):
    rng = np.random.default_rng(seed)
    chunks = [dict(piece(lived(rng, 2), 0, length)) for length in lengths]
    for chunk in chunks:
        batch = assessed("ppo", [chunk])
        chunk |= {name: getattr(batch, name).reshape(chunk["action"].shape) for name in ("advantage", "value")}
    whole, collated = assessed("ppo", chunks), collate(chunks, DESCRIBE)
    for name, column in vars(whole).items():
        if name == "weight":
            assert getattr(collated, name) is column is None
            continue
        np.testing.assert_allclose(getattr(collated, name), column, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_a_ragged_round_trains_on_all_of_its_rows(algo):
    config = TrainConfig(env="x", algo=algo, ppo=PPOConfig(minibatch_size=16, epochs=2))
    updater = updaters.make_updater(config, NETWORK, WEIGHTS)
    made = (
        ppo.PPO(updater, DESCRIBE, config.ppo, 1000, 0)
        if algo == "ppo"
        else impala.IMPALA(updater, DESCRIBE, config.impala, 1000)
    )
    seen, step = [], updater.step
    updater.step = lambda batch, rate: (seen.append(len(batch)), step(batch, rate))
    rng = np.random.default_rng(0)
    chunks = [piece(lived(rng, 3), 0, length) for length in (12, 5, 12, 7)]
    assert made.update(chunks, 0, stale=True) == len(seen)
    assert seen == ([16] * 6 + [12]) * 2 if algo == "ppo" else [108]
