"""Layers that violate one non-degeneracy condition by a known amount, and no other where that is possible."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attention import (
    AttentionLayer,
    check_conditions,
    make_affinely_dependent_layer,
    make_block_diagonal_layer,
    make_close_heads_layer,
    make_low_rank_layer,
    make_nice_layer,
    make_repeated_singular_values_layer,
)

__all__ = ["NICE", "VIOLATIONS", "Violated", "Violation", "violated_layer"]

NICE = "none"
"""The name of the baseline, a nice layer that meets all conditions."""

_TRIES = 25
Make = Callable[[AttentionLayer, float, np.random.Generator], AttentionLayer]


@dataclass(frozen=True)
class Violation:
    """A way to violate a condition.

    Attributes
    ----------
    condition : str
        The condition, by its name in the report.
    steps : tuple of float
        The amounts, mild to extreme.
    amount : str
        What the amount is.
    make : callable
        Makes the layer from a nice one, the amount and a generator.
    heads : int
        The number m of heads it needs.
    """

    condition: str
    steps: tuple[float, ...]
    amount: str
    make: Make
    heads: int = 2


@dataclass(frozen=True, eq=False)
class Violated:
    """A layer, its measure of the condition, and the other conditions that fail.

    Attributes
    ----------
    layer : AttentionLayer
        The layer.
    measured : float or None
        The measure of the violated condition; None for the baseline.
    holds : bool
        Whether the condition is still met.
    beside : tuple of str
        The other conditions that fail.
    """

    layer: AttentionLayer
    measured: float | None
    holds: bool
    beside: tuple[str, ...]


def violated_layer(
    name: str, step: float, *, heads: int, tokens: int, dim: int, rng: np.random.Generator
) -> Violated:
    """Draw nice layers and violate them until no other condition fails.

    Parameters
    ----------
    name : str
        One of `VIOLATIONS`, or `NICE`.
    step : float
        The amount.
    heads, tokens, dim : int
        The numbers m, k and d.
    rng : Generator
        The nice layers have a separate stream: two violations with the same seed start with the same nice layer.

    Notes
    -----
    Some violations imply others: after 25 tries the layer with the fewest other violations is taken.
    """
    for_nice, for_rest = rng.spawn(2)
    best: Violated | None = None
    for _ in range(_TRIES):
        nice = _nice(heads, tokens, dim, for_nice)
        if name == NICE:
            return Violated(nice, None, True, ())
        kind = VIOLATIONS[name]
        layer = kind.make(nice, step, for_rest)
        report = check_conditions(layer, tokens=tokens)
        one = report[kind.condition]
        beside = tuple(condition for condition in report.violated if condition != kind.condition)
        found = Violated(layer, one.measured, one.verdict, beside)
        if best is None or len(found.beside) < len(best.beside):
            best = found
        if not best.beside:
            break
    assert best is not None
    return best


def _nice(heads: int, tokens: int, dim: int, rng: np.random.Generator) -> AttentionLayer:
    for _ in range(100):
        layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
        if check_conditions(layer, tokens=tokens).satisfied:
            break
    return layer


def _sizes(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(1, 2), keepdims=True)


def _theta(change: Callable[[np.ndarray, float], np.ndarray]) -> Make:
    return lambda nice, amount, rng: AttentionLayer(theta=change(nice.theta, amount), w=nice.w)


def _w(change: Callable[[np.ndarray, float], np.ndarray]) -> Make:
    return lambda nice, amount, rng: AttentionLayer(theta=nice.theta, w=change(nice.w, amount))


def _with_theta(layer: AttentionLayer, theta: np.ndarray) -> AttentionLayer:
    """These attention matrices, each scaled to its original norm."""
    return AttentionLayer(theta=theta * (_sizes(layer.theta) / _sizes(theta)), w=layer.w)


def _alike(stack: np.ndarray, cosine: float) -> np.ndarray:
    """The second of two matrices, rotated to a given cosine with the first, and scaled to its norm."""
    first, second = stack
    size = np.linalg.norm(first)
    across = second - np.vdot(first, second) / size**2 * first
    across *= math.sqrt(max(0.0, (1 - cosine) * (1 + cosine))) * size / np.linalg.norm(across)
    return np.stack([first, cosine * first + across])


def _opposed(stack: np.ndarray, cosine: float) -> np.ndarray:
    return _alike(stack, -cosine)


def _close(nice: AttentionLayer, gap: float, rng: np.random.Generator) -> AttentionLayer:
    made = make_close_heads_layer(heads=2, dim=nice.dim, gap=gap, rng=rng)
    return AttentionLayer(theta=made.theta, w=nice.w)


def _low_rank(nice: AttentionLayer, rank: float, rng: np.random.Generator) -> AttentionLayer:
    made = make_low_rank_layer(heads=nice.heads, dim=nice.dim, rank=int(rank), rng=rng)
    return _with_theta(nice, made.theta)


def _heavy_column(nice: AttentionLayer, share: float, rng: np.random.Generator) -> AttentionLayer:
    heavy, rest = nice.theta[:, :, :1], nice.theta[:, :, 1:]
    parts = [math.sqrt(share) * heavy / _sizes(heavy), math.sqrt(1 - share) * rest / _sizes(rest)]
    return _with_theta(nice, np.concatenate(parts, axis=2))


def _trace(nice: AttentionLayer, square: float, rng: np.random.Generator) -> AttentionLayer:
    """Heads with Tr^2 / |Theta|^2 = square: a part without trace plus a multiple of the identity."""
    eye = np.eye(nice.dim)
    free = nice.theta - np.trace(nice.theta, axis1=1, axis2=2)[:, None, None] / nice.dim * eye
    free /= _sizes(free)
    share = square / nice.dim
    return _with_theta(nice, math.sqrt(share / nice.dim) * eye + math.sqrt(1 - share) * free)


def _weak(stack: np.ndarray, ratio: float) -> np.ndarray:
    first, second = stack
    return np.stack([first, second * (np.linalg.norm(first) / np.linalg.norm(second) / ratio)])


def _large(stack: np.ndarray, size: float) -> np.ndarray:
    return stack * (size / _sizes(stack))


def _near_signs(nice: AttentionLayer, spread: float, rng: np.random.Generator) -> AttentionLayer:
    """Entries plus or minus one value, up to a relative spread."""
    return _with_theta(nice, np.sign(nice.theta) * (1 + spread * rng.standard_normal(nice.theta.shape)))


def _blocks(nice: AttentionLayer, block: float, rng: np.random.Generator) -> AttentionLayer:
    made = make_block_diagonal_layer(heads=nice.heads, dim=nice.dim, block=int(block), rng=rng)
    return _with_theta(nice, made.theta)


def _repeated(nice: AttentionLayer, multiplicity: float, rng: np.random.Generator) -> AttentionLayer:
    times = min(int(multiplicity), nice.dim)
    made = make_repeated_singular_values_layer(heads=nice.heads, dim=nice.dim, multiplicity=times, rng=rng)
    return _with_theta(nice, made.theta)


def _affine(nice: AttentionLayer, away: float, rng: np.random.Generator) -> AttentionLayer:
    """The last head half-way between the other two, with a given offset in units of a head."""
    theta = np.array(make_affinely_dependent_layer(heads=3, dim=nice.dim, rng=rng).theta)
    off = rng.standard_normal((nice.dim, nice.dim))
    theta[2] += away * np.linalg.norm(theta[0]) * off / np.linalg.norm(off)
    return AttentionLayer(theta=theta, w=nice.w)


def _low_rank_w(nice: AttentionLayer, rank: float, rng: np.random.Generator) -> AttentionLayer:
    made = make_low_rank_layer(heads=nice.heads, dim=nice.dim, rank=nice.dim, w_rank=int(rank), rng=rng)
    return AttentionLayer(theta=nice.theta, w=made.w * (_sizes(nice.w) / _sizes(made.w)))


VIOLATIONS: Mapping[str, Violation] = {
    "close heads": Violation("theta_incoherence", (0.6, 0.2, 0.05), "distance of the heads", _close),
    "opposed heads": Violation(
        "theta_incoherence",
        (0.5, 0.9, 1.0),
        "minus the cosine",
        _theta(_opposed),
    ),
    "low rank": Violation("theta_stable_rank", (4.0, 1.0), "rank of every head", _low_rank),
    "heavy column": Violation("theta_heavy_column", (0.3, 0.9), "share of one column", _heavy_column),
    "trace": Violation("theta_trace", (1.0, 3.0, 8.0), "Tr²/|Θ|²", _trace),
    "weak head": Violation("theta_norms_comparable", (6.0, 20.0, 100.0), "ratio of norms", _theta(_weak)),
    "large norms": Violation("theta_norms", (16.0, 32.0), "norm of every head", _theta(_large)),
    "lattice": Violation("theta_non_arithmetic", (0.1, 0.03, 0.0), "spread of the entries", _near_signs),
    "diagonal": Violation("theta_non_arithmetic", (4.0, 1.0), "size of the blocks", _blocks),
    "repeated values": Violation(
        "theta_distinct_singular_values", (2.0, 16.0), "times every singular value", _repeated
    ),
    "alike W": Violation("w_incoherence", (0.5, 0.9, 0.99), "cosine", _w(_alike)),
    "opposed W": Violation("w_incoherence", (0.5, 0.9, 1.0), "minus the cosine", _w(_opposed)),
    "low-rank W": Violation("w_stable_rank", (4.0, 2.0, 1.0), "rank of every W", _low_rank_w),
    "weak W": Violation("w_norms_comparable", (6.0, 100.0), "ratio of norms", _w(_weak)),
    "affinely dependent": Violation(
        "theta_affine_independence", (0.09, 0.03, 0.0), "distance from the middle", _affine, heads=3
    ),
}
"""Every violation by its name."""
