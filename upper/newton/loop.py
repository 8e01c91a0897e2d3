"""Damped Gauss-Newton on the heads, with the linear factor eliminated, for any parametrisation of the heads."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention import AttentionLayer
from attention._arrays import to_numpy
from attention.validation import NonNegativeFloat, checked
from upper.engine import Engine
from upper.newton.full_heads import NO_PRIOR, FullHeads, Heads
from upper.newton.inner_solve import InnerSolve, NormalEquations
from upper.newton.schedules import AnnealedPrior, Damping, Precision, PriorScale, next_damping

__all__ = ["Iterate", "LinearFit", "Run", "fit_linear", "gauss_newton"]


@dataclass(frozen=True, eq=False)
class Iterate:
    """The state of a Gauss-Newton run.

    Attributes
    ----------
    theta, w : array (m, d, d)
        The current parameters.
    key_bias, bias : array (m, d) and (d,), optional
        The biases, if the heads have some.
    residual : float
        |Y - F(X)| / |Y| on the fitted examples.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    passes : int
        Passes over the data since the start: evaluations of F and products with J or its transpose.
    prior : float
        The variance sigma^2 of the annealed prior; 0 once it is dropped, and without it.
    causal : bool
        Whether the heads are causal.
    accepted : bool
        False if it differs from the iterate before in the damping and the passes only.
    improving : bool
        Of the end of a run: whether its work was spent while the error on held-out examples still fell.
    """

    theta: Shaped[Any, "m d d"]
    w: Shaped[Any, "m d d"]
    residual: float
    damping: float
    passes: int
    key_bias: Shaped[Any, "m d"] | None = None
    bias: Shaped[Any, " d"] | None = None
    prior: float = 0.0
    causal: bool = False
    accepted: bool = True
    improving: bool = False

    @property
    def layer(self) -> AttentionLayer:
        """The layer, in NumPy."""
        here = self.map(to_numpy)
        return AttentionLayer(here.theta, here.w, here.key_bias, here.bias, here.causal)

    def only(self, heads: Any) -> "Iterate":
        """The same state with some of the heads, whose projections are as before."""
        key_bias = None if self.key_bias is None else self.key_bias[heads]
        return replace(self, theta=self.theta[heads], w=self.w[heads], key_bias=key_bias)

    def map(self, convert: Callable[[Any], Any]) -> "Iterate":
        """The same state with `convert` applied to every array."""
        theta, w, key_bias, bias = (
            None if array is None else convert(array)
            for array in (self.theta, self.w, self.key_bias, self.bias)
        )
        return replace(self, theta=theta, w=w, key_bias=key_bias, bias=bias)


@checked
def gauss_newton(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    start: Shaped[Any, "m e d"] | Heads,
    *,
    inner_dtype: Any = None,
    tolerance: NonNegativeFloat = 0.0,
    priors: bool = False,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from `start`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library. All arithmetic uses this library and their device. Derivatives are not
        recorded.
    start : array (m, d, d) or (m, d + 1, d), or Heads
        The start, of the same library: the matrices Theta_i, or `LowRankHeads`, or `SpanHeads`. All iterates keep the
        rank or stay in the span. The O of factors is not used. With d + 1 rows, the last row of each matrix is c_i, and
        the biases are fitted too. `FullHeads` are matrices with a causal mask.
    inner_dtype : dtype, optional
        Precision of the products in the inner solve, which need an accuracy of a few per cent only. The default is
        bfloat16 if the hardware multiplies it, else float32.
    tolerance : float
        The relative residual at which the caller will stop; no inner solve aims far below it.
    priors : bool
        Whether to anneal a ridge prior. The start must then be random: its size is taken for that of the target.
    rng : Generator
        Draws the probe that estimates the coupling of heads.

    Yields
    ------
    Iterate
        One at the start and one after every trial. After a rejected trial, only the damping and the passes differ. The
        iteration never ends by itself. Parameters are float64, of the library of `start`.

    Raises
    ------
    ValueError
        If shapes do not match, the arrays are of several libraries, or the residual at the start is not finite.

    Notes
    -----
    With Z = [P_1 X ... P_m X], a trial solves (J^T (I - Z G^-1 Z^T) J + lambda D) dTheta = J^T R (`NormalEquations`) to
    an accuracy near the relative residual c (`InnerSolve`). G is Z^T Z plus a ridge (`fit_linear`). D is the
    `damping_term` of the heads: tr(C)/m I for full matrices, with C the coupling of heads. lambda follows
    `next_damping`, and on a plateau falls with every accepted trial (`Damping`). After each trial, W gets one
    correction, W + G^-1 Z^T (Y - Z W). Residuals are float32, and float64 for the last digits (`Precision`).

    At low rank, Z = [P_1 X V_1 ... P_m X V_m], O is eliminated, and J is the derivative in A, B and V. Factors are
    balanced at the start.

    With `priors`, a ridge prior on all parameters is annealed (`upper.newton.schedules`).

    An inner step costs two passes of O(n k m d (d + 2 k)), or O(n k m r (d + k)) at low rank, and two products
    with Z. Memory beyond the examples, in numbers of 4 bytes (8 in float64): at most 6 n k m (d + 3 k) + 16 n k d +
    160 m d^2 + 8 (m d)^2, at low rank n k m (30 r + 9 k) + 16 n k d + 720 m r d + 32 (m r)^2. With few examples and
    d <= 64, `PairMoments` take 3 d^4 more.

    References
    ----------
    Variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's approximation (BIT 15, 1975).
    """
    heads = start if isinstance(start, Heads) else FullHeads(start)
    engine = Engine.of(x, y, heads.array, low=inner_dtype)
    yield from Run(engine, x, y, heads, rng).iterates(tolerance, priors=priors)


@dataclass(frozen=True, eq=False)
class LinearFit:
    """The linear factor by least squares (W at full rank, O at low rank) in float64; the other arrays are float32.

    If numbers overflow, `size` is infinite and the arrays are None. `parameters` are those of the heads.
    """

    factor: Shaped[Any, "columns d"] | Any = None
    size: float = math.inf  # the norm of Y - Z factor
    misfit: Shaped[Any, "rows d"] | Any = None  # Y - Z factor over its norm
    inverse: Shaped[Any, "columns columns"] | Any = None  # of G = Z^T Z with the ridge
    residual: float = math.inf  # size over the norm of the labels
    parameters: Any = None
    penalty: float = 0.0  # of the prior with sigma^2 = 1, relative to the squared norm of the labels

    def cost(self, prior: float) -> float:
        """The root of what is minimised with this prior, relative to the norm of the labels."""
        return math.sqrt(self.residual**2 + prior * self.penalty) if prior else self.residual


class Run:
    """The heads, the labels and the normal equations on one set of examples, in one precision at a time."""

    # the sizes that a prior expects, set at the first point that has one
    _scale: PriorScale | None = None

    def __init__(self, engine: Engine, x: Any, y: Any, start: Heads, rng: np.random.Generator) -> None:
        self._x, self._y, self._start, self._rng = engine.detach(x), engine.detach(y), start, rng
        self._unit = float(engine.xp.max(engine.xp.abs(self._y))) or 1.0
        self.set_up(replace(engine, causal=start.causal), Precision().ridge)

    def iterates(self, tolerance: float, *, priors: bool) -> Iterator[Iterate]:
        """The iterates from the start, as `gauss_newton` says."""
        damped, prior = Damping(), AnnealedPrior()
        # labels that are zero pull no step against a prior
        damping, passes, variance = (
            damped.first,
            1,
            prior.first if priors and self.engine.norm(self._y) else 0.0,
        )
        here = self.evaluate(self._start.parameters(self.engine), None, damping, variance)
        if not np.isfinite(here.residual):
            raise ValueError(
                "The start has logits beyond float32, or the examples are not finite: scale them down."
            )
        residuals = [here.residual]
        shown, iterate = here, self.iterate(here)
        yield replace(iterate, damping=damping, passes=passes, prior=variance)
        while True:
            here, evaluations = self.linearised(here, residuals, damping)
            passes, accepted = passes + evaluations + 1, False
            while not accepted:
                plateau = damped.on_plateau(residuals)
                accuracy = InnerSolve().accuracy(here.residual, tolerance, plateau=plateau)
                following = prior.following(variance, here.residual)
                trial, steps = self.trial(here, damping, accuracy, (variance, following))
                passes += 2 * steps + 2
                before, after = here.cost(following), trial.cost(following)
                accepted = after < before
                if accepted and variance > following == 0:  # the prior is dropped
                    damping = damped.first
                damping = next_damping(damping, before, after, steady=plateau or following > 0)
                here, variance = (trial, following) if accepted else (here, variance)
                if variance and damping > prior.stuck:
                    damping, variance, accepted = damped.first, 0.0, True
                    here, passes = self.evaluate(here.parameters, here.factor, damping), passes + 1
                residuals.append(here.residual)
                iterate = iterate if here is shown else self.iterate(here)
                shown, moved = here, here is not shown
                yield replace(iterate, damping=damping, passes=passes, prior=variance, accepted=moved)

    def set_up(self, engine: Engine, ridge: float) -> None:
        """Take another engine, of other precisions, with its least ridge; the old arrays are freed first."""
        self.engine, self._ridge = engine, ridge
        self.heads: Any = None
        self.equations: Any = None
        self._read: Any = None
        self.heads = self._start.on(engine, self._x, self._rng)
        self._set_labels(engine.single)
        self.equations = NormalEquations(engine, self.heads)

    def _set_labels(self, dtype: Any) -> None:
        engine = self.engine
        labels = engine.cast(self._y, engine.double) / self._unit
        self._labels: Any = None
        self._labels = engine.cast(engine.xp.reshape(labels, (-1, self._y.shape[2])), dtype)
        self._size = engine.norm(self._labels) or 1.0

    def linearised(self, here: LinearFit, residuals: list[float], damping: float) -> tuple[LinearFit, int]:
        """The point `here`, the last one evaluated, with the derivative there, and the evaluations that this took.

        It is evaluated again in the precision that a run with these residuals needs.
        """
        engine, precision, passes = self.engine, Precision(), 0
        if engine.single != engine.double and precision.slow(residuals):
            self.set_up(replace(engine, low=engine.double, single=engine.double), precision.precise_ridge)
            here, passes = self.evaluate(here.parameters, here.factor, damping), 1
        if here.residual < precision.double_below and self._labels.dtype != engine.double:
            self._read = None
            self.heads.go_to(engine.double)
            self._set_labels(engine.double)
            here, passes = self.evaluate(here.parameters, here.factor, damping), passes + 1
        self.heads.linearise(here.parameters, here.factor)
        self.equations.move_to(self._read, here.inverse)
        self._read = None
        return here, passes

    def trial(
        self, here: LinearFit, damping: float, accuracy: float, variances: tuple[float, float]
    ) -> tuple[LinearFit, int]:
        """The point after a damped step from `here`, and the number of inner steps of its solve.

        The step is for the first variance of the prior, and the linear factor there for the second.
        """
        engine, (variance, following) = self.engine, variances
        gradient, at_most, precisions = None, InnerSolve().steps, list(NO_PRIOR)
        if variance and self._scale is not None:
            at_most = AnnealedPrior().inner_steps
            precisions = [variance * self._size**2 * weight for weight in self._scale.weights]
            pulls = [p * block for p, block in zip(precisions, self._blocks(here.parameters), strict=True)]
            gradient = engine.cast(engine.xp.concat(pulls, axis=1) * (1 / here.size), engine.single)
        step, steps = self.equations.solve(
            here.misfit, damping, accuracy=accuracy, at_most=at_most, precisions=precisions, gradient=gradient
        )
        step = here.size * engine.cast(step, engine.double)
        return self.evaluate(here.parameters + step, here.factor, damping, following), steps

    def iterate(self, here: LinearFit) -> Iterate:
        """The state of the run at a point."""
        theta, w, *biases = self.heads.matrices(here.parameters, self._unit * here.factor)
        return replace(Iterate(theta, w, here.residual, 0.0, 0, *biases), causal=self.engine.causal)

    def evaluate(self, parameters: Any, factor: Any, damping: float, variance: float = 0.0) -> LinearFit:
        """The point at `parameters`; the ridge pulls towards `factor` if there is one and no prior, else to zero."""
        self._read = None
        engine, scale, penalty, ridge = self.engine, self._scale, 0.0, self._ridge
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            self._read = self.heads.reads(parameters)
            blocks = self._blocks(parameters) if variance else []
            if variance:
                scale = self._scale = scale or PriorScale.of(
                    engine, self._read, blocks, math.prod(self._y.shape)
                )
                ridge, factor = max(ridge, scale.ridge(engine, self._read, variance)), None
            fit = fit_linear(engine, self._read, self._labels, factor, damping, ridge=ridge)
        if variance and scale is not None and fit.factor is not None:
            penalty = scale.penalty(engine, blocks, fit.factor, len(self._labels), self._size)
        return replace(fit, residual=fit.size / self._size, parameters=parameters, penalty=penalty)

    def _blocks(self, parameters: Any) -> list[Any]:
        """The parameters that have one variance under the prior: the Theta_i, or the A_i, the B_i and the V_i."""
        columns, wide = self.heads.columns, parameters.shape[1]
        return [parameters[:, first : first + columns] for first in range(0, wide, columns)]


def fit_linear(
    engine: Engine,
    read: Shaped[Any, "rows columns"],
    labels: Shaped[Any, "rows d"],
    before: Shaped[Any, "columns d"] | None,
    damping: float,
    *,
    ridge: float,
) -> LinearFit:
    """The factor for the reads Z: one correction of the factor `before` (or of zero), towards which the ridge pulls.

    The ridge is at least `ridge` and 1e-3 min(damping, 1), in units of the mean diagonal of G.
    """
    xp = engine.xp
    if before is None:
        shape = (read.shape[1], labels.shape[1])
        factor, misfit = xp.zeros(shape, dtype=engine.double, device=engine.device), labels
    else:
        factor, misfit = before, labels - read @ engine.cast(before, labels.dtype)
    size = engine.norm(misfit)
    if not np.isfinite(size):
        return LinearFit()
    narrow = engine.cast(read, engine.single)
    gram = xp.matrix_transpose(narrow) @ narrow
    del narrow
    p = gram.shape[0]
    shift = max(ridge, 1e-3 * min(damping, 1.0)) * (float(xp.linalg.trace(gram)) / p) or 1.0
    inverse = engine.inverse_of_positive(gram + shift * xp.eye(p, dtype=engine.single, device=engine.device))
    if size > 0:
        pull = xp.matrix_transpose(read) @ (misfit * (1 / size))
        change = inverse @ engine.cast(pull, engine.single)
        factor = factor + size * engine.cast(change, engine.double)
        misfit = labels - read @ engine.cast(factor, labels.dtype)
        size = engine.norm(misfit)
    if not np.isfinite(size):
        return LinearFit()
    return LinearFit(factor, size, engine.cast(misfit * (1 / (size or 1.0)), engine.single), inverse)
