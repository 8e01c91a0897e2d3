"""Heads of learning with rounding written from the formulas in whole numbers: the other side of the comparisons."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from attention import AttentionLayer

Heads = list[tuple[Fraction, Fraction]]
"""Threshold and coefficient of each head."""


def label(t: int, q: int, p: int) -> int:
    """f(T) = floor(p (T mod q) / q)."""
    return p * (t % q) // q


def ends(v: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest <v, a> over bits a."""
    return sum(one for one in v if one < 0), sum(one for one in v if one > 0)


def jumps(low: int, high: int, q: int, p: int) -> Heads:
    """One head at T + 1/2 with half the step of f, for each T in [low, high) where f steps."""
    steps = [(t, label(t + 1, q, p) - label(t, q, p)) for t in range(low, high)]
    return [(t + Fraction(1, 2), Fraction(step, 2)) for t, step in steps if step]


def pads(v: Sequence[int], q: int, p: int, share: Fraction) -> Heads:
    """The two pads; `share` is 1/2 in the formula for their coefficients."""
    low, high = ends(v)
    total = sum(coefficient for _, coefficient in jumps(low, high, q, p))
    middle = Fraction(label(low, q, p) + label(high, q, p), 2)
    centre = Fraction(p - 1, 2)
    return [
        (low - Fraction(1, 2), share * (middle - centre - total)),
        (high + Fraction(1, 2), share * (centre - middle - total)),
    ]


def layer_of(v: Sequence[int], heads: Heads, beta: float, *, ternary: bool = False) -> AttentionLayer:
    """Theta_i = beta (diag(0, v) - t_i e_1 e_1^T), or beta (e_1 (0, v)^T - t_i e_1 e_1^T); W_i = c_i e_1 e_1^T."""
    d = len(v) + 1
    theta, w = np.zeros((2, len(heads), d, d))
    for i, (threshold, coefficient) in enumerate(heads):
        if ternary:
            theta[i, 0, 1:] = beta * np.array(v)
        else:
            theta[i] = beta * np.diag([0, *v])
        theta[i, 0, 0] -= beta * float(threshold)
        w[i, 0, 0] = float(coefficient)
    return AttentionLayer(theta=theta, w=w)


def tokens(number: int, n: int, rng: Generator) -> np.ndarray:
    """Random token pairs; those with number alternate between on the gate and off it."""
    x = rng.choice([-1.0, 1.0], size=(number, 2, n + 1))
    x[:, 1, 0] = np.where(np.arange(number) % 2 == 0, -x[:, 0, 0], x[:, 0, 0])
    return x


def targets(x: np.ndarray, v: Sequence[int], q: int, p: int, *, ternary: bool = False) -> np.ndarray:
    """Row r is x_r1 (f(T) - (p - 1)/2) e_1 on the gate and 0 off it, by a loop over whole numbers."""
    found = np.zeros_like(x)
    for example, (one, other) in enumerate(x.astype(int).tolist()):
        if one[0] == other[0]:
            continue
        t = 0
        for entry, left, right in zip(v, one[1:], other[1:], strict=True):
            t += int(entry) * (one[0] * (left - right) // 2 if ternary else int(left != right))
        for row, token in enumerate((one, other)):
            found[example, row, 0] = token[0] * (label(t, q, p) - (p - 1) / 2)
    return found


def uniform_secret(n: int, q: int, rng: Generator) -> list[int]:
    """Residues, centred in (-q/2, q/2]."""
    return [int(one) - q if 2 * int(one) > q else int(one) for one in rng.integers(q, size=n)]


def all_bits(n: int) -> np.ndarray:
    """All 2^n vectors of bits, one a row."""
    return np.arange(2**n)[:, None] >> np.arange(n) & 1
