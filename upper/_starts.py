"""Where the descents of the Newton learner begin: at random heads, at what cross-moments show, or at a layer."""

import contextlib
from typing import Literal

import numpy as np

from attention import AttentionLayer, NotEnoughMemoryError
from attention._arrays import to_numpy
from upper.descents import SplitExamples
from upper.newton.factors import FactoredHeads, random_factors

__all__ = ["Start", "a_start", "require_start", "start_at"]

Start = Literal["random", "spectral"] | AttentionLayer

_SECOND = 2


def a_start(
    start: Start,
    examples: SplitExamples,
    heads: int,
    number: int,
    *,
    rank: int | None,
    then_spectral: bool = True,
    rng: np.random.Generator,
) -> np.ndarray | FactoredHeads:
    """Start so many, from 1, of a learner that was told to begin at `start`: matrices Theta, or factors of a rank.

    Number 0 is of heads that are added to others. `then_spectral` says whether the second is the spectral one, where
    the first was another and did not end exact.
    """
    if isinstance(start, AttentionLayer) and number == 1 and start.heads == heads:
        return start_at(examples.scaled(start), rank)
    d = examples.x.shape[-1]
    # the spectral one hardly changes from one time to the next, so that once is enough
    if start == "spectral" and number <= 1:
        theta = _spectral(examples, heads, rng)
        if rank is None:
            return theta
        known = FactoredHeads.of(AttentionLayer(theta=theta, w=theta), rank)
        free = random_factors(heads=heads, dim=d, rank=rank, rng=rng)
        return FactoredHeads(a=known.a, b=known.b, v=free.v, o=free.o)
    if start != "spectral" and then_spectral and number == _SECOND and rank is None:
        # nobody asked for it: where it does not fit a random one will do
        with contextlib.suppress(NotEnoughMemoryError):
            return _spectral(examples, heads, rng)
    if rank is not None:
        return random_factors(heads=heads, dim=d, rank=rank, rng=rng)
    return rng.standard_normal((heads, d, d)) / d


def start_at(layer: AttentionLayer, rank: int | None) -> np.ndarray | FactoredHeads:
    """A start at the layer's heads."""
    if rank is not None:
        return FactoredHeads.of(layer, rank)
    return to_numpy(layer.theta).astype(np.float64)


def require_start(start: Start, m: int | Literal["auto"], d: int) -> None:
    """Refuse a layer to start from that is of another shape than the student."""
    if not isinstance(start, AttentionLayer):
        return
    heads = start.heads if m == "auto" else m
    if (start.heads, start.dim) != (heads, d):
        raise ValueError(
            f"The layer to start from has {start.heads} heads in {start.dim} dimensions: "
            f"{heads} heads in {d} are needed."
        )


def _spectral(examples: SplitExamples, heads: int, rng: np.random.Generator) -> np.ndarray:
    from upper.spectral import spectral_start

    return spectral_start(examples.x, examples.y, heads, rng=rng)
