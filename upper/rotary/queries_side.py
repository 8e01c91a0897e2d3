"""Queries and the biases of keys, both linear once the keys are known.

Derived here. With the keys' coordinates k(x), turned back by the distance, a score is q(y) . k(x): p unknowns for each
filler y, and equations from all rows and movable tokens. The fillers are the corners of a simplex, on which the affine
map y -> q(y) is read without loss. What all rows leave between two tokens of one query is the bias of the keys.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from upper.rotary.keys import Keys
from upper.rotary.movable import Movable

# Equations for each of the p unknowns, from movable tokens alone.
_TOKENS = 1.5
# Without biases of keys the residual is at most so many times that with them.
_NO_BIAS = 3.0


@dataclass(frozen=True)
class Scores:
    """Queries and biases of all heads."""

    queries: Float[np.ndarray, "m d p"]
    query_bias: Float[np.ndarray, "m p"]
    key_bias: Float[np.ndarray, "m p"]


def read_queries(movable: Movable, keys: Keys, logs: Float[np.ndarray, "m f q k s"]) -> Scores | None:
    """Queries from the weights around the first fillers, and around all others, which are asked here.

    None where some of these weights are not positive.
    """
    m, first, _, _, size = logs.shape
    p = keys.maps.shape[2]
    few = min(max(2, int(np.ceil(_TOKENS * p / size))), len(movable.tokens))
    inside = np.einsum("qsd,mdp->mqsp", movable.tokens, keys.maps, optimize=True)
    turned = _turned(inside[:, :, None], movable.distances, keys.frequencies)
    at_first = np.array([_solved(by, log, (0,)) for by, log in zip(turned, logs, strict=True)])
    biases = _key_biases(movable, keys, logs, turned, at_first)
    own = _turned(biases[:, None, None, None], movable.distances, keys.frequencies)
    rest = movable.fillers[first:]  # none where heads are nearly as wide as tokens
    others = movable.log_weights(rest, few) if len(rest) else None
    if others is not None and not np.isfinite(others).all():
        return None
    fillers = np.column_stack([movable.fillers, np.ones(len(movable.fillers))])
    queries = np.empty((m, len(fillers), p))
    for i, by in enumerate(turned + own):
        queries[i, :first] = _solved(by, logs[i], (0, 2))
        if others is not None:
            queries[i, first:] = _solved(by[:few], others[i], (0, 2))
    maps = np.linalg.solve(fillers, queries)
    return Scores(maps[:, :-1], maps[:, -1], biases)


def _turned(
    keys: Float[np.ndarray, "*keys p"], distances: np.ndarray, frequencies: Float[np.ndarray, " f"]
) -> Float[np.ndarray, "*scores p"]:
    """What q is multiplied by in a score: the coordinates of a key, turned back by the distance."""
    angle = distances[..., None] * frequencies
    first, second = np.split(keys, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([cos * first + sin * second, cos * second - sin * first], axis=-1)


def _solved(
    by: Float[np.ndarray, "q k s p"], logs: Float[np.ndarray, "f q k s"], common: tuple[int, ...]
) -> Float[np.ndarray, "f p"]:
    """The q of each filler; what queries (0) and tokens (2) of a row have in common is unknown."""
    left = by - by.mean(axis=common, keepdims=True)
    right = logs - logs.mean(axis=tuple(axis + 1 for axis in common), keepdims=True)
    solution: np.ndarray = np.linalg.lstsq(
        left.reshape(-1, by.shape[-1]), right.reshape(len(logs), -1).T, rcond=None
    )[0].T
    return solution


def _key_biases(
    movable: Movable,
    keys: Keys,
    logs: Float[np.ndarray, "m f q k s"],
    turned: Float[np.ndarray, "m q k s p"],
    queries: Float[np.ndarray, "m f p"],
) -> Float[np.ndarray, "m p"]:
    """One bias for each group of heads; zero where none is seen."""
    p = keys.maps.shape[2]
    axes = _turned(np.eye(p)[:, None, None], movable.distances, keys.frequencies)  # (p, k, s, p)
    axes = axes - axes.mean(axis=2, keepdims=True)
    biases = np.zeros((len(logs), p))
    for group in np.unique(keys.group):
        heads = np.flatnonzero(keys.group == group)
        by = np.einsum("mfp,cksp->mfksc", queries[heads], axes, optimize=True).reshape(-1, p)
        rest = logs[heads] - np.einsum("mfp,mqksp->mfqks", queries[heads], turned[heads], optimize=True)
        rest = rest.mean(axis=2)
        right = (rest - rest.mean(axis=3, keepdims=True)).ravel()
        bias = np.linalg.lstsq(by, right, rcond=None)[0]
        if np.linalg.norm(right) > _NO_BIAS * np.linalg.norm(right - by @ bias):
            biases[heads] = bias
    return biases
