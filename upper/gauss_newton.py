"""Variable-projection Gauss-Newton for attention layers: W eliminated, Theta by damped matrix-free steps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention._arrays import count, non_negative, require_array, require_instance
from attention.evaluation import EXACT_ERROR
from upper._elimination import DOUBLE_BELOW, RIDGE, Elimination
from upper._trials import trials
from upper.buffers import StackedForward
from upper.engine import Engine
from upper.inner_solver import InnerSolver

__all__ = ["Iterate", "gauss_newton"]

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
        The current parameters.
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
    theta: Shaped[Any, "m d d"],
    *,
    inner_steps: int = 60,
    inner_dtype: Any = None,
    tolerance: float = 0.0,
    rng: np.random.Generator,
) -> Iterator[Iterate]:
    """Iterates of damped Gauss-Newton on Theta from the start `theta`, W re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library; everything is computed by it, where they are. Derivatives are not recorded.
    theta : array (m, d, d)
        Where to start, of the same library.
    inner_steps : int
        At most so many conjugate-gradient steps an iterate.
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
        itself. Parameters are float64, of the library of `theta`.

    Raises
    ------
    ValueError
        If the arrays are of several libraries, or the residual at the start is not finite.

    Notes
    -----
    With Z = [P_1 X ... P_m X] and G = Z^T Z, a trial solves
    (J^T (I - Z G^-1 Z^T) J + lambda tr(C)/m) dTheta = J^T R by preconditioned conjugate gradients (see
    `upper.inner_solver`), to the forcing term max(min(.7, c), .06, .3 tolerance / c), c the relative residual.
    lambda starts at 1e-2, falls fourfold when c falls below .8 of itself, is at most c^2 below c = .3 (then the
    convergence is superlinear), and grows fourfold on rejection. W follows each trial by one least-squares
    correction with ridge max(1e-6, 1e-3 lambda) times the mean diagonal of G. Residuals are float32, and float64
    once c < 2e-5.

    A descent that creeps below c = 1e-2, losing less than half in eight trials, goes on in float64 throughout and with
    1e-13 for the ridge of 1e-6. That is for heads that are nearly equal: with Theta_1 - Theta_2 of relative size e, Z
    has singular values of order e, so that G has eigenvalues of order e^2; and e itself is seen only by second
    differences, in J^T J by order e^4. At e = .01 the ridge hides it, and so do products in float32. From four times
    the counting floor 6 of 6 layers of (4, 4, 32) with such a pair ended at 1e-13, their Theta_i at 1e-11, in 1400 to
    2600 passes, where they were let creep, for up to 40 trials that took less than a tenth off; of two tried with that
    ridge throughout none did.

    An inner step costs two passes of O(n k m d (d + 2 k)) and two products with Z. Memory beyond the examples: at most
    6 n k m (d + 3 k) + 16 n k d + 160 m d^2 + 8 (m d)^2 numbers of 4 bytes, and 64 KiB; a test holds NumPy to that,
    down to the counting floor, where with few heads the third term is the largest: it is mostly the directions that are
    kept for the preconditioner. A descent that creeps takes numbers of 8 bytes.

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
    require_array("theta", theta, ("m", x.shape[-1], x.shape[-1]))
    require_instance("rng", rng, np.random.Generator, needed="a numpy.random.Generator")
    inner_steps, tolerance = count("inner_steps", inner_steps), non_negative("tolerance", tolerance)
    engine = Engine.of(x, y, theta, low=inner_dtype)
    x, y, theta = (engine.detach(array) for array in (x, y, theta))
    problem: Any = _Problem(engine, x, y, heads=theta.shape[0])
    solver: Any = InnerSolver(engine, x, theta.shape[0], rng)
    damping = 1e-2
    here = problem.evaluate(engine.cast(theta, engine.double), None, damping)
    if here.w is None:
        raise ValueError(
            "The start has logits beyond float32, or the examples are not finite: scale them down."
        )
    passes, residuals = 1, [here.residual]
    yield problem.iterate(here, damping, passes)
    while True:
        if engine.single != engine.double and _creeps(residuals):
            here = here.without_reads()
            engine = replace(engine, low=engine.double, single=engine.double)
            problem = solver = None  # their memory goes first
            problem = _Problem(engine, x, y, heads=theta.shape[0], ridge=_PRECISE_RIDGE)
            solver = InnerSolver(engine, x, theta.shape[0], rng)
            here = problem.evaluate(here.theta, here, damping)
            passes += 1
        if here.residual < DOUBLE_BELOW and not problem.in_double:
            here = here.without_reads()
            problem.to_double()
            here = problem.evaluate(here.theta, here, damping)
            passes += 1
        solver.move_to(here.pattern, here.read, here.w, here.inverse)
        here = here.without_reads()  # their memory is the next trial's
        passes += 1
        for trial in trials(problem, solver, here, damping, inner_steps=inner_steps, tolerance=tolerance):
            here, damping = trial.point, trial.damping
            passes += trial.passes
            residuals.append(here.residual)
            yield problem.iterate(here, damping, passes)
        del trial  # it holds what was read at the point, whose memory may go


def _creeps(residuals: list[float]) -> bool:
    now = residuals[-1]
    # rounding alone makes a descent creep below
    if not EXACT_ERROR < now < _CREEP_BELOW or len(residuals) <= _CREEP_TRIALS:
        return False
    return now > _CREEP_RATIO * residuals[-1 - _CREEP_TRIALS]


@dataclass(frozen=True, eq=False)
class _Point:
    """Parameters with what was computed there; `misfit` is the labels' residual over its norm, in single precision."""

    theta: Any
    w: Any
    residual: float
    size: float
    misfit: Any
    inverse: Any
    pattern: Any = None
    read: Any = None

    def without_reads(self) -> "_Point":
        return replace(self, pattern=None, read=None)


class _Problem:
    """The layer's residual on the examples with W by least squares, in one precision at a time."""

    def __init__(self, engine: Engine, x: Any, y: Any, *, heads: int, ridge: float = RIDGE) -> None:
        self._engine, self._x = engine, x
        self._elimination = Elimination(engine, y, ridge=ridge)
        self._forward: Any = StackedForward(engine, engine.cast(x, engine.single), heads)

    @property
    def in_double(self) -> bool:
        return self._elimination.dtype == self._engine.double

    def to_double(self) -> None:
        engine, heads = self._engine, self._forward.heads
        self._forward = None  # its memory goes first
        self._elimination.go_to(engine.double)
        self._forward = StackedForward(engine, engine.cast(self._x, engine.double), heads)

    def iterate(self, here: _Point, damping: float, passes: int) -> Iterate:
        w = self._elimination.unit * self._engine.xp.reshape(here.w, here.theta.shape)
        return Iterate(here.theta, w, here.residual, damping, passes)

    def moved(self, here: _Point, step: Any) -> Any:
        m, d, _ = here.theta.shape
        xp = self._engine.xp
        apart = xp.permute_dims(xp.reshape(step, (d, m, d)), (1, 0, 2))
        return here.theta + here.size * self._engine.cast(apart, self._engine.double)

    def evaluate(self, theta: Any, before: _Point | None, damping: float) -> _Point:
        """The point at `theta`; as a correction of the W before, the ridge pulls towards it and not towards zero."""
        engine, xp = self._engine, self._engine.xp
        m, d, _ = theta.shape
        stacked = xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (d, m * d))
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            pattern, read = self._forward(engine.cast(stacked, self._elimination.dtype))
            fit = self._elimination.fit(read, None if before is None else before.w, damping)
        if fit is None:
            return _Point(theta, None, np.inf, np.inf, None, None)
        return _Point(theta, fit.factor, fit.residual, fit.size, fit.misfit, fit.inverse, pattern, read)
