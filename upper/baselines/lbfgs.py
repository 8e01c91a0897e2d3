"""L-BFGS on all examples at once (SciPy), the usual quasi-Newton method."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attention import AttentionLayer, ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import EXACT_ERROR
from attention.learning import LearnerBase, draw_and_hold_out
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.baselines.descent import layer_of_stacked, random_start, squared_error_gradient
from upper.floor import counting_floor


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
        Budget in passes over the examples, shared by all starts; an evaluation of loss and gradient is two passes, and
        a started line search is finished.
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
        loss = _Loss(x, y, float(np.abs(y).max()) or 1.0)
        best, fitted, starts = AttentionLayer(*np.zeros((2, self.heads, d, d))), np.inf, 0
        while starts == 0 or (starts < self.starts and loss.passes + 2 <= self.work):
            starts += 1
            layer, residual = self._minimise(loss, random_start(self.heads, d, rng), starts, recorder)
            if residual < fitted:
                best, fitted = layer, residual
            if fitted <= self.tolerance or held.error(best) < EXACT_ERROR:
                break
        ended = Outcome.WORK_SPENT if loss.passes + 2 > self.work else Outcome.LOCAL_MINIMUM
        verdict = held.verdict(best, fitted=fitted, tolerance=self.tolerance, otherwise=ended)
        measures: dict[str, Any] = {
            "residual": fitted,
            "held_out_error": verdict.held_out_error,
            "passes": loss.passes,
            "starts": starts,
        }
        recorder.step("Best start", layer=best, **measures)
        return recorder.fit(verdict, layer=best)

    def _minimise(
        self, loss: "_Loss", start: tuple[np.ndarray, np.ndarray], number: int, recorder: Recorder
    ) -> tuple[AttentionLayer, float]:
        """The layer found from a start, and its relative residual; every few iterations are a step of the trace."""
        from scipy.optimize import minimize  # slow to import and rarely needed

        residuals: list[float] = []

        def record(flat: np.ndarray) -> None:
            layer = loss.layer(flat) if recorder.measuring else None
            name = f"Start {number}, iteration {len(residuals)}"
            recorder.step(name, layer=layer, residual=residuals[-1], passes=loss.passes)

        def each(intermediate_result: Any) -> None:
            residuals.append(math.sqrt(2 * intermediate_result.fun))
            if len(residuals) % _STOPPING.every == 0:
                record(intermediate_result.x)
            before = residuals[-1 - _STOPPING.stall_iterations :][0]
            long = len(residuals) > _STOPPING.stall_iterations
            stalled = long and residuals[-1] > _STOPPING.stall_ratio * before
            if stalled or residuals[-1] <= max(self.tolerance, _STOPPING.rounding):
                raise StopIteration

        with np.errstate(over="ignore", invalid="ignore"):  # a line search may try steps that overflow
            end = minimize(
                loss,
                np.concatenate([part.reshape(-1) for part in start]),
                jac=True,
                method="L-BFGS-B",
                callback=each,
                options={
                    "maxcor": _STOPPING.history,
                    "maxiter": self.work,
                    "maxfun": (self.work - loss.passes) // 2,
                    "ftol": 0.0,
                    "gtol": 0.0,
                },
            )
        if len(residuals) % _STOPPING.every:
            record(end.x)
        return loss.layer(end.x), math.sqrt(2 * end.fun)


class _Loss:
    """Half of |F(X) - Y|^2 / |Y|^2 and its gradient in all parameters as one vector; it counts the passes.

    The labels are divided by `unit`, so that their squares do not overflow; W scales with them.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, unit: float) -> None:
        self._x, self._y, self._unit = x, y / unit, unit
        self._energy = float(np.vdot(self._y, self._y)) or 1.0
        self.passes = 0

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        self.passes += 2
        residual, *gradients = squared_error_gradient(self._x, self._y, *self._stacked(flat))
        gradient = np.concatenate([part.reshape(-1) for part in gradients])
        loss = 0.5 * float(np.vdot(residual, residual)) / self._energy
        return loss, gradient * (len(self._x) / self._energy)

    def layer(self, flat: np.ndarray) -> AttentionLayer:
        """The layer of the parameters, for labels in their original units."""
        theta, w = self._stacked(flat)
        return layer_of_stacked(theta, self._unit * w)

    def _stacked(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta, w = np.split(flat, 2)
        d = self._x.shape[-1]
        return theta.reshape(d, -1), w.reshape(-1, d)
