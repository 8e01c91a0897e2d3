"""Variable-projection Gauss-Newton for attention layers: W eliminated, Theta by damped matrix-free steps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention.evaluation import EXACT_ERROR
from attention.validation import non_negative, require_array, require_instance
from upper.engine import Engine
from upper.newton.elimination import DOUBLE_BELOW, RIDGE, Elimination, LinearFit
from upper.newton.factors import FactoredHeads
from upper.newton.full_heads import FullHeads
from upper.newton.low_rank_heads import LowRankHeads
from upper.newton.normal_equations import NormalEquations
from upper.newton.span_heads import SpanHeads, SpanStart

__all__ = ["Iterate", "gauss_newton", "next_damping"]

_FIRST_DAMPING = 1e-2
_INNER_STEPS = 60
# A descent creeps if so many trials below this residual did not take it below this share of itself. Local minima of
# nice targets are above it, and descents that meet none fall faster.
_CREEP_BELOW, _CREEP_TRIALS, _CREEP_RATIO = 1e-2, 8, 0.5
# For a descent that creeps, in place of `RIDGE`.
_PRECISE_RIDGE = 1e-13


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


def gauss_newton(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    start: Shaped[Any, "m d d"] | FactoredHeads | SpanStart,
    *,
    inner_dtype: Any = None,
    tolerance: float = 0.0,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from `start`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library; everything is computed by it, where they are. Derivatives are not recorded.
    start : array (m, d, d), FactoredHeads or SpanStart
        Where to start, of the same library: the matrices Theta_i; factors of low rank, whose O counts for nothing; or
        coordinates in a span, which no iterate leaves. The ranks r of Theta and s of W are those of all iterates. At
        s = d the V stay as they are.
    inner_dtype : dtype, optional
        Precision of the inner products, whose solution is needed to a few per cent only; by default bfloat16 where
        the hardware multiplies it, else float32. A descent that creeps goes over to float64.
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
        If the arrays are of several libraries, or the residual at the start is not finite.

    Notes
    -----
    With Z = [P_1 X ... P_m X] and G = Z^T Z, a trial solves (J^T (I - Z G^-1 Z^T) J + lambda D) dTheta = J^T R by
    preconditioned conjugate gradients (see `upper.newton.normal_equations`), to the forcing term
    max(min(.7, c), .06, .3 tolerance / c), c the relative residual. D is a multiple of the identity for matrices (see
    `upper.newton.full_heads`) and follows the factors for low rank (see `upper.newton.low_rank_heads`). lambda starts
    at 1e-2 and follows `next_damping`. W follows each trial by one least-squares correction with ridge
    max(1e-6, 1e-3 lambda) times the mean diagonal of G. Residuals are float32, and float64 once c < 2e-5.

    At low rank Z = [P_1 X V_1 ... P_m X V_m], what is eliminated is O, and J is the derivative in A, B and V. Along
    A_i -> A_i G, B_i -> B_i G^-T and V_i -> V_i H nothing changes, which the damping makes harmless. Factors are put in
    balanced form, A^T A = B^T B diagonal and V^T V = I, at the start and whenever norms of columns that belong
    together have come to differ fourfold.

    A descent that creeps below c = 1e-2, losing less than half in eight trials, goes on in float64 throughout and with
    1e-13 for the ridge of 1e-6. That is for heads that are nearly equal: with Theta_1 - Theta_2 of relative size e, Z
    has singular values of order e, so that G has eigenvalues of order e^2; and e itself is seen only by second
    differences, in J^T J by order e^4. At e = .01 the ridge hides it, and so do products in float32. From four times
    the counting floor 6 of 6 layers of (4, 4, 32) with such a pair ended at 1e-13, their Theta_i at 1e-11, in 1400 to
    2600 passes, where they were let creep, for up to 40 trials that took less than a tenth off; of two tried with that
    ridge throughout none did.

    An inner step costs two passes of O(n k m d (d + 2 k)) and two products with Z; at low rank the passes are of
    O(n k m (r + s) (d + k)), with no product of d by d a head. Memory beyond the examples: at most
    6 n k m (d + 3 k) + 16 n k d + 160 m d^2 + 8 (m d)^2 numbers of 4 bytes, and 64 KiB; a test holds NumPy to that,
    down to the counting floor, where with few heads the third term is the largest: it is mostly the directions that are
    kept for the preconditioner. At low rank it is n k m (15 (r + s) + 9 k) + 16 n k d + 240 m (2 r + s) d +
    8 (m (r + s))^2. A descent that creeps takes numbers of 8 bytes.

    Measured, not proved, on nice layers of low rank from one random start, the rank known: how many examples are
    enough, in counting floors of that rank, grows as d / r and k do. At (m, k, d, r) = (2, 2, 32, 4) and
    (4, 4, 32, 16) four floors were (8 of 8 targets), at (4, 4, 32, 8) six (8 of 8), at (4, 4, 32, 4) and
    (4, 4, 64, 4) eight (8 of 8; at the first that is 160 examples, below two floors of full rank). With fewer, starts
    end in local minima: at (4, 4, 32, 4) with four floors all did, of 8; at (8, 4, 32, 4) with eight, 2 of 4. Before
    the last, fast phase the residual may fall by as little as 2 per cent in ten iterates. Against a step with
    matrices and torch's bfloat16 a step was measured 2.3 times faster at (m, k, d, r) = (12, 16, 192, 32) and 1.2
    and 1.5 times slower at (12, 16, 96, 32) and (4, 4, 128, 16), where the batched products are small; with NumPy
    2.2 times faster at (4, 4, 128, 16).

    Tried on nice layers, without help or with too little of it: row weights 1 / (p + eps)^2 in logit space, which took
    10 to 30 per cent off the inner steps of the last phase but need four batched products more a step; the full
    weight (M M^T + tau^2)^-1 of each row, 1.3 to 1.6 times fewer inner steps for (m k)^2 numbers a row; scalar row
    weights; inner solves to c instead of a few per cent (as many steps in all); the Gram matrix of an iterate
    before (convergence then is no longer superlinear); a start of lambda from 1e-4 to 1e-1 (no difference).
    Not built: a fused kernel for J^T. With NumPy, J^T alone reaches 57 to 71 per cent of the rate of one large product
    from (m, k, d) = (4, 4, 32) to (8, 8, 64), so that little is left to gain; 37 per cent at (2, 2, 32).

    References
    ----------
    Derived here; variable projection is Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's
    approximation (BIT 15, 1975).
    """
    require_array("x", x, ("n", "k", "d"))
    require_array("y", y, tuple(x.shape))
    require_instance("rng", rng, np.random.Generator, needed="a numpy.random.Generator")
    tolerance = non_negative("tolerance", tolerance)
    given: Any = start
    if isinstance(start, FactoredHeads):
        given = start.a
    else:
        given = start.basis if isinstance(start, SpanStart) else start
        require_array("start", given, ("matrices", x.shape[-1], x.shape[-1]))
    engine = Engine.of(x, y, given, low=inner_dtype)
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
        if run.improvable and _creeps(residuals):
            here, passes = run.more_precise(here, damping), passes + 1
        if here.residual < DOUBLE_BELOW and not run.in_double:
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

    Notes
    -----
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


def _creeps(residuals: list[float]) -> bool:
    now = residuals[-1]
    # rounding alone makes a descent creep below
    if not EXACT_ERROR < now < _CREEP_BELOW or len(residuals) <= _CREEP_TRIALS:
        return False
    return now > _CREEP_RATIO * residuals[-1 - _CREEP_TRIALS]


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

    def __init__(
        self, engine: Engine, x: Any, y: Any, start: Any | FactoredHeads, rng: np.random.Generator
    ) -> None:
        self._y = y
        make: Callable[[Engine], Any]
        if isinstance(start, FactoredHeads):
            start = start.map(engine.detach).map(lambda one: engine.cast(one, engine.double)).balanced()
            make = partial(
                LowRankHeads, x=x, rng=rng, heads=start.heads, rank=start.rank, w_rank=start.w_rank
            )
            self._start = start.side_by_side()
        elif isinstance(start, SpanStart):
            coordinates = engine.cast(engine.detach(start.coordinates), engine.double)
            make = partial(SpanHeads, x=x, rng=rng, heads=len(coordinates), basis=engine.detach(start.basis))
            self._start = engine.xp.matrix_transpose(coordinates)
        else:
            m, d, _ = start.shape
            xp, theta = engine.xp, engine.cast(engine.detach(start), engine.double)
            make = partial(FullHeads, x=x, rng=rng, heads=m)
            self._start = xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (d, m * d))
        self._make = make
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
