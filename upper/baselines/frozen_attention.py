"""Frozen attention: random attention matrices give features, and a regression gives the projections."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import HeldOut
from attention.layer import read_tokens
from attention.learning import LearnerBase, apart, draw_and_hold_out
from attention.memory import require_memory
from attention.validation import NonNegativeInt, PositiveInt, checked

__all__ = ["FrozenAttention", "regress_projections"]

# standard deviation of a logit on Boolean tokens, that of nice layers
_SIGMA = 2.0
# ridges as shares of the mean eigenvalue of the Gram matrix; the last one predicts nearly zero, so no fit is worse
_RIDGES = (0.0, 1e-10, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e6)
_AT_ONCE = 1 << 22  # numbers in a block of features, 32 MiB


@dataclass(frozen=True)
@checked
class FrozenAttention(LearnerBase):
    """A layer of many heads: the attention matrices stay as drawn, and the W_i come from a regression.

    Parameters
    ----------
    heads : int
        The number R of frozen heads; every row has R d features.
    examples : int, optional
        Budget in examples. The default is 4 R d / k, for four times as many equations as unknowns, or all examples if
        they are given. A twentieth is held out.
    theta : array (R, d, d), optional
        Frozen attention matrices in place of random ones, for example from another learner; `heads` is then their
        number.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples or if `theta` has another dimension.

    Notes
    -----
    The features are half of those of the neural tangent kernel of a wide layer: those of the output weights, without
    the derivatives in Theta. The regression is convex, so it needs no start and has no local minima. It is a ridge
    regression with the best of eleven ridges on the held-out examples. If `theta` are the target's heads, the
    projections are recovered exactly. O(n k (R d)^2 + (R d)^3) time, O((R d)^2) memory beyond the examples.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007; Jacot, Gabriel and Hongler, Neural
    tangent kernel, arXiv 1806.07572. The features for attention are chosen here.

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=6, rng=0)
    >>> oracle = ExampleOracle(layer, BooleanInputs(k=3, d=6), rng=1)
    >>> fit = FrozenAttention(theta=layer.theta).fit(oracle)
    >>> fit.outcome.name, bool(np.allclose(fit.layer.w, layer.w))
    ('EXACT', True)
    """

    heads: PositiveInt = 64
    examples: NonNegativeInt | None = None
    theta: Float[np.ndarray, "m d d"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.theta is not None:
            theta = self.theta.copy()
            theta.flags.writeable = False
            object.__setattr__(self, "theta", theta)
            object.__setattr__(self, "heads", len(theta))

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        d = oracle.d
        require_memory(
            f"A regression on {self.heads} heads in {d} dimensions",
            32 * (self.heads * d) ** 2,  # a Gram matrix and its eigenvectors
            advice="take fewer heads",
        )
        if self.theta is not None and self.theta.shape[-1] != d:
            raise ValueError(
                f"theta has {self.theta.shape[-1]} coordinates: {d}, as the examples, are needed."
            )
        drawn = apart(rng)
        theta = drawn.standard_normal((self.heads, d, d)) * (_SIGMA / d) if self.theta is None else self.theta
        default = -(-4 * self.heads * oracle.d // oracle.k) + 1
        (x, y), held = draw_and_hold_out(oracle, default if budget is None else budget)
        unit = float(np.abs(y).max()) or 1.0
        y, held = y / unit, replace(held, y=held.y / unit)
        layers = [AttentionLayer(theta, w) for w in regress_projections(x, y, theta, _RIDGES)]
        best = int(np.argmin([held.error(layer) for layer in layers]))
        fitted = HeldOut(x, y, x).error(layers[best])
        verdict = held.verdict(layers[best], fitted=fitted, otherwise=Outcome.BEST_OF_CLASS)
        layer = AttentionLayer(theta, unit * layers[best].w)
        measures: dict[str, Any] = {
            "residual": fitted,
            "held_out_error": verdict.held_out_error,
            "ridge": _RIDGES[best],
        }
        recorder.step("Regressed projections", layer=layer, **measures)
        return recorder.fit(verdict, layer=layer)


def regress_projections(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "m d d"],
    ridges: tuple[float, ...] = (0.0,),
) -> Float[np.ndarray, "r m d d"]:
    """The W_i that minimise |Y - F(X)|^2 + ridge |W|^2 at given Theta_i, for every ridge.

    `ridges` are in units of the mean eigenvalue of the Gram matrix; 0 is least squares of the least norm.

    Notes
    -----
    One eigendecomposition of the Gram matrix of Z = [P_1 X ... P_m X] serves all ridges. Without a ridge the
    solution is corrected once by the regression of its own residual, which wins back the digits the Gram matrix lost.
    O(n k (m d)^2 + (m d)^3).

    References
    ----------
    Ridge regression: Hoerl and Kennard, Technometrics 12 (1970); the correction is derived here.
    """
    m, d, _ = theta.shape
    size = m * d
    batch = max(1, _AT_ONCE // (x.shape[1] * size))
    parts = [slice(first, first + batch) for first in range(0, len(x), batch)]
    unit = float(np.abs(x).max()) or 1.0  # what is read is linear in the unit of the tokens

    def read_of(part: slice) -> np.ndarray:
        return np.asarray(read_tokens(x[part], theta)[1]) / unit

    gram, moment = np.zeros((size, size)), np.zeros((size, d))
    for part in parts:
        read = read_of(part)
        gram += read.T @ read
        moment += read.T @ y[part].reshape(-1, d)
    values, vectors = scipy.linalg.eigh(gram, overwrite_a=True)
    mean = float(values.mean()) or 1.0
    negligible = size * np.finfo(np.float64).eps * float(values[-1])

    def solve(right: np.ndarray, ridge: float) -> np.ndarray:
        shifted = values + ridge * mean
        keep = shifted > negligible
        inverse = np.where(keep, 1.0 / np.where(keep, shifted, 1.0), 0.0)
        solution: np.ndarray = vectors @ (inverse[:, None] * (vectors.T @ right))
        return solution

    solutions = []
    for ridge in ridges:
        w = solve(moment, ridge)
        if ridge == 0:
            left = np.zeros_like(moment)
            for part in parts:
                read = read_of(part)
                left += read.T @ (y[part].reshape(-1, d) - read @ w)
            w = w + solve(left, ridge)
        solutions.append(w.reshape(m, d, d))
    return np.stack(solutions) / unit
