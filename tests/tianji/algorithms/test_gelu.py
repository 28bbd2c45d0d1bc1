"""GELU against torch's."""

import numpy as np
import torch
from scipy.special import erf
from torch.nn.functional import gelu as torchs

from tianji.algorithms.gelu import gelu, gelu_and_slope

X = np.concatenate([np.linspace(-9, 9, 1801), [0.0, -0.0, 1e4, -1e4]]).astype(np.float32)


def test_values_equal_torchs_approximation():
    x = X.copy()
    gelu(x)
    np.testing.assert_allclose(x, torchs(torch.tensor(X), approximate="tanh").numpy(), rtol=1e-6, atol=1e-6)


def test_values_are_near_the_distribution_function():
    """What the module's text says of the approximation."""
    x = X[:1801].copy()
    gelu(x)
    assert np.abs(x - X[:1801] * (1 + erf(X[:1801] / np.sqrt(2))) / 2).max() < 5e-4


def test_slopes_equal_autograd():
    x, slope, point = X.copy(), np.empty_like(X), torch.tensor(X, requires_grad=True)
    gelu_and_slope(x, slope, np.empty_like(X))
    (expected,) = torch.autograd.grad(torchs(point, approximate="tanh").sum(), point)
    np.testing.assert_allclose(slope, expected.numpy(), atol=2e-6)


def test_values_are_the_same_bits_with_and_without_slopes():
    alone, x = X.copy(), X.copy()
    gelu(alone)
    gelu_and_slope(x, np.empty_like(X), np.empty_like(X))
    assert np.array_equal(alone, x)
