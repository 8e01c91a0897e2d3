"""The loop of damped Gauss-Newton on Theta, with W eliminated, over any parametrisation of the heads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from attention.evaluation import EXACT_ERROR
from attention.validation import NonNegativeFloat, checked
from upper.engine import Engine
from upper.newton.full_heads import FullStart
from upper.newton.inner_solve import RIDGE, Elimination, LinearFit, NormalEquations

__all__ = ["Iterate", "Start", "gauss_newton", "next_damping"]

_FIRST_DAMPING = 1e-2  # from 1e-4 to 1e-1 it makes no difference
_INNER_STEPS = 60
# Below this residual float32 patterns are too coarse to measure the next one by.
_DOUBLE_BELOW = 2e-5
# A run is slow if so many trials below this residual left more than this share of it: local minima of nice targets lie
# above, and other runs fall faster. It goes on in float64 with the precise ridge: 1e-6 hides heads a hundredth apart.
_SLOW_BELOW, _SLOW_TRIALS, _SLOW_RATIO = 1e-2, 8, 0.5
_PRECISE_RIDGE = 1e-13


@runtime_checkable
class Start(Protocol):
    """Where to start, in a parametrisation of the heads: FullStart, FactoredHeads or SpanStart."""

    @property
    def array(self) -> Any:
        """One of its arrays, which says of what library they are."""

    def parametrise(
        self, engine: Engine, x: Shaped[Any, "n k d"], rng: np.random.Generator
    ) -> tuple[Callable[[Engine], Any], Any]:
        """What makes the heads on an engine, and the parameters to start from."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where a run of Gauss-Newton stands.

    Attributes
    ----------
    theta, w : array (m, d, d)
        The current parameters. After a rejected trial `theta` is the same object as before it.
    residual : float
        |Y - F(X)| / |Y| on the examples fitted.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    passes : int
        Passes over the data since the start: evaluations of F and products with J or its transpose.
    """

    theta: Shaped[Any, "m d d"]
    w: Shaped[Any, "m d d"]
    residual: float
    damping: float
    passes: int


@checked
def gauss_newton(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    start: Shaped[Any, "m d d"] | Start,
    *,
    inner_dtype: Any = None,
    tolerance: NonNegativeFloat = 0.0,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from `start`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library; everything is computed by it, where they are. Derivatives are not recorded.
    start : array (m, d, d), FactoredHeads or SpanStart
        Where to start, of the same library: the matrices Theta_i; factors of low rank, whose ranks all iterates have
        and whose O is not used; or coordinates in a span, which no iterate leaves.
    inner_dtype : dtype, optional
        Precision of the inner products, which need a few per cent only; by default bfloat16 where the hardware
        multiplies it, else float32.
    tolerance : float
        The relative residual the caller will stop at: no inner solve aims far below it.
    rng : Generator
        For the probe that estimates the coupling of heads.

    Yields
    ------
    Iterate
        After the start and after every trial, accepted or not (then only the damping differs); it never ends by
        itself. Parameters are float64, of the library of `start`.

    Raises
    ------
    ValueError
        If shapes do not fit, the arrays are of several libraries, or the residual at the start is not finite.

    Notes
    -----
    With Z = [P_1 X ... P_m X], a trial solves (J^T (I - Z G^-1 Z^T) J + lambda D) dTheta = J^T R
    (`upper.newton.inner_solve`) to the forcing term max(min(.7, c), .06, .3 tolerance / c), c the relative residual.
    G is Z^T Z and a ridge of max(1e-6, 1e-3 min(lambda, 1)) times its mean diagonal, and D the heads' `damping_term`:
    tr(C)/m I for full matrices, C the coupling of heads. lambda starts at 1e-2 and follows `next_damping`. W follows
    each trial by one correction, W + G^-1 Z^T (Y - Z W). Residuals are float32, and float64 once c < 2e-5.

    At low rank Z = [P_1 X V_1 ... P_m X V_m], O is eliminated, and J is the derivative in A, B and V (at r = d the V
    stay). Factors are balanced at the start and whenever norms of columns that belong together differ fourfold.

    A run that loses less than half in eight trials below c = 1e-2 goes on in float64 throughout, with 1e-13 for the
    ridge of 1e-6: heads at a relative distance e show in G by e^2 and in J^T J by e^4.

    An inner step costs two passes of O(n k m d (d + 2 k)), or O(n k m r (d + k)) at low rank, and two products
    with Z. Memory beyond the examples, in numbers of 4 bytes (8 in float64): at most 6 n k m (d + 3 k) + 16 n k d +
    160 m d^2 + 8 (m d)^2, at low rank n k m (30 r + 9 k) + 16 n k d + 720 m r d + 32 (m r)^2.

    References
    ----------
    Variable projection: Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's approximation (BIT 15, 1975).
    """
    start = start if isinstance(start, Start) else FullStart(start)
    engine = Engine.of(x, y, start.array, low=inner_dtype)
    run = _Run(engine, engine.detach(x), engine.detach(y), start, rng)
    damping, passes = _FIRST_DAMPING, 1
    here = run.begin(damping)
    if not np.isfinite(here.residual):
        raise ValueError(
            "The start has logits beyond float32, or the examples are not finite: scale them down."
        )
    residuals = [here.residual]
    yield run.iterate(here, damping, passes)
    while True:
        if run.improvable and _slow(residuals):
            here, passes = run.more_precise(here, damping), passes + 1
        if here.residual < _DOUBLE_BELOW and not run.in_double:
            here, passes = run.to_double(here, damping), passes + 1
        balanced = run.balanced(here, damping)
        if balanced is not None:
            here, passes = balanced, passes + 1
        run.linearise(here)
        passes += 1
        accepted = False
        while not accepted:
            c = here.residual
            forcing = max(min(0.7, c), 0.06, 0.3 * tolerance / max(c, tolerance, 1e-300))
            trial, steps = run.trial(here, damping, forcing)
            damping, passes = next_damping(damping, c, trial.residual), passes + 2 * steps + 2
            accepted = trial.residual < c
            here = trial if accepted else here
            residuals.append(here.residual)
            yield run.iterate(here, damping, passes)


def next_damping(damping: float, before: float, after: float) -> float:
    """Lambda after a trial that took the residual from `before` to `after`.

    It falls fourfold when the residual falls below .8 of itself, is at most the residual squared below .3 (then the
    convergence is superlinear), and grows fourfold when the residual does not fall.

    Examples
    --------
    >>> next_damping(0.01, 0.9, 0.5), next_damping(0.01, 0.9, 0.8), next_damping(0.01, 0.9, 1.2)
    (0.0025, 0.01, 0.04)
    >>> next_damping(0.01, 0.1, 0.01)
    0.0001
    """
    if not after < before:
        return 4 * max(damping, 1e-16)
    if after < 0.8 * before:
        damping *= 0.25
    return min(damping, after**2) if after < 0.3 else damping


def _slow(residuals: list[float]) -> bool:
    now = residuals[-1]
    # below, rounding alone makes a run slow
    if not EXACT_ERROR < now < _SLOW_BELOW or len(residuals) <= _SLOW_TRIALS:
        return False
    return now > _SLOW_RATIO * residuals[-1 - _SLOW_TRIALS]


@dataclass(frozen=True, eq=False)
class _Point:
    """Parameters and the linear factor fitted there."""

    parameters: Any
    fit: LinearFit

    @property
    def residual(self) -> float:
        return self.fit.residual


class _Run:
    """The heads, the elimination and the normal equations on one set of examples, in one precision at a time."""

    # set up anew for another precision, when their memory goes first
    _heads: Any = None
    _elimination: Any = None
    _equations: Any = None
    _read: Any = None

    def __init__(self, engine: Engine, x: Any, y: Any, start: Start, rng: np.random.Generator) -> None:
        self._y = y
        self._make, self._start = start.parametrise(engine, x, rng)
        self._last: tuple[_Point, Iterate] | None = None
        self._set_up(engine, RIDGE)

    def _set_up(self, engine: Engine, ridge: float) -> None:
        self.engine = engine
        self._heads = self._elimination = self._equations = self._read = None
        self._heads = self._make(engine)
        self._elimination = Elimination(engine, self._y, ridge=ridge)
        self._equations = NormalEquations(engine, self._heads)

    @property
    def in_double(self) -> bool:
        return bool(self._elimination.dtype == self.engine.double)

    @property
    def improvable(self) -> bool:
        return bool(self.engine.single != self.engine.double)

    def begin(self, damping: float) -> _Point:
        return self._evaluate(self._start, None, damping)

    def more_precise(self, here: _Point, damping: float) -> _Point:
        """The point on an engine of float64 alone, with hardly a ridge."""
        self._set_up(replace(self.engine, low=self.engine.double, single=self.engine.double), _PRECISE_RIDGE)
        return self._evaluate(here.parameters, here.fit.factor, damping)

    def to_double(self, here: _Point, damping: float) -> _Point:
        """The point with reads and residuals in float64."""
        self._read = None
        self._heads.go_to(self.engine.double)
        self._elimination.go_to(self.engine.double)
        return self._evaluate(here.parameters, here.fit.factor, damping)

    def balanced(self, here: _Point, damping: float) -> _Point | None:
        """The point in other parameters of the same heads; None where these are as good."""
        found = self._heads.balanced(here.parameters, here.fit.factor)
        if found is None:
            return None
        self._equations.forget()
        parameters, factor = found
        return self._evaluate(parameters, factor, damping)

    def linearise(self, here: _Point) -> None:
        """Take the derivative at the point, which was evaluated last."""
        self._heads.linearise(here.parameters, here.fit.factor)
        self._equations.move_to(self._read, here.fit.inverse)
        self._read = None  # its memory is the next trial's

    def trial(self, here: _Point, damping: float, forcing: float) -> tuple[_Point, int]:
        """The point a damped step from where the derivative was taken, and the steps its solve took."""
        engine, fit = self.engine, here.fit
        step, steps = self._equations.solve(fit.misfit, damping, forcing=forcing, at_most=_INNER_STEPS)
        step = fit.size * engine.cast(step, engine.double)
        cut, parameters = step.shape[1], here.parameters
        moved = parameters[:, :cut] + step
        if cut < parameters.shape[1]:  # values that stay
            moved = engine.xp.concat([moved, parameters[:, cut:]], axis=1)
        return self._evaluate(moved, fit.factor, damping), steps

    def iterate(self, here: _Point, damping: float, passes: int) -> Iterate:
        if self._last is None or self._last[0] is not here:
            theta, w = self._heads.matrices(here.parameters, self._elimination.unit * here.fit.factor)
            self._last = here, Iterate(theta, w, here.residual, damping, passes)
        return replace(self._last[1], damping=damping, passes=passes)

    def _evaluate(self, parameters: Any, factor: Any, damping: float) -> _Point:
        """The point at `parameters`; the ridge pulls towards the factor before, where there is one, not to zero."""
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            self._read = self._heads.reads(parameters)
            return _Point(parameters, self._elimination.fit(self._read, factor, damping))
