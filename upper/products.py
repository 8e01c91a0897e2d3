"""The products behind every learner of layers: what all heads read, softmax in place, and its derivative.

Layouts: tokens (n, k, d); patterns (n, k, m, k), row by row with the heads of a row together, so that the reads P_i X
of all heads are one (n k, m d) matrix.
"""

from typing import Any

from jaxtyping import Shaped

from attention._arrays import namespace
from attention._kernels import contract, mix, softmax
from upper.engine import Engine

__all__ = ["change_each_head", "read_tokens", "softmax_derivative", "softmax_in_place"]

# Patterns below exp(-46) = 1e-20 change nothing in either precision; as denormals they would slow every product.
_LEAST_LOGIT = -46.0


def read_tokens(
    x: Shaped[Any, "n k d"], theta: Shaped[Any, "m d d"]
) -> tuple[Shaped[Any, "n k m k"], Shaped[Any, "n*k m*d"]]:
    """Patterns of all heads and what they read, Z = [P_1 X ... P_m X].

    Notes
    -----
    One product of (n k, d) by (d, m d) and two batched ones; O(n k m d (d + 2 k)).
    """
    xp = namespace(x, theta)
    pattern = softmax(contract(x, theta, xp), xp)
    return pattern, mix(pattern, x, xp)


def softmax_in_place(engine: Engine, logits: Shaped[Any, "*batch k"]) -> Shaped[Any, "*batch k"]:
    """The softmax along the last axis, in the memory of `logits`; entries are at least exp(-46) times the largest."""
    xp, k = engine.xp, logits.shape[-1]
    # over few entries a loop of whole-array operations is several times faster than a reduction
    largest = logits[..., 0]
    for b in range(1, k):
        largest = xp.maximum(largest, logits[..., b])
    logits -= largest[..., None]
    weights = engine.exp(engine.at_least(logits, _LEAST_LOGIT))
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
    """How patterns P change with logits S, P * (S - rowsum(P * S)), in the memory of `change`; symmetric.

    `ones` is a matrix of ones, and `sums` memory with a row for every row of P, or None.
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
    """How what each head writes changes if the logits of all heads change by `logits`, a row for each head."""
    weighted = pattern * logits[None, ...]
    change = weighted - pattern * xp.sum(weighted, axis=-1)[..., None]
    return xp.reshape(xp.matmul(change, values), (pattern.shape[0], -1))
