"""Streams of random numbers."""

import itertools

import numpy as np

from tianji import seeds
from tianji.algorithms import algorithm
from tianji.environments.making import describe
from tianji.seeds import Stream


def words(*arguments):
    return tuple(seeds.sequence(*arguments).generate_state(4).tolist())


def test_no_two_uses_of_a_seed_have_the_same_numbers():
    keys = [(Stream.WEIGHTS,), *((stream, n) for stream in (Stream.MINIBATCHES, Stream.REPLAY) for n in range(64))]
    keys += [(Stream.ENVIRONMENT, n) for n in range(5000)]
    keys += [(Stream.ENVIRONMENT, n, life, steps) for n, life, steps in itertools.product(range(8), (1, 2), (0, 100))]
    found = {words(seed, *key) for seed in (0, 1) for key in keys}
    assert len(found) == 2 * len(keys)


def test_an_environment_s_number_is_nobody_else_s_key(small):
    """Number 2448 is 0x990, 3473 is 0xD91, and 4631 to 4635 are 0x1217 to 0x121B: keys of other uses, before."""
    made = algorithm.make_algorithm(small(), describe("CartPole-v1"))
    minibatches = made._rng.integers(2**32, size=4).tolist()
    for number in (2448, 3473, *range(4631, 4636)):
        environment = np.random.default_rng(seeds.sequence(0, Stream.ENVIRONMENT, number))
        assert environment.integers(2**32, size=4).tolist() != minibatches
