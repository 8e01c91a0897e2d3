"""L-BFGS on all examples at once (SciPy), the usual quasi-Newton method."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import EXACT_ERROR
from attention.learning import LearnerBase, draw_and_hold_out
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.baselines.descent import layer_of_stacked, random_start, squared_error_gradient
from upper.floor import counting_floor

__all__ = ["LBFGS"]


@dataclass(frozen=True)
class _Stopping:
    """When a start ends, and how often it reports."""

    history: int = 20  #: pairs of a step and a change of the gradient that approximate the Hessian
    every: int = 10  #: iterations between records: enough for a curve, at negligible cost
    #: a start ends if so many iterations leave more than this share of the residual
    stall_ratio: float = 0.99
    stall_iterations: int = 200
    rounding: float = 1e-15  #: a smaller residual is only rounding error


_STOPPING = _Stopping()


@dataclass(frozen=True)
@checked
class LBFGS(LearnerBase):
    """Limited-memory BFGS on Theta and W together, all examples in every pass, in float64.

    Parameters
    ----------
    heads : int
        Heads of the student.
    examples : int, optional
        Budget in examples. The default is eight times the counting floor, or all examples if they are given. A
        twentieth is held out.
    work : int
        Budget in passes over the examples, shared by all starts; an evaluation of loss and gradient is two passes.
    starts : int
        The most random starts; after a start that ends above the tolerance comes the next one.
    tolerance : float
        Relative residual on the fitted examples at which to stop.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples.

    Notes
    -----
    Near the solution, the residual falls by a constant factor per iteration. An evaluation takes
    O(n k m d (d + 2 k)) time and O(n k m (d + k)) memory.

    References
    ----------
    Liu and Nocedal, Math. Programming 45 (1989); the code is `scipy.optimize.minimize(method="L-BFGS-B")`, Zhu, Byrd,
    Lu and Nocedal, ACM Trans. Math. Software 23 (1997).

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=1, dim=6, rng=0), BooleanInputs(tokens=3, dim=6), rng=1)
    >>> LBFGS(1).fit(oracle, rng=2).outcome.name
    'EXACT'
    """

    heads: PositiveInt
    examples: NonNegativeInt | None = None
    work: PositiveInt = 20_000
    starts: PositiveInt = 3
    tolerance: NonNegativeFloat = 1e-12

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        k, d = oracle.tokens, oracle.dim
        n = 8 * counting_floor(heads=self.heads, tokens=k, dim=d) + 1 if budget is None else budget
        (x, y), held = draw_and_hold_out(oracle, n)
        # scaling the labels prevents overflow of squares; the loss is relative, and W scales with the labels
        unit = float(np.abs(y).max()) or 1.0
        y, held = y / unit, replace(held, y=held.y / unit)

        def in_units(layer: AttentionLayer) -> AttentionLayer:
            return AttentionLayer(theta=layer.theta, w=unit * layer.w)

        run = _Run(x, y, self.work)
        best, fitted, starts = AttentionLayer(*(np.zeros((self.heads, d, d)),) * 2), np.inf, 0
        while starts < self.starts and (starts == 0 or not run.spent):
            starts += 1

            def tell(iteration: int, residual: float, start: int = starts) -> None:
                layer = in_units(run.layer()) if recorder.measuring else None
                name = f"Start {start}, iteration {iteration}"
                recorder.step(name, layer=layer, residual=residual, passes=run.passes)

            residual = run.minimise(random_start(self.heads, d, rng), self.tolerance, tell)
            if residual < fitted:
                best, fitted = run.layer(), residual
            if fitted <= self.tolerance or held.error(best) < EXACT_ERROR:
                break
        ended = Outcome.WORK_SPENT if run.spent else Outcome.LOCAL_MINIMUM
        verdict = held.verdict(best, fitted=fitted, tolerance=self.tolerance, otherwise=ended)
        measures: dict[str, Any] = {
            "residual": fitted,
            "held_out_error": verdict.held_out_error,
            "passes": run.passes,
            "starts": starts,
        }
        recorder.step("Best start", layer=in_units(best), **measures)
        return recorder.fit(verdict, layer=in_units(best))


class _WorkSpentError(Exception):
    """Ends SciPy's loop, also during a line search."""


class _Run:
    """SciPy's minimiser from several starts in turn; it counts the passes over the examples."""

    def __init__(self, x: np.ndarray, y: np.ndarray, work: int) -> None:
        self._x, self._y, self._work = x, y, work
        self._energy = float(np.vdot(y, y)) or 1.0
        self.passes = 0

    @property
    def spent(self) -> bool:
        """Whether one more evaluation would exceed the work."""
        return self.passes + 2 > self._work

    def minimise(self, start: tuple[np.ndarray, np.ndarray], tolerance: float, tell: Any) -> float:
        """The least relative residual found from a start; `layer` gives its layer."""
        from scipy.optimize import minimize  # slow to import and rarely needed

        flat = np.concatenate([part.reshape(-1) for part in start])
        self._best, self._least = flat, np.inf
        residuals: list[float] = []

        def each(intermediate_result: object) -> None:
            residuals.append(float(np.sqrt(2 * self._least)))
            if len(residuals) % _STOPPING.every == 0:
                tell(len(residuals), residuals[-1])
            long = len(residuals) > _STOPPING.stall_iterations
            stalled = (
                long and residuals[-1] > _STOPPING.stall_ratio * residuals[-1 - _STOPPING.stall_iterations]
            )
            if stalled or residuals[-1] <= max(tolerance, _STOPPING.rounding):
                raise StopIteration

        # a line search may try steps that overflow
        with np.errstate(over="ignore", invalid="ignore"), suppress(_WorkSpentError):
            minimize(
                self._loss,
                flat,
                jac=True,
                method="L-BFGS-B",
                callback=each,
                options={
                    "maxcor": _STOPPING.history,
                    "maxiter": 10**9,
                    "maxfun": 10**9,
                    "ftol": 0.0,
                    "gtol": 0.0,
                },
            )
        residual = float(np.sqrt(2 * self._least))
        if len(residuals) % _STOPPING.every:
            tell(len(residuals), residual)
        return residual

    def layer(self) -> AttentionLayer:
        """The best layer seen since the last start."""
        return layer_of_stacked(*self._stacked(self._best))

    def _loss(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Half of |F(X) - Y|^2 / |Y|^2 and its gradient in all parameters as one vector."""
        if self.spent and np.isfinite(self._least):
            raise _WorkSpentError
        self.passes += 2
        residual, *gradients = squared_error_gradient(self._x, self._y, *self._stacked(flat))
        loss = 0.5 * float(np.vdot(residual, residual)) / self._energy
        if loss < self._least:
            self._best, self._least = flat.copy(), loss
        gradient = np.concatenate([part.reshape(-1) for part in gradients])
        return loss, gradient * (len(self._x) / self._energy)

    def _stacked(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta, w = np.split(flat, 2)
        d = self._x.shape[-1]
        return theta.reshape(d, -1), w.reshape(-1, d)
