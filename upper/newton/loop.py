"""Damped Gauss-Newton on the heads, with the linear factor eliminated, for any parametrisation of the heads."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from attention import AttentionLayer
from attention._arrays import to_numpy
from attention.evaluation import EXACT_ERROR
from attention.validation import NonNegativeFloat, checked
from upper.engine import Engine
from upper.newton.full_heads import NO_PRIOR, FullStart

__all__ = [
    "FOUND",
    "Iterate",
    "LinearFit",
    "NormalEquations",
    "Start",
    "fit_linear",
    "gauss_newton",
    "next_damping",
]

_FIRST_DAMPING = 1e-2  # values from 1e-4 to 1e-1 give the same results
_INNER_STEPS = 60
# The path of priors: the first variance sigma^2, its factor an iterate, and the last; and the most inner steps of an
# iterate. The path ends below the residual FOUND, since minima that hold runs have larger ones.
_FIRST_PRIOR, _SHRINK, _LAST_PRIOR, _PATH_STEPS = 0.7, 0.95, 0.02, 12
FOUND = 0.15
# It also ends if sigma^2 is below the squared residual: on paths to a solution it is larger, and at the level of noise
# there is nothing left to find. Above _MOST_LAST a run may not have begun to follow its path.
_MOST_LAST = 0.4
# The path also ends if no step is accepted up to this damping: only rounding is left of the prior's pull.
_STUCK = 1e3
# On a plateau: _PLATEAU trials leave more than _PLATEAU_RATIO of the residual. Inner solves are then at least this
# accurate.
_PLATEAU, _PLATEAU_RATIO, _PLATEAU_FORCING = 5, 0.8, 0.1
# Below this residual, float32 patterns are too coarse to measure the next residual.
_DOUBLE_BELOW = 2e-5
# A run is slow if _SLOW_TRIALS trials below the residual _SLOW_BELOW leave more than _SLOW_RATIO of it. Local minima of
# nice targets have larger residuals, and other runs fall faster. A slow run continues in float64 with the precise
# ridge, since the ridge 1e-6 hides the difference of heads at a relative distance of 1/100.
_SLOW_BELOW, _SLOW_TRIALS, _SLOW_RATIO = 1e-2, 8, 0.5
# The least ridge on the linear factor, in units of the mean diagonal of G.
_RIDGE, _PRECISE_RIDGE = 1e-6, 1e-13
# Directions kept from the last solves. With 30 there are 15 to 20 per cent fewer steps; more cost the time they save.
_KEPT = 30


@runtime_checkable
class Start(Protocol):
    """A start in a parametrisation of the heads: FullStart, FactoredHeads or SpanStart."""

    @property
    def array(self) -> Any:
        """One of its arrays; all are of the same library."""

    def parametrise(
        self, engine: Engine, x: Shaped[Any, "n k d"], rng: np.random.Generator
    ) -> tuple[Callable[[Engine], Any], Any]:
        """A function that makes the heads on an engine, and the parameters at the start."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """The state of a Gauss-Newton run.

    Attributes
    ----------
    theta, w : array (m, d, d)
        The current parameters. After a rejected trial `theta` is the same object as before it.
    key_bias, bias : array (m, d) and (d,), optional
        The biases, if the heads have some.
    residual : float
        |Y - F(X)| / |Y| on the fitted examples.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    passes : int
        Passes over the data since the start: evaluations of F and products with J or its transpose.
    prior : float
        The variance sigma^2 of the noise that the path of priors assumes; 0 at its end, and without it.
    causal : bool
        Whether the heads are causal.
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
    start: Shaped[Any, "m e d"] | Start,
    *,
    inner_dtype: Any = None,
    tolerance: NonNegativeFloat = 0.0,
    priors: bool = False,
    causal: bool = False,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from `start`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library. All arithmetic uses this library and their device. Derivatives are not
        recorded.
    start : array (m, d, d) or (m, d + 1, d), FactoredHeads or SpanStart
        The start, of the same library: the matrices Theta_i, or factors of low rank, or coordinates in a span. All
        iterates keep the rank or stay in the span. The O of factors is not used. With d + 1 rows, the last row of each
        matrix is c_i, and the biases are fitted too.
    inner_dtype : dtype, optional
        Precision of the products in the inner solve, which need an accuracy of a few per cent only. The default is
        bfloat16 if the hardware multiplies it, else float32.
    tolerance : float
        The relative residual at which the caller will stop; no inner solve aims far below it.
    priors : bool
        Whether to begin on the path of priors. The start must then be random: its size is taken for that of the target.
    causal : bool
        Whether row j attends to the tokens up to j only.
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
    With Z = [P_1 X ... P_m X], a trial solves (J^T (I - Z G^-1 Z^T) J + lambda D) dTheta = J^T R
    (`NormalEquations`) to the accuracy max(min(.7, c), .06, .3 tolerance / c), with c the relative residual. G is
    Z^T Z plus a ridge of max(1e-6, 1e-3 min(lambda, 1)) times its mean diagonal. D is the `damping_term` of the heads:
    tr(C)/m I for full matrices, with C the coupling of heads. lambda starts at 1e-2 and follows `next_damping`. After
    each trial, W gets one correction, W + G^-1 Z^T (Y - Z W). Residuals are float32, and float64 once c < 2e-5.

    At low rank, Z = [P_1 X V_1 ... P_m X V_m], O is eliminated, and J is the derivative in A, B and V (at r = d the V
    stay fixed). Factors are balanced at the start, and again if the norms of corresponding columns differ fourfold.

    If five accepted trials leave more than .8 of the residual, lambda halves with every accepted trial and the accuracy
    is at least .1: else a saturated head, far above the mean curvature, keeps the others from moving.

    The path of priors minimises |Y - F|^2 + sigma^2 (|W|^2 / tau_w^2 + |Theta|^2 / tau_theta^2), at low rank with the
    factors in place of W and Theta. W is eliminated by ridge. The tau are those of the start, with tau_w such that
    Z W has the size of Y. sigma^2 starts at .7 of the variance of Y and shrinks by .95 with every accepted trial;
    lambda halves. The path ends at c = .15, once sigma^2 is below .02 or below c^2, or if no step is accepted up to
    lambda = 1000.

    Below c = 1e-2, a run whose residual falls by less than half in eight trials continues in float64 throughout. Its
    ridge is then 1e-13 in place of 1e-6, since heads at a relative distance e change G by e^2 and J^T J by e^4 only.

    An inner step costs two passes of O(n k m d (d + 2 k)), or O(n k m r (d + k)) at low rank, and two products
    with Z. Memory beyond the examples, in numbers of 4 bytes (8 in float64): at most 6 n k m (d + 3 k) + 16 n k d +
    160 m d^2 + 8 (m d)^2, at low rank n k m (30 r + 9 k) + 16 n k d + 720 m r d + 32 (m r)^2. With few examples and
    d <= 64, `PairMoments` take 3 d^4 more.

    References
    ----------
    Variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's approximation (BIT 15, 1975).
    """
    start = start if isinstance(start, Start) else FullStart(start)
    engine = replace(Engine.of(x, y, start.array, low=inner_dtype), causal=causal)
    run = _Run(engine, engine.detach(x), engine.detach(y), start, rng)
    # labels that are zero pull no step against a prior
    damping, passes, prior = _FIRST_DAMPING, 1, _FIRST_PRIOR if priors and engine.norm(y) > 0 else 0.0
    here = run.evaluate(run.start, None, damping, prior)
    if not np.isfinite(here.residual):
        raise ValueError(
            "The start has logits beyond float32, or the examples are not finite: scale them down."
        )
    residuals = [here.residual]
    yield run.iterate(here, damping, passes, prior)
    while True:
        if run.improvable and _slow(residuals):
            run.more_precise()
            here, passes = run.evaluate(here.parameters, here.factor, damping), passes + 1
        if here.residual < _DOUBLE_BELOW and not run.in_double:
            run.go_to(engine.double)
            here, passes = run.evaluate(here.parameters, here.factor, damping), passes + 1
        balanced = run.balanced(here)
        if balanced is not None:
            here, passes = run.evaluate(*balanced, damping, prior), passes + 1
        run.linearise(here)
        passes += 1
        accepted = False
        while not accepted:
            c, plateau = here.residual, _on_plateau(residuals)
            forcing = max(min(0.7, c), 0.06, 0.3 * tolerance / max(c, tolerance, 1e-300))
            if plateau:
                forcing = min(forcing, _PLATEAU_FORCING)
            trial, steps = run.trial(here, damping, forcing, prior)
            following, passes = _next_prior(prior, c), passes + 2 * steps + 2
            before, after = here.cost(following), trial.cost(following)
            accepted = after < before
            if accepted and prior > following == 0:  # the end of the path
                damping = _FIRST_DAMPING
            damping = next_damping(damping, before, after, steady=plateau or following > 0)
            here, prior = (trial, following) if accepted else (here, prior)
            if prior and damping > _STUCK:
                damping, prior, accepted = _FIRST_DAMPING, 0.0, True
                here, passes = run.evaluate(here.parameters, here.factor, damping), passes + 1
            residuals.append(here.residual)
            yield run.iterate(here, damping, passes, prior)


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


def _next_prior(prior: float, residual: float) -> float:
    least = max(_LAST_PRIOR, min(residual**2, _MOST_LAST))
    return _SHRINK * prior if prior > least and residual > FOUND else 0.0


def _on_plateau(residuals: list[float]) -> bool:
    accepted = list(dict.fromkeys(residuals))  # a rejected trial repeats the residual
    return len(accepted) > _PLATEAU and accepted[-1] > _PLATEAU_RATIO * accepted[-1 - _PLATEAU]


def _slow(residuals: list[float]) -> bool:
    now = residuals[-1]
    # at smaller residuals, rounding alone makes a run slow
    if not EXACT_ERROR < now < _SLOW_BELOW or len(residuals) <= _SLOW_TRIALS:
        return False
    return now > _SLOW_RATIO * residuals[-1 - _SLOW_TRIALS]


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


class _Run:
    """The heads, the labels and the normal equations on one set of examples, in one precision at a time."""

    # set up again for another precision; the old arrays are freed first
    _heads: Any = None
    _labels: Any = None
    _equations: Any = None
    _read: Any = None
    # set at the first point of the path: the inverse variance of each block of parameters, and |Z|^2
    _weights: Sequence[float] = NO_PRIOR
    _spread: float = 0.0

    def __init__(self, engine: Engine, x: Any, y: Any, start: Start, rng: np.random.Generator) -> None:
        self._y = y
        self._unit = float(engine.xp.max(engine.xp.abs(y))) or 1.0
        self._make, self.start = start.parametrise(engine, x, rng)
        self._last: tuple[LinearFit, Iterate] | None = None
        self._set_up(engine, _RIDGE)

    def _set_up(self, engine: Engine, ridge: float) -> None:
        self.engine, self._ridge = engine, ridge
        self._heads = self._equations = self._read = None
        self._heads = self._make(engine)
        self._equations = NormalEquations(engine, self._heads)
        self._set_labels(engine.single)

    def _set_labels(self, dtype: Any) -> None:
        engine = self.engine
        labels = engine.cast(self._y, engine.double) / self._unit
        self._labels = engine.cast(engine.xp.reshape(labels, (-1, self._y.shape[2])), dtype)
        self._size = engine.norm(self._labels) or 1.0

    @property
    def in_double(self) -> bool:
        return bool(self._labels.dtype == self.engine.double)

    @property
    def improvable(self) -> bool:
        return bool(self.engine.single != self.engine.double)

    def more_precise(self) -> None:
        """Change to float64 throughout, with the precise ridge."""
        self._set_up(replace(self.engine, low=self.engine.double, single=self.engine.double), _PRECISE_RIDGE)

    def go_to(self, dtype: Any) -> None:
        """Change the precision of reads and residuals."""
        self._read = None
        self._heads.go_to(dtype)
        self._set_labels(dtype)

    def balanced(self, here: LinearFit) -> tuple[Any, Any] | None:
        """Balanced parameters of the same heads, and the linear factor; None if these are already balanced."""
        found: tuple[Any, Any] | None = self._heads.balanced(here.parameters, here.factor)
        if found is not None:
            self._equations.forget()
        return found

    def linearise(self, here: LinearFit) -> None:
        """Take the derivative at the point `here`, which must be the last one evaluated."""
        self._heads.linearise(here.parameters, here.factor)
        self._equations.move_to(self._read, here.inverse)
        self._read = None

    def trial(self, here: LinearFit, damping: float, forcing: float, prior: float) -> tuple[LinearFit, int]:
        """The point after a damped step from `here`, and the number of inner steps of its solve.

        The step is for this variance of the `prior`, and the linear factor there for the next one.
        """
        engine, towards, at_most = self.engine, None, _INNER_STEPS
        precisions = [prior * self._size**2 * weight for weight in self._weights]
        if prior:
            pulls = [p * one for p, one in zip(precisions, self._blocks(here.parameters), strict=True)]
            towards = engine.cast(engine.xp.concat(pulls, axis=1) * (1 / here.size), engine.single)
            at_most = _PATH_STEPS
        step, steps = self._equations.solve(
            here.misfit, damping, forcing=forcing, at_most=at_most, precisions=precisions, towards=towards
        )
        step = here.size * engine.cast(step, engine.double)
        cut, parameters = step.shape[1], here.parameters
        moved = parameters[:, :cut] + step
        if cut < parameters.shape[1]:  # V stays fixed
            moved = engine.xp.concat([moved, parameters[:, cut:]], axis=1)
        return self.evaluate(moved, here.factor, damping, _next_prior(prior, here.residual)), steps

    def iterate(self, here: LinearFit, damping: float, passes: int, prior: float) -> "Iterate":
        if self._last is None or self._last[0] is not here:
            theta, w, *biases = self._heads.matrices(here.parameters, self._unit * here.factor)
            made = Iterate(theta, w, here.residual, damping, passes, *biases)
            self._last = here, replace(made, causal=self.engine.causal)
        return replace(self._last[1], damping=damping, passes=passes, prior=prior)

    def evaluate(self, parameters: Any, factor: Any, damping: float, prior: float = 0.0) -> LinearFit:
        """The point at `parameters`; the ridge pulls towards `factor` if there is one and no prior, else to zero."""
        self._read = None
        norm, penalty = self.engine.norm, 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            self._read = self._heads.reads(parameters)
            ridge = self._ridge
            if prior:
                spread, (rows, columns), blocks = (
                    norm(self._read) ** 2,
                    self._read.shape,
                    self._blocks(parameters),
                )
                if not self._spread:  # the start is a draw of the prior, and Z factor there as large as Y
                    self._spread = spread
                    self._weights = [
                        math.prod(one.shape) / (math.prod(self._y.shape) * norm(one) ** 2) for one in blocks
                    ]
                ridge, factor = max(ridge, prior * self._spread / spread * columns / rows), None
            fit = fit_linear(self.engine, self._read, self._labels, factor, damping, ridge=ridge)
        if prior and fit.factor is not None:
            of_blocks = (w * norm(one) ** 2 for w, one in zip(self._weights, blocks, strict=True))
            penalty = sum(of_blocks) + self._spread / rows * (norm(fit.factor) / self._size) ** 2
        return replace(fit, residual=fit.size / self._size, parameters=parameters, penalty=penalty)

    def _blocks(self, parameters: Any) -> list[Any]:
        """The parameters that have one variance under the prior: the Theta_i, or the A_i, the B_i and the V_i."""
        columns, wide = self._heads.columns, parameters.shape[1]
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


class NormalEquations:
    """Solves (J^T (I - Z G^-1 Z^T) J + lambda D) s = J^T R by preconditioned conjugate gradients.

    J, its transpose, lambda D and the preconditioner M come from the heads. Products are in the engine's low precision,
    and the vectors of the iteration in its single precision.

    Notes
    -----
    A step costs one product with J, one with its transpose, two with Z and one with the preconditioner. The
    preconditioner is M deflated by the last 30 directions: with these as columns of S, Y = (A + lambda D) S and
    E = S^T Y, it is (I - S E^-1 Y^T) M (I - Y E^-1 S^T) + S E^-1 S^T. Memory: n k (columns of Z + d) numbers in low
    precision, and 60 directions (150 while a preconditioner is made).

    References
    ----------
    The limited-memory preconditioner of Gratton, Sartenaer and Tshimanga, SIAM J. Optim. 21 (2011).
    """

    def __init__(self, engine: Engine, heads: Any) -> None:
        self._engine, self._heads = engine, heads
        self._read: Any = None
        self._inverse: Any = None
        # directions p and their products A p, scaled to p^T (A + lambda D) p = 1; the oldest first
        self._kept: list[tuple[Any, Any]] = []

    def move_to(self, read: Shaped[Any, "rows columns"], inverse: Shaped[Any, "columns columns"]) -> None:
        """Set the point of the equations: the reads Z of the heads there, and G^-1 in single precision."""
        self._read = self._engine.cast(read, self._engine.low)
        self._inverse = inverse

    def forget(self) -> None:
        """Drop the kept directions, after a change to other parameters of the same heads."""
        self._kept.clear()

    def solve(
        self,
        residual: Shaped[Any, "rows d"],
        damping: float,
        *,
        forcing: float,
        at_most: int,
        precisions: Sequence[float] = NO_PRIOR,
        towards: Shaped[Any, "p parameters"] | None = None,
    ) -> tuple[Shaped[Any, "p directions"], int]:
        """The solution to the relative accuracy `forcing`, in the preconditioner's norm, and the number of steps.

        `precisions` of the prior, one for each block of parameters, are added to lambda D, and `towards` is the
        gradient of the prior. It ends early if rounding leaves no positive curvature.
        """
        engine, damped = self._engine, self._heads.damping_term(damping, precisions)
        # numbers may overflow if the outputs hardly depend on the heads or lambda is huge; that step is rejected
        with np.errstate(over="ignore", invalid="ignore"):
            apply = self._preconditioner(self._heads.preconditioner(damping, precisions), damped)
            r = self._pull(engine.cast(residual, engine.low))
            if towards is not None:
                r = r - towards[:, : r.shape[1]]
            solution = engine.xp.zeros_like(r)
            z = apply(r)
            p, rz = z, engine.dot(r, z)
            goal = forcing * forcing * rz
            steps = 0
            while steps < at_most and rz > goal and np.isfinite(rz):
                plain, shift = self._times(p), damped(p)
                # add the damping separately: a small one would be lost to rounding in the product
                curvature = engine.dot(p, plain) + engine.dot(p, shift)
                if not (curvature > 0 and np.isfinite(curvature)):
                    break
                unit = curvature**-0.5
                self._kept.append((p * unit, plain * unit))
                if len(self._kept) > _KEPT:
                    del self._kept[0]  # at once: a long solve has several times as many directions
                length = rz / curvature
                solution += length * p
                plain += shift
                r = r - length * plain
                z = apply(r)
                before, rz = rz, engine.dot(r, z)
                p = z + (rz / before) * p
                steps += 1
        return solution, steps

    def _pull(self, flat: Any) -> Any:
        return self._engine.cast(self._heads.transpose_times(flat), self._engine.single)

    def _times(self, direction: Any) -> Any:
        engine = self._engine
        change = self._heads.times(direction)
        inner = engine.cast(engine.xp.matrix_transpose(self._read) @ change, engine.single)
        change -= self._read @ engine.cast(self._inverse @ inner, engine.low)
        return self._pull(change)

    def _preconditioner(
        self, first: Callable[[Any], Any], damped: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        engine, xp = self._engine, self._engine.xp
        if not self._kept:
            return first
        # stack S after Y, so that at most 90 vectors exist beside the 60 kept ones
        y = xp.stack([product + damped(one) for one, product in self._kept])
        y = xp.reshape(y, (len(self._kept), -1))
        s = xp.reshape(xp.stack([one for one, _ in self._kept]), y.shape)
        gram = to_numpy(s @ xp.matrix_transpose(y)).astype(np.float64)
        if not np.isfinite(gram).all():  # a direction overflowed: drop all
            self.forget()
            return first
        values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
        good = values > 1e-6 * values[-1]  # smaller eigenvalues are rounding
        if not good.any():
            return first
        whiten = engine.put((vectors[:, good] / np.sqrt(values[good])).T, engine.single)
        s, y = whiten @ s, whiten @ y
        s_turned, y_turned = xp.matrix_transpose(s), xp.matrix_transpose(y)

        def both(r: Any) -> Any:
            column = xp.reshape(r, (-1, 1))
            along = s @ column
            z = xp.reshape(first(xp.reshape(column - y_turned @ along, r.shape)), (-1, 1))
            return xp.reshape(z + s_turned @ (along - y @ z), r.shape)

        return both
