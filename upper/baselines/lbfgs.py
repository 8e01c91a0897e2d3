"""L-BFGS on all examples at once (SciPy): the quasi-Newton method one would reach for first."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

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
from attention.evaluation import EXACT_ERROR, hold_out
from attention.inputs import Rng
from attention.learning import Progress
from attention.memory import require_memory
from attention.validation import count, non_negative, random_generator, real_array
from upper._squared_error import layer_of_stacked, random_start, squared_error_gradient
from upper.floor import counting_floor

__all__ = ["LBFGS", "relative_loss"]

# in iterations: often enough for a curve, seldom enough to cost nothing
_LOOK_EVERY = 10
# a start is given up when the residual did not fall below this share of itself over so many iterations
_STALL_RATIO, _STALL_ITERATIONS = 0.99, 200
# the residual below which rounding alone is left
_ROUNDING = 1e-15


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory BFGS on Theta and W together, all examples in every pass, in float64.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default eight times the counting floor, and all that are given. A twentieth is held out.
    work : int
        Budget in passes over the examples, shared by all starts; an evaluation of the loss and its gradient is two.
    starts : int
        At most so many random starts; one that ends above the tolerance is followed by the next.
    tolerance : float
        Relative residual on the fitted examples at which to stop.
    history : int
        Pairs of steps and changes of the gradient that stand for the Hessian.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` below two examples.

    Notes
    -----
    Superlinear it is not: near the solution the residual falls by a steady factor an iteration. An evaluation takes
    O(n k m d (d + 2 k)), an iteration O(history m d^2) more; memory O(n k m (d + k) + history m d^2).

    References
    ----------
    Liu and Nocedal, Math. Programming 45 (1989); the code is `scipy.optimize.minimize(method="L-BFGS-B")`, Zhu, Byrd,
    Lu and Nocedal, ACM Trans. Math. Software 23 (1997).

    Examples
    --------
    >>> from attention import BooleanInputs, make_nice_layer
    >>> oracle = ExampleOracle(make_nice_layer(heads=1, dim=6, rng=0), BooleanInputs(k=3, d=6), rng=1)
    >>> LBFGS(1).fit(oracle, rng=2).outcome.name
    'EXACT'
    """

    m: int
    examples: int | None = None
    work: int = 20_000
    starts: int = 3
    tolerance: float = 1e-12
    history: int = 20

    def __post_init__(self) -> None:
        for name in ("m", "work", "starts", "history"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))

    def minimum_examples(self, k: int, d: int) -> int:
        """One example to fit and one to hold out."""
        return 2

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from one set of examples.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        rng = random_generator(rng)
        budget = check_budget(self, oracle)
        default = 8 * counting_floor(heads=self.m, tokens=oracle.k, dim=oracle.d) + 1
        n, k, d = default if budget is None else budget, oracle.k, oracle.d
        require_memory(
            f"LBFGS with {shown(self.m)} heads on {shown(n)} examples of {k} tokens in {d} dimensions",
            # the examples, of every head the pattern and what it reads, twice, and two vectors a step remembered
            8 * n * k * (6 * d + 4 * self.m * (k + d)) + 16 * self.m * d**2 * (2 * self.history + 8),
            advice="allow fewer examples, or take fewer heads or a shorter history",
        )
        x, y = draw_examples(oracle, n)
        # the loss is relative, and W scales with the labels: units keep their squares within the floats
        unit = float(np.abs(y).max()) or 1.0
        y = y / unit
        (x, y), held = hold_out(x, y)

        descent = _Descent(x, y, random_start(self.m, oracle.d, rng), self.work)
        best, fitted, starts = AttentionLayer(*(np.zeros((self.m, oracle.d, oracle.d)),) * 2), np.inf, 0
        while starts < self.starts and (starts == 0 or not descent.spent):
            starts += 1
            if starts > 1:
                descent.start = random_start(self.m, oracle.d, rng)

            def tell(
                iteration: int, residual: float, layer: Callable[[], AttentionLayer], start: int = starts
            ) -> None:
                recorder.step(
                    f"Start {start}, iteration {iteration}",
                    layer=_scaled(layer(), unit) if recorder.measuring else None,
                    residual=residual,
                    passes=descent.passes,
                )

            layer, residual = descent.run(history=self.history, tolerance=self.tolerance, tell=tell)
            if residual < fitted:
                best, fitted = layer, residual
            if fitted <= self.tolerance or held.error(best) < EXACT_ERROR:
                break
        ended = Outcome.WORK_SPENT if descent.spent else Outcome.LOCAL_MINIMUM
        outcome, error = held.verdict(best, fitted=fitted, tolerance=self.tolerance, otherwise=ended)
        layer = _scaled(best, unit)
        recorder.step(
            "Best start",
            layer=layer,
            residual=fitted,
            held_out_error=error,
            passes=descent.passes,
            starts=starts,
        )
        return recorder.fit(outcome, layer=layer)


def relative_loss(
    flat: Float[np.ndarray, "p"],
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
) -> tuple[float, Float[np.ndarray, "p"]]:
    """Half of |F(X) - Y|^2 / |Y|^2 and its gradient, in all parameters of the layer as one vector.

    Parameters
    ----------
    flat : array (2 m d^2,)
        The stacked Theta (d, m d), then the stacked W (m d, d).
    x, y : array (n, k, d)
        Examples; with labels that are all zero the loss is |F(X)|^2 / 2.

    Returns
    -------
    loss : float
        Half of the squared residual, relative to the labels.
    gradient : array (2 m d^2,)
        Stacked like `flat`.

    Raises
    ------
    ValueError
        If `flat` holds no whole number of heads of d coordinates, or `y` is not shaped like `x`.

    Notes
    -----
    Two passes, O(n k m d (d + 2 k)).

    References
    ----------
    Derived here; see `upper._squared_error`.
    """
    x = real_array("x", x, ("n", "k", "d"))
    y = real_array("y", y, x.shape)
    d = x.shape[-1]
    flat = real_array("flat", flat, ("p",))
    if len(flat) % (2 * d * d):
        raise ValueError(f"flat has {len(flat)} entries: 2 m d^2 of them with d = {d} are needed.")
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        loss, gradient = _relative_loss(flat, x, y)
    if not np.isfinite(loss) or not np.isfinite(gradient).all():
        raise ValueError("The loss at flat overflowed: scale flat, x or y down.")
    return loss, gradient


def _relative_loss(flat: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    d = x.shape[-1]
    theta, w = np.split(flat, 2)
    residual, *gradients = squared_error_gradient(x, y, theta.reshape(d, -1), w.reshape(-1, d))
    energy = float(np.vdot(y, y)) or 1.0
    gradient = np.concatenate([part.reshape(-1) for part in gradients]) * (len(x) / energy)
    return 0.5 * float(np.vdot(residual, residual)) / energy, gradient


class _WorkSpentError(Exception):
    """Leaves SciPy's loop in the midst of a line search."""


class _Descent:
    """SciPy's descent from one start after another, with the passes over the examples counted."""

    def __init__(self, x: np.ndarray, y: np.ndarray, start: tuple[np.ndarray, np.ndarray], work: int) -> None:
        self._x, self._y, self._work = x, y, work
        self.start = start
        self.passes = 0

    @property
    def spent(self) -> bool:
        """Whether one more evaluation would exceed the work."""
        return self.passes + 2 > self._work

    def run(
        self, *, history: int, tolerance: float, tell: Callable[..., None]
    ) -> tuple[AttentionLayer, float]:
        flat = np.concatenate([part.reshape(-1) for part in self.start])
        from scipy.optimize import minimize  # slow to import, and seldom needed

        self._best, self._least = flat, np.inf
        residuals: list[float] = []

        def each(intermediate_result: object) -> None:
            residuals.append(float(np.sqrt(2 * self._least)))
            if len(residuals) % _LOOK_EVERY == 0:
                tell(len(residuals), residuals[-1], self._layer)
            if residuals[-1] <= max(tolerance, _ROUNDING) or _stalled(residuals):
                raise StopIteration

        # a line search may try too far
        with np.errstate(over="ignore", invalid="ignore"), suppress(_WorkSpentError):
            minimize(
                self._evaluate,
                flat,
                jac=True,
                method="L-BFGS-B",
                callback=each,
                options={"maxcor": history, "maxiter": 10**9, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0},
            )
        residual = float(np.sqrt(2 * self._least))
        if len(residuals) % _LOOK_EVERY:
            tell(len(residuals), residual, self._layer)
        return self._layer(), residual

    def _evaluate(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        if self.spent and np.isfinite(self._least):
            raise _WorkSpentError
        self.passes += 2
        loss, gradient = _relative_loss(flat, self._x, self._y)
        if loss < self._least:
            self._best, self._least = flat.copy(), loss
        return loss, gradient

    def _layer(self) -> AttentionLayer:
        theta, w = np.split(self._best, 2)
        d = self._x.shape[-1]
        return layer_of_stacked(theta.reshape(d, -1), w.reshape(-1, d))


def _stalled(residuals: list[float]) -> bool:
    if len(residuals) <= _STALL_ITERATIONS:
        return False
    return residuals[-1] > _STALL_RATIO * residuals[-1 - _STALL_ITERATIONS]


def _scaled(layer: AttentionLayer, unit: float) -> AttentionLayer:
    return AttentionLayer(theta=layer.theta, w=unit * layer.w)
