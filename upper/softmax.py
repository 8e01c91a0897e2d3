"""Softmax over few tokens and its derivative, in memory that is there already."""

from typing import Any

from jaxtyping import Shaped

from upper.engine import Engine

__all__ = ["change_each_head", "softmax_derivative", "softmax_in_place"]

# Patterns below exp(-46) = 1e-20 change nothing in either precision; as denormals they would slow every product.
_LEAST_LOGIT = -46.0


def softmax_in_place(engine: Engine, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
    """The softmax along the last axis, in the memory of `logits`.

    Notes
    -----
    Entries are at least exp(-46) of the largest in their row.
    """
    xp, k = engine.xp, logits.shape[-1]
    # over k few entries a loop of whole-array operations is several times faster than a reduction
    largest = logits[..., 0]
    for b in range(1, k):
        largest = xp.maximum(largest, logits[..., b])
    logits -= largest[..., None]
    logits = engine.at_least(logits, _LEAST_LOGIT)
    weights = engine.exp(logits)
    total = weights[..., 0]
    for b in range(1, k):
        total = total + weights[..., b]
    weights /= total[..., None]
    return weights


def softmax_derivative(
    engine: Engine,
    change: Shaped[Any, "*batch k"],
    pattern: Shaped[Any, "*batch k"],
    ones: Shaped[Any, "k k"],
    sums: Any,
) -> Shaped[Any, "*batch k"]:
    """How patterns P change with logits S, P * (S - rowsum(P * S)), in the memory of `change`.

    Parameters
    ----------
    engine : Engine
        Where to compute.
    change : array (..., k)
        The change S of the logits.
    pattern : array (..., k)
        The patterns P.
    ones : array (k, k)
        Ones.
    sums : array (rows, k) or None
        Memory for the sums, a row for every row of P; None where the library cannot write into it.

    Notes
    -----
    It is symmetric, so it serves a derivative and its transpose alike.
    """
    xp = engine.xp
    change *= pattern
    # a product with ones is the sum over few entries, repeated, at the speed of a product
    sums = engine.matmul(xp.reshape(change, (-1, change.shape[-1])), ones, out=sums)
    sums = xp.reshape(sums, change.shape)
    sums *= pattern
    change -= sums
    return change


def change_each_head(
    pattern: Shaped[Any, "m n k k"], logits: Shaped[Any, "n k k"], values: Shaped[Any, "m n k v"], xp: Any
) -> Shaped[Any, "m flat"]:
    """How what each head writes changes if the logits of all heads change by `logits`, a row a head."""
    weighted = pattern * logits[None, ...]
    change = weighted - pattern * xp.sum(weighted, axis=-1)[..., None]
    return xp.reshape(xp.matmul(change, values), (pattern.shape[0], -1))
