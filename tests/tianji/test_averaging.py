import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tianji.averaging import Stamp, mean, message_size, pack, stamps_of

BIG = st.integers(0, 2**63 - 1)


@given(arrays(np.float32, 5), st.tuples(*[st.builds(Stamp, BIG, BIG, BIG)] * 2))
def test_a_message_carries_any_model_and_any_stamps_bit_by_bit(model, stamps):
    message = np.full(message_size(5), np.nan, np.float32)
    pack(message, model, stamps)
    moved = np.frombuffer(message.tobytes(), np.float32)
    assert moved[:5].tobytes() == model.tobytes()
    assert stamps_of(moved) == stamps


def test_the_mean_weighs_by_samples_as_numpy_does():
    rng = np.random.default_rng(0)
    models = [rng.standard_normal(100).astype(np.float32) for _ in range(4)]
    samples = [5, 0, 70, 25]
    expected = np.average(np.array(models, np.float64), axis=0, weights=samples)
    assert np.allclose(mean(models, samples), expected, rtol=1e-6)


def test_without_samples_all_count_alike():
    assert mean([np.array([1], np.float32), np.array([4], np.float32)], [0, 0]).tolist() == [2.5]


@given(arrays(np.float32, 8, elements=st.floats(-1e3, 1e3, width=32)), st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
def test_the_mean_of_equal_models_is_that_model_to_the_bit(model, samples):
    assert np.array_equal(mean([model] * len(samples), samples), model)
