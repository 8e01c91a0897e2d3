"""Variable-projection Gauss-Newton for heads of low rank: O eliminated, A, B and V by damped matrix-free steps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from attention._arrays import count, non_negative, require_array, require_instance
from upper._elimination import DOUBLE_BELOW, RIDGE, Elimination
from upper._trials import trials
from upper.engine import Engine
from upper.factored_buffers import FactoredForward, side_by_side
from upper.factored_heads import FactoredHeads
from upper.factored_solver import FactoredSolver
from upper.gauss_newton import Iterate

__all__ = ["FactoredIterate", "factored_gauss_newton", "multiplied_out"]

# Factors are balanced anew when the norms of two columns that belong together differ by more than this factor.
_UNBALANCED = 4.0


@dataclass(frozen=True, eq=False)
class FactoredIterate:
    """Where a run of factored Gauss-Newton stands.

    Attributes
    ----------
    factors : FactoredHeads
        The current factors, in float64.
    residual : float
        |Y - F(X)| / |Y| on the examples fitted.
    damping : float
        The Levenberg-Marquardt parameter lambda.
    passes : int
        Passes over the data since the start: evaluations of F and products with J or its transpose.
    """

    factors: FactoredHeads
    residual: float
    damping: float
    passes: int

    def multiplied_out(self) -> Iterate:
        """The same with Theta and W as matrices of d by d."""
        layer = self.factors.layer()
        return Iterate(layer.theta, layer.w, self.residual, self.damping, self.passes)


def multiplied_out(iterates: Iterator[FactoredIterate]) -> Iterator[Iterate]:
    """The iterates with Theta and W as matrices of d by d; after a rejected trial the same arrays as before it."""
    before: Iterate | None = None
    for iterate in iterates:
        if before is None or iterate.residual < before.residual:
            before = iterate.multiplied_out()
        else:
            before = replace(before, damping=iterate.damping, passes=iterate.passes)
        yield before


def factored_gauss_newton(
    x: Shaped[Any, "n k d"],
    y: Shaped[Any, "n k d"],
    start: FactoredHeads,
    *,
    inner_steps: int = 60,
    inner_dtype: Any = None,
    tolerance: float = 0.0,
    rng: np.random.Generator,
) -> Iterator[FactoredIterate]:
    """Iterates of damped Gauss-Newton on A, B and V from `start`, O re-solved by least squares each time.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, of any array-API library; everything is computed by it, where they are.
    start : FactoredHeads
        Where to start, of the same library; its O counts for nothing. Its ranks r of Theta and s of W are those of
        all iterates. At s = d the V stay as they are, since O alone makes every W then.
    inner_steps : int
        At most so many conjugate-gradient steps an iterate.
    inner_dtype : dtype, optional
        Precision of the inner products, whose solution is needed to a few per cent only; by default bfloat16 where
        the hardware multiplies it, else float32.
    tolerance : float
        The relative residual the caller will stop at: no inner solve aims far below it.
    rng : Generator
        For the probe that estimates the coupling of heads.

    Yields
    ------
    FactoredIterate
        After the start and after every trial, accepted or not (then only the damping differs); it never ends by
        itself. Factors are float64, of the library of `start`.

    Raises
    ------
    ValueError
        If the arrays are of several libraries, or the residual at the start is not finite.

    Notes
    -----
    As `upper.gauss_newton`, with Z = [P_1 X V_1 ... P_m X V_m] of m s columns, the derivative J in A, B and V, and
    the damping and preconditioner of `upper.factored_solver`. Forcing terms, the rule for lambda, the ridge and the
    precisions are the same, but a descent that creeps stays in its precision, so that heads nearly equal are not
    resolved. Along A_i -> A_i G, B_i -> B_i G^-T and V_i -> V_i H nothing changes, which the damping
    makes harmless; factors are put in balanced form, A^T A = B^T B diagonal and V^T V = I, at the start and whenever
    norms of columns that belong together have come to differ fourfold.

    An inner step costs two passes of O(n k m (r + s) (d + k)) and two products with Z, O(n k m s d); no product is of
    d by d a head. Against a step of `upper.gauss_newton` with torch's bfloat16 it was measured 2.3 times faster at
    (m, k, d, r) = (12, 16, 192, 32) and 1.2 and 1.5 times slower at
    (12, 16, 96, 32) and (4, 4, 128, 16), where the batched products are small; with NumPy 2.2 times faster at
    (4, 4, 128, 16). Memory beyond the examples: at most
    n k m (15 (r + s) + 9 k) + 16 n k d + 240 m (2 r + s) d + 8 (m (r + s))^2 numbers of 4 bytes; a test holds NumPy to
    that.

    Measured, not proved, on nice layers of low rank from one random start, the rank known: how many examples are
    enough, in counting floors of that rank, grows as d / r and k do. At (m, k, d, r) = (2, 2, 32, 4) and
    (4, 4, 32, 16) four floors were (8 of 8 targets), at (4, 4, 32, 8) six (8 of 8), at (4, 4, 32, 4) and
    (4, 4, 64, 4) eight (8 of 8; at the first that is 160 examples, below two floors of full rank). With fewer, starts
    end in local minima: at (4, 4, 32, 4) with four floors all did, of 8; at (8, 4, 32, 4) with eight, 2 of 4. Before
    the last, fast phase the residual may fall by as little as 2 per cent in ten iterates.

    References
    ----------
    Derived here; variable projection is Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), in Kaufman's
    approximation (BIT 15, 1975).
    """
    require_array("x", x, ("n", "k", "d"))
    require_array("y", y, tuple(x.shape))
    require_instance("start", start, FactoredHeads, needed="FactoredHeads")
    require_instance("rng", rng, np.random.Generator, needed="a numpy.random.Generator")
    inner_steps, tolerance = count("inner_steps", inner_steps), non_negative("tolerance", tolerance)
    engine = Engine.of(x, y, start.a, low=inner_dtype)
    x, y, start = engine.detach(x), engine.detach(y), start.map(engine.detach)
    problem = _Problem(engine, x, y, start=start)
    solver = FactoredSolver(engine, x, start.heads, start.rank, start.w_rank, rng)
    damping = 1e-2
    here = problem.start(start, damping)
    if here.o is None:
        raise ValueError(
            "The start has logits beyond float32, or the examples are not finite: scale them down."
        )
    passes = 1
    yield problem.iterate(here, damping, passes)
    while True:
        doubling = here.residual < DOUBLE_BELOW and not problem.in_double
        if doubling:
            problem.to_double()
        if doubling or problem.unbalanced(here):
            solver.forget()  # what it keeps is in the factors before
            here = problem.balanced(here, damping)
            passes += 1
        solver.move_to(*problem.reads(here), here.factors, here.o, here.inverse)
        passes += 1
        for trial in trials(problem, solver, here, damping, inner_steps=inner_steps, tolerance=tolerance):
            here, damping = trial.point, trial.damping
            passes += trial.passes
            yield problem.iterate(here, damping, passes)


@dataclass(frozen=True, eq=False)
class _Point:
    """Factors with what was computed there; `misfit` is the labels' residual over its norm, in single precision."""

    factors: Any
    o: Any
    residual: float
    size: float
    misfit: Any
    inverse: Any


class _Problem:
    """The residual on the examples with O by least squares, in one precision at a time."""

    def __init__(self, engine: Engine, x: Any, y: Any, *, start: FactoredHeads) -> None:
        self._engine, self._x = engine, x
        self._heads, self._rank, self._w_rank = start.heads, start.rank, start.w_rank
        self._elimination = Elimination(engine, y, ridge=RIDGE)
        self._forward: Any = self._forward_in(engine.single)

    @property
    def in_double(self) -> bool:
        return self._elimination.dtype == self._engine.double

    def to_double(self) -> None:
        self._forward = None  # its memory goes first
        self._elimination.go_to(self._engine.double)
        self._forward = self._forward_in(self._engine.double)

    def _forward_in(self, dtype: Any) -> FactoredForward:
        tokens = self._engine.cast(self._x, dtype)
        return FactoredForward(self._engine, tokens, self._heads, self._rank, self._w_rank)

    def start(self, start: FactoredHeads, damping: float) -> _Point:
        return self.evaluate(self._flat(start.balanced()), None, damping)

    def iterate(self, here: _Point, damping: float, passes: int) -> FactoredIterate:
        heads = self._heads_of(here)
        heads = replace(heads, o=self._elimination.unit * heads.o)
        return FactoredIterate(heads, here.residual, damping, passes)

    def unbalanced(self, here: _Point) -> bool:
        xp, size = self._engine.xp, self._heads * self._rank
        squares = xp.sum(here.factors * here.factors, axis=0)
        a, b, v = squares[:size], squares[size : 2 * size], squares[2 * size :]
        tiny = 1e-12 * float(xp.max(squares))
        ratios = ((a + tiny) / (b + tiny), (b + tiny) / (a + tiny), v, 1 / (v + tiny))
        return max(float(xp.max(one)) for one in ratios) > _UNBALANCED**2

    def balanced(self, here: _Point, damping: float) -> _Point:
        heads = self._heads_of(here).balanced()
        m, r, d = heads.o.shape
        o = self._engine.xp.reshape(heads.o, (m * r, d))
        return self.evaluate(self._flat(heads), replace(here, o=o), damping)

    def reads(self, here: _Point) -> tuple[Any, Any, Any, Any]:
        return self._forward(self._engine.cast(here.factors, self._elimination.dtype))

    def moved(self, here: _Point, step: Any) -> Any:
        step = here.size * self._engine.cast(step, self._engine.double)
        rest = here.factors[:, step.shape[1] :]
        if rest.shape[1]:
            return self._engine.xp.concat([here.factors[:, : step.shape[1]] + step, rest], axis=1)
        return here.factors + step

    def _flat(self, heads: FactoredHeads) -> Any:
        engine = self._engine
        thirds = [
            side_by_side(engine, engine.cast(one, engine.double)) for one in (heads.a, heads.b, heads.v)
        ]
        return engine.xp.concat(thirds, axis=1)

    def _heads_of(self, here: _Point) -> FactoredHeads:
        xp, m = self._engine.xp, self._heads
        d, cut = here.factors.shape[0], self._heads * self._rank
        a, b, v = (
            xp.permute_dims(xp.reshape(one, (d, m, -1)), (1, 0, 2))
            for one in (here.factors[:, :cut], here.factors[:, cut : 2 * cut], here.factors[:, 2 * cut :])
        )
        return FactoredHeads(a=a, b=b, v=v, o=xp.reshape(here.o, (m, -1, d)))

    def evaluate(self, factors: Any, before: _Point | None, damping: float) -> _Point:
        """The point at `factors`; as a correction of the O before, the ridge pulls towards it and not towards zero."""
        with np.errstate(over="ignore", invalid="ignore"):  # a wild step is rejected
            _, read, _, _ = self._forward(self._engine.cast(factors, self._elimination.dtype))
            fit = self._elimination.fit(read, None if before is None else before.o, damping)
        if fit is None:
            return _Point(factors, None, np.inf, np.inf, None, None)
        return _Point(factors, fit.factor, fit.residual, fit.size, fit.misfit, fit.inverse)
