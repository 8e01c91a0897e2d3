"""What examples determine."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from attention import AttentionLayer, make_nice_layer
from paper_checks.claim import Basis, Scale, claim
from paper_checks.claims._layer_by_fractions import rank
from paper_checks.comparison import Comparison, at_most, equal
from paper_checks.faults import Fault, returned


@claim(
    "identifiability/rank-of-logits",
    source="derived here",
    basis=Basis.PROVED,
    fault=Fault(
        "paper_checks.claims._layer_by_fractions:rank",
        lambda right: lambda rows: right([row[:-1] for row in rows]),
        "the rank without the last entry of Theta",
    ),
)
def rank_of_logits(scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Over Boolean tokens the contrasts x Theta (x - y) determine all d^2 entries of Theta. The logits x Theta x of a
    token on itself determine only 1 + d(d-1)/2 numbers. If one of the d coordinates is constant, contrasts leave d
    numbers free.

    Computes the rank of each linear map over the rationals, on all Boolean x and y, for d = 2, 3 (quick) and 4. In
    words: the monomials x_i y_j are independent; x_i^2 = 1 leaves the trace; the constant's column cancels.
    """
    for dim in (2, 3) if scale is Scale.QUICK else (2, 3, 4):
        cube = np.array(list(itertools.product((-1, 1), repeat=dim)))
        fixed = cube[cube[:, 0] == 1]
        contrast, constant = (
            rank(np.array([np.outer(x, x - y).ravel() for x in tokens for y in tokens]))
            for tokens in (cube, fixed)
        )
        alone = rank(np.array([np.outer(x, x).ravel() for x in cube]))
        yield equal(f"contrasts, d = {dim}", contrast, dim**2)
        yield equal(f"a token on itself, d = {dim}", alone, 1 + dim * (dim - 1) // 2)
        yield equal(f"constant coordinate among d = {dim}", constant, dim**2 - dim)


@claim(
    "identifiability/locally-determined",
    source="derived here; in line with 'Generic fibers and functional dimension of multi-head attention' (openreview "
    "7vPmnHdAPl), whose abstract says that heads have no hidden symmetries at generic parameters",
    basis=Basis.MEASURED,
    fault=Fault(
        "paper_checks.claims.identifiability:jacobian",
        returned(lambda both: both[:, : both.shape[1] // 2]),
        "the derivative by the Theta_i alone",
    ),
)
def locally_determined(scale: Scale, rng: Generator, *, gap: float = 1e-11) -> Iterator[Comparison]:
    """Take all Boolean X of k = 2 tokens and m random heads. If 2 m d^2 <= d^2 + d 2^(d-1) (2^d - 1), F changes in
    independent directions with all 2 m d^2 parameters. More parameters are never determined.

    Computes the numeric rank of the Jacobian at random heads. The right side is proved to be a ceiling: sum W and one
    row vector for each pair of unequal tokens, up to sign, fix F. That the rank attains it is measured at d = 2, 3.
    """
    sizes = ((2, (1, 2, 3)), (3, (2, 6) if scale is Scale.QUICK else (1, 2, 4, 6)))
    for dim, numbers in sizes:
        ceiling = dim**2 + dim * 2**dim * (2**dim - 1) // 2
        x = np.array(list(itertools.product((-1.0, 1.0), repeat=2 * dim))).reshape(-1, 2, dim)
        for heads in numbers:
            layer = make_nice_layer(heads=heads, dim=dim, rng=rng)
            values = np.linalg.svd(jacobian(layer, x), compute_uv=False)
            attained = int((values > gap * values[0]).sum())
            yield equal(f"rank, d = {dim}, m = {heads}", attained, min(2 * heads * dim**2, ceiling))


@claim(
    "identifiability/one-head-by-queries",
    source="Bhattamishra, Shah, Hahn and Kanade, arXiv 2601.16873: O(d^2) queries learn one head exactly; these "
    "learners and their counts: derived here",
    basis=Basis.DERIVED,
    fault={"log_odds_sign": -1},
)
def one_head_by_queries(
    scale: Scale, rng: Generator, *, accuracy: float = 1e-8, log_odds_sign: int = 1
) -> Iterator[Comparison]:
    """Take one head with a single real output, f(X) = v . (last row of softmax(X Theta X^T) X), with v not 0. It is
    learned exactly, v and all of Theta, from d^2 + d queries of at most two tokens. This is one query a parameter. If a
    query returns all of F(X) and W is invertible, d + 1 queries of at most d + 1 tokens suffice.

    Runs the learner: d single tokens read v. For z_j outside the kernel of v, f(e_i - z_j, e_i) gives e_i Theta z_j as
    a log-odds. Queries are counted, also at a v with zeros. Outputs have no noise; errors are those of float64. The
    other learner asks for single tokens, and for 0 and all unit vectors at once.
    """
    for dim, zeros in (
        ((3, 0), (8, 0), (8, 5)) if scale is Scale.QUICK else ((3, 0), (8, 5), (32, 0), (48, 20))
    ):
        theta = np.asarray(make_nice_layer(heads=1, dim=dim, rng=rng).theta[0])
        v = rng.choice([-1, 1], size=dim) * rng.uniform(0.5, 2, size=dim)
        v[:zeros] = 0
        queries = 0

        def answer(*tokens: Any, theta: Any = theta, v: Any = v) -> float:
            nonlocal queries
            queries += 1
            x = np.array(tokens)
            logits = x[-1] @ theta @ x.T
            odds = np.exp(logits - logits.max())
            return float(odds @ x @ v / odds.sum())

        learned_v, learned = _learn_from_scalars(answer, dim, log_odds_sign)
        name = f"d = {dim}, {zeros} zeros in v"
        yield equal(f"queries, {name}", queries, dim**2 + dim)
        yield at_most(f"error of v, {name}", float(np.abs(learned_v - v).max()), accuracy)
        yield at_most(f"error of Theta, {name}", float(np.abs(learned - theta).max()), accuracy)
    layer = make_nice_layer(heads=1, dim=dim, rng=rng)
    w = np.vstack([layer(token[None]) for token in np.eye(dim)])
    p = layer(np.vstack([np.zeros(dim), np.eye(dim)]))[1:] @ np.linalg.inv(w)
    learned = log_odds_sign * np.log(p / (1 - p.sum(axis=1, keepdims=True)))
    error = max(np.abs(w - layer.w[0]).max(), np.abs(learned - layer.theta[0]).max())
    yield at_most(f"largest error from all of F at d + 1 = {dim + 1} queries", float(error), accuracy)


def jacobian(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "nkd p"]:
    """Derivatives of all outputs on x by the entries of all Theta_i, then of all W_i."""
    by_theta, by_w = [], []
    for theta, w in zip(layer.theta, layer.w, strict=True):
        odds = np.exp(x @ theta @ x.swapaxes(1, 2))
        p = odds / odds.sum(axis=-1, keepdims=True)
        for r, c in np.ndindex(layer.dim, layer.dim):
            step = x[:, :, r, None] * x[:, None, :, c]
            moved = p * (step - (p * step).sum(axis=-1, keepdims=True))
            by_theta.append((moved @ x @ w).ravel())
            change = np.zeros(x.shape)
            change[:, :, c] = (p @ x)[:, :, r]
            by_w.append(change.ravel())
    return np.stack(by_theta + by_w, axis=1)


def _learn_from_scalars(answer: Callable[..., float], dim: int, sign: int) -> tuple[Any, Any]:
    """The v and Theta of f(X) = v . (last row of softmax(X Theta X^T) X)."""
    unit = np.eye(dim)
    v = np.array([answer(token) for token in unit])
    largest = int(np.argmax(np.abs(v)))
    # a basis outside the kernel of v: e_j if v_j is large enough, else e_j plus the coordinate of the largest entry
    off = np.array([z if abs(v @ z) > 0.1 * abs(v[largest]) else z + unit[largest] for z in unit])
    logits = np.zeros((dim, dim))
    for i, j in np.ndindex(dim, dim):
        # the answer is v.x - q v.z; q is the weight of the first token, whose logit is lower by x Theta z
        x, z = unit[i], off[j]
        q = (v @ x - answer(x - z, x)) / (v @ z)
        logits[i, j] = sign * math.log((1 - q) / q)
    return v, np.linalg.solve(off, logits.T).T
