"""Frozen attention: random attention matrices as features, and the projections by regression."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh

from attention import (
    AttentionLayer,
    ExampleOracle,
    Fit,
    GroundTruth,
    Outcome,
    Recorder,
    check_budget,
    draw_examples,
)
from attention._arrays import shown
from attention.evaluation import HeldOut, hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.memory import require_memory
from attention.validation import (
    count,
    non_negative,
    random_generator,
    real_array,
    require_finite,
    require_shape,
)
from upper._squared_error import apart
from upper.products import read_tokens
from upper.six_phase.common import exponent_to_square

__all__ = ["FrozenAttention", "regress_projections"]

# shares of the mean eigenvalue of the Gram matrix; the last predicts next to nothing, so that no fit is worse than that
_RIDGES = (0.0, 1e-10, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e6)
_AT_ONCE = 1 << 22  # numbers of features at once, 32 MiB


@dataclass(frozen=True)
class FrozenAttention:
    """A layer of many heads whose attention matrices stay as they were drawn, and whose W_i are regressed.

    Parameters
    ----------
    heads : int
        Frozen heads R; their number is that of the features, R d for every row.
    examples : int, optional
        Budget in examples; by default four times as many equations as unknowns, 4 R d / k, and all that are given. A
        twentieth is held out.
    sigma : float
        Standard deviation of the attention logits of a frozen head on Boolean tokens; nice layers have 2.
    theta : array (R, d, d), optional
        Frozen attention matrices to use instead of random ones, as from another learner; `heads` is then their number.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples or where `theta` has another dimension.

    Notes
    -----
    Half of what the neural tangent kernel of a wide layer can learn: the half of the output weights, without the
    derivatives in Theta. The regression is convex, so there is no start to choose and no minimum to get stuck in.
    Ridge regression, its ridge the best of eleven on the held-out examples. Where `theta` are the target's heads, the
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

    heads: int = 64
    examples: int | None = None
    sigma: float = 2.0
    theta: Float[np.ndarray, "m d d"] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "heads", count("heads", self.heads))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        object.__setattr__(self, "sigma", non_negative("sigma", self.sigma))
        if self.theta is not None:
            theta = np.array(self.theta, dtype=np.float64)
            side = theta.shape[-1] if theta.ndim else "d"
            require_shape("theta", theta, ("heads", side, side))
            require_finite("theta", theta)
            theta.flags.writeable = False
            object.__setattr__(self, "theta", theta)
            object.__setattr__(self, "heads", len(theta))

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to regress on and one to hold out: the ridge copes with the rest."""
        return 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Draw the frozen heads and regress their projections.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, `theta` has another dimension than the examples, or the
            oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        _require_memory(self.heads, oracle.d)
        theta = self._frozen(oracle.d, random_generator(rng))
        budget = check_budget(self, oracle)
        default = -(-4 * self.heads * oracle.d // oracle.k) + 1
        x, y = draw_examples(oracle, default if budget is None else budget)
        unit = float(np.abs(y).max()) or 1.0
        (x, y), held = hold_out(x, y / unit)
        candidates = regress_projections(x, y, theta, _RIDGES)
        layers = [AttentionLayer(theta, w) for w in candidates]
        best = int(np.argmin([held.error(layer) for layer in layers]))
        fitted = HeldOut(x, y, x).error(layers[best])
        outcome, error = held.verdict(layers[best], fitted=fitted, otherwise=Outcome.BEST_OF_CLASS)
        layer = AttentionLayer(theta, unit * candidates[best])
        recorder.step(
            "Regressed projections",
            layer=layer,
            residual=fitted,
            held_out_error=error,
            ridge=_RIDGES[best],
        )
        return recorder.fit(outcome, layer=layer)

    def _frozen(self, d: int, rng: np.random.Generator) -> np.ndarray:
        if self.theta is None:
            return apart(rng).standard_normal((self.heads, d, d)) * (self.sigma / d)
        if self.theta.shape[-1] != d:
            raise ValueError(
                f"theta has {self.theta.shape[-1]} coordinates and the examples have {d}: they must be the same."
            )
        return self.theta


def _require_memory(m: int, d: int) -> None:
    """Refuse a Gram matrix, with its eigenvectors, that does not fit into memory."""
    require_memory(
        f"A regression on {shown(m)} heads in {d} dimensions", 32 * (m * d) ** 2, advice="take fewer heads"
    )


def regress_projections(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "m d d"],
    ridges: tuple[float, ...] = (0.0,),
) -> Float[np.ndarray, "r m d d"]:
    """The W_i that minimise |Y - F(X)|^2 + ridge |W|^2 at given Theta_i, for every ridge.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.
    theta : array (m, d, d)
        The attention matrices.
    ridges : tuple of float
        In units of the mean eigenvalue of the Gram matrix; 0 is least squares of the least norm.

    Returns
    -------
    array (r, m, d, d)
        The W_i for every ridge.

    Raises
    ------
    ValueError
        If the shapes do not fit together, or logits or projections overflow.

    Notes
    -----
    One eigendecomposition of the Gram matrix of Z = [P_1 X ... P_m X] serves all ridges. Without a ridge the
    solution is corrected once by the regression of its own residual, which wins back the digits the Gram matrix lost.
    Tokens and labels of any size: the matrix is that of numbers that can be squared. O(n k (m d)^2 + (m d)^3).

    References
    ----------
    Ridge regression: Hoerl and Kennard, Technometrics 12 (1970); the correction is derived here.
    """
    theta = real_array("theta", theta, ("m", "d", "d"))
    m, d, _ = theta.shape
    require_shape("theta", theta, (m, d, d))
    x = real_array("x", x, ("n", "k", d))
    y = real_array("y", y, x.shape)
    ridges = tuple(real_array("ridges", ridges, ("ridges",)).tolist())
    if min(ridges) < 0:
        raise ValueError(f"ridges has {min(ridges)}: numbers of at least 0 are needed.")
    size = m * d
    _require_memory(m, d)
    batch = max(1, _AT_ONCE // (x.shape[1] * size))
    parts = [slice(first, first + batch) for first in range(0, len(x), batch)]
    # patterns depend on the tokens' unit, but what is read with them is linear in it
    unit, label_unit = exponent_to_square(x), exponent_to_square(y)
    y = np.ldexp(y, -label_unit) if label_unit else y

    def read_of(part: slice) -> np.ndarray:
        read = np.asarray(read_tokens(x[part], theta)[1])
        return np.ldexp(read, -unit) if unit else read

    gram, moment = np.zeros((size, size)), np.zeros((size, d))
    for part in parts:
        read = read_of(part)
        gram += read.T @ read
        moment += read.T @ y[part].reshape(-1, d)
    values, vectors = eigh(gram, overwrite_a=True)
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
    with np.errstate(over="ignore"):  # refused in the next line
        found = np.ldexp(np.stack(solutions), label_unit - unit)
    if not np.isfinite(found).all():
        raise ValueError("The projections overflow at labels y that are so much larger than x: scale y down.")
    return found
