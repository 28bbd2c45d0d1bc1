"""GELU in NumPy, by its tanh approximation (Hendrycks & Gimpel, 2016, arXiv 1606.08415, section 2).

GELU is x Phi(x), with Phi the normal distribution function. NumPy has no erf, so it is computed as x g. Here
g = (1 + tanh(c (x + k x^3))) / 2 and c = sqrt(2 / pi). The error is below .0005. torch calls this
`gelu(approximate="tanh")`.
"""

from __future__ import annotations

import math

import numpy as np

from tianji.algorithms.flat import Vector

CUBIC = 0.044715
"""The constant k, fitted by the paper."""
SCALE = math.sqrt(2 / math.pi)
"""The constant c."""


def gelu(x: Vector) -> None:
    """Replace x by GELU(x)."""
    square = x * x
    x *= _gate(x, square, square)


def gelu_and_slope(x: Vector, slope: Vector, scratch: Vector) -> None:
    """Replace x by GELU(x), and write GELU'(x) to `slope`. All arrays have the same shape; `scratch` is overwritten.

    With h = x g, the slope is h' = g + x g', where g' = 2 g (1 - g) (c + 3 c k x^2).
    So h' = g + s (1 - g) with s = 2 h (c + 3 c k x^2).
    """
    np.multiply(x, x, out=slope)
    g = _gate(x, slope, scratch)
    x *= g
    slope *= 6 * SCALE * CUBIC
    slope += 2 * SCALE
    slope *= x
    # g + s (1 - g) = 1 + (s - 1) (1 - g)
    np.subtract(1, g, out=g)
    slope -= 1
    slope *= g
    slope += 1


def _gate(x: Vector, square: Vector, out: Vector) -> Vector:
    """Write the factor g of GELU to `out` and return it. `square` is x^2, and may be `out`."""
    np.multiply(square, SCALE * CUBIC, out=out)
    out += SCALE
    out *= x
    np.tanh(out, out=out)
    out += 1
    out *= 0.5
    return out
