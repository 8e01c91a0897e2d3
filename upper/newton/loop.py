"""Damped Gauss-Newton on the heads, with the linear factor eliminated: its damping, precision and iterates."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention import AttentionLayer
from attention.evaluation import EXACT_ERROR
from attention.validation import NonNegativeFloat, checked
from upper.engine import Engine
from upper.newton.full_heads import NO_PRIOR, FullHeads, Heads
from upper.newton.inner_solve import InnerSolve, LinearFit, NormalEquations, at_factor, fit_linear
from upper.newton.logit_weights import WeightedEquations
from upper.newton.prior import AnnealedPrior, PriorScale


@dataclass(frozen=True, eq=False)
class Iterate:
    """The state of a Gauss-Newton run."""

    layer: AttentionLayer  #: the current layer, in NumPy and float64
    residual: float  #: |Y - F(X)| / |Y| on the fitted examples
    damping: float = 0.0  #: the Levenberg-Marquardt parameter lambda
    #: passes over the data since the start: evaluations of F and products with J or its transpose
    passes: int = 0
    prior: float = 0.0  #: the variance sigma^2 of the annealed prior; 0 once it is dropped, and without it
    accepted: bool = True  #: False if it differs from the iterate before in the damping and the passes only
    #: of the end of a run: whether its work was spent while the error on held-out examples still fell
    improving: bool = False
    overfits: bool = False  #: whether it ended since it overfitted
    engine: str = ""  #: the engine of the run


@dataclass(frozen=True)
class Damping:
    """How far a step goes: a large lambda is gradient descent, lambda zero the full Gauss-Newton step."""

    first: float = 1e-2  #: at the start; values from 1e-4 to 1e-1 give the same results
    #: a run is on a plateau if so many accepted trials leave more than this share of the residual: there lambda falls
    #: with every accepted trial, and inner solves are more accurate, or else a saturated head, far above the mean
    #: curvature, keeps the others from moving
    plateau: int = 5
    plateau_ratio: float = 0.8

    def on_plateau(self, residuals: Sequence[float]) -> bool:
        """Whether the last of these residuals is on a plateau."""
        accepted = list(dict.fromkeys(residuals))  # a rejected trial repeats the residual
        return (
            len(accepted) > self.plateau and accepted[-1] > self.plateau_ratio * accepted[-1 - self.plateau]
        )


def next_damping(damping: float, before: float, after: float, *, steady: bool = False) -> float:
    """The damping lambda after a trial that changed the cost from `before` to `after`.

    It grows fourfold if the cost does not fall. It falls fourfold if `after` is below .8 of `before`, and if `steady`
    by half after any fall. If the cost falls below .3, lambda is at most its square: the convergence is then
    superlinear.

    Examples
    --------
    >>> next_damping(0.01, 0.9, 0.5), next_damping(0.01, 0.9, 0.8), next_damping(0.01, 0.9, 1.2)
    (0.0025, 0.01, 0.04)
    >>> next_damping(0.01, 0.1, 0.01), next_damping(0.01, 0.9, 0.8, steady=True)
    (0.0001, 0.005)
    """
    if not after < before:
        return 4 * max(damping, 1e-16)
    if after < 0.8 * before:
        damping *= 0.25
    elif steady:
        damping *= 0.5
    return min(damping, after**2) if after < 0.3 else damping


@dataclass(frozen=True)
class Precision:
    """When a run changes to float64: later is faster, earlier loses fewer digits."""

    #: below, reads and residuals are float64: float32 patterns are too coarse for the next
    double_below: float = 2e-5
    #: the least ridge on the linear factor, in units of the mean diagonal of G = Z^T Z, in float32 and throughout
    #: float64; heads at a relative distance e change G by e^2 and J^T J by e^4 only, so the first hides 1/100
    ridge: float = 1e-6
    precise_ridge: float = 1e-13
    #: a run is slow, and goes on in float64 throughout, if so many trials below this residual leave more than this
    #: share of it; local minima of nice targets have larger residuals, and other runs fall faster
    slow_below: float = 1e-2
    slow_trials: int = 8
    slow_ratio: float = 0.5

    def slow(self, residuals: Sequence[float]) -> bool:
        """Whether a run with these residuals is slow."""
        now = residuals[-1]
        # at smaller residuals, rounding alone makes a run slow
        if not EXACT_ERROR < now < self.slow_below or len(residuals) <= self.slow_trials:
            return False
        return now > self.slow_ratio * residuals[-1 - self.slow_trials]


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
        iteration never ends by itself.

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
    correction, W + G^-1 Z^T (Y - Z W). Residuals are float32, and float64 for the last digits (`Precision`). Near a
    solution, steps of full matrices are undamped, joint in Theta and W, and weighted (`upper.newton.logit_weights`).

    At low rank, Z = [P_1 X V_1 ... P_m X V_m], O is eliminated, and J is the derivative in A, B and V.

    With `priors`, a ridge prior on all parameters is annealed (`upper.newton.prior`).

    An inner step costs two passes of O(n k m d (d + 2 k)), or O(n k m r (d + k)) at low rank, and two products
    with Z. Memory beyond the examples, in numbers of 4 bytes (8 in float64): at most 6 n k m (d + 3 k) + 16 n k d +
    160 m d^2 + 8 (m d)^2, at low rank n k m (30 r + 9 k) + 16 n k d + 720 m r d + 32 (m r)^2. With d <= 64,
    `PairMoments` may take 3 d^4 more, and weights 4 n k (m k)^2, at most 16 n d^2.

    References
    ----------
    Variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's approximation (BIT 15, 1975).
    """
    heads = start if isinstance(start, Heads) else FullHeads(start)
    engine = Engine.of(x, y, heads.array, low=inner_dtype)
    yield from Run(engine, x, y, heads, rng).iterates(tolerance, priors=priors)


class Run:
    """The heads, the labels and the normal equations on one set of examples, in one precision at a time."""

    # the sizes that a prior expects, set at the first point that has one
    _scale: PriorScale | None = None

    def __init__(self, engine: Engine, x: Any, y: Any, start: Heads, rng: np.random.Generator) -> None:
        self._x, self._y, self._start, self._rng = engine.detach(x), engine.detach(y), start, rng
        self._unit = float(engine.xp.max(engine.xp.abs(self._y))) or 1.0
        self._name = str(engine)
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
        if here.residual < prior.learned:  # near a solution most of it is the pull of the ridge to zero
            here, passes = self.evaluate(here.parameters, here.factor, damping, variance), passes + 1
        residuals = [here.residual]
        shown, iterate = here, self.iterate(here)
        yield replace(iterate, damping=damping, passes=passes, prior=variance)
        while True:
            here, evaluations = self.linearised(here, residuals, damping)
            passes, accepted = passes + evaluations + 1, False
            while not accepted:
                plateau = damped.on_plateau(residuals)
                following = prior.following(variance, here.residual) if variance else 0.0
                weighted = self._weighted(here)
                if weighted:
                    trial, steps = self.weighted_trial(here, tolerance)
                else:
                    accuracy = InnerSolve().accuracy(here.residual, tolerance, plateau=plateau)
                    trial, steps = self.trial(here, damping, accuracy, (variance, following))
                passes += 2 * steps + 2
                before, after = here.cost(following), trial.cost(following)
                if weighted and not self.weighted.hold_after(before, after):
                    here, passes = self.evaluate(here.parameters, here.factor, damping), passes + 1
                    shown = here  # at the same parameters
                    break
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
        self.weighted: Any = None
        self._read: Any = None
        self.heads = self._start.on(engine, self._x, self._rng)
        self._set_labels(engine.single)
        self.equations = NormalEquations(engine, self.heads)
        self.weighted = WeightedEquations(engine, self.heads)

    def _weighted(self, here: LinearFit) -> bool:
        """Whether the next step has weights; a prior fixes its own."""
        return not here.penalty and self.weighted.hold_at(here.residual)

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
        equations = self.weighted if self._weighted(here) else self.equations
        equations.move_to(self._read, here.inverse)
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

    def weighted_trial(self, here: LinearFit, tolerance: float) -> tuple[LinearFit, int]:
        """The same with weighted rows, undamped, where the linear factor takes part in the step."""
        engine, solver = self.engine, InnerSolve(finest=self.weighted.finest)
        accuracy = solver.accuracy(here.residual, tolerance, plateau=False)
        parts, steps = self.weighted.solve(here.misfit, accuracy=accuracy, at_most=solver.steps)
        step, change = (here.size * engine.cast(part, engine.double) for part in parts)
        parameters, factor = here.parameters + step, here.factor + change
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            self._read = self.heads.reads(parameters)
            fit = at_factor(engine, self._read, self._labels, factor, here.inverse)
        return replace(fit, residual=fit.size / self._size, parameters=parameters), steps

    def iterate(self, here: LinearFit) -> Iterate:
        """The state of the run at a point."""
        arrays = self.heads.matrices(here.parameters, self._unit * here.factor)
        theta, w, *biases = map(self.engine.to_numpy, arrays)
        key_bias, bias = biases or (None, None)
        layer = AttentionLayer(theta, w, key_bias, bias, self.engine.causal)
        return Iterate(layer, here.residual, engine=self._name)

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
