"""The Newton learner: exact recovery of nice layers from a few times the counting floor of examples."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

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
from attention._arrays import count, non_negative
from attention.inputs import Rng
from attention.learning import Progress
from attention.metrics import relative_error
from upper.floor import counting_floor
from upper.gauss_newton import Iterate, gauss_newton

__all__ = ["Newton"]

# A residual this small on held-out examples is rounding: nothing but the target itself explains them.
_EXACT = 1e-10
# A start is given up when the residual did not fall below this share of itself over so many iterates: on nice
# targets the worst such ratio seen is 1e-9. It would be wrong on a target so ill-conditioned that damped steps creep.
_STALL_ITERATES, _STALL_RATIO = 10, 0.7
# Two starts at the same residual, with held-out examples not much above it, mean that no start does better: the
# labels are noisy, or the student too small. Local minima of one target differ in residual.
_HELD_OUT_RATIO = 1.5


@dataclass(frozen=True)
class Newton:
    """Damped Gauss-Newton on all parameters: W eliminated by least squares, Theta from random starts.

    Parameters
    ----------
    m : int
        Heads of the student.
    examples : int, optional
        Budget in examples; by default four times the counting floor. A twentieth of them is held out to tell an
        exact layer from an overfitted one; all starts share the same examples.
    work : int
        Budget in passes over the examples, shared by all starts; a trial once begun is finished.
    starts : int
        At most so many random starts; a start that stalls in a local minimum is followed by the next.
    tolerance : float
        Relative residual on the fitted examples at which to stop.
    inner_steps : int
        At most so many conjugate-gradient steps an iterate.

    Raises
    ------
    ValueError
        If a parameter is out of range, or on `fit` if the examples are fewer than the counting floor.

    Notes
    -----
    Measured, not proved: on nice random layers one start at four times the floor ends at rounding error in about
    12 iterates and 600 passes; each pass costs O(n k m d (d + 2 k)). On hard instances it ends in a local minimum,
    as it must. A start is Theta ~ N(0, (1/d)^2), half the scale of the nice layers, with W by least squares.

    References
    ----------
    Derived here; see `upper.gauss_newton`.

    Examples
    --------
    >>> from attention import BooleanInputs, ExampleOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=8, rng=0)
    >>> fit = Newton(m=2).fit(ExampleOracle(layer, BooleanInputs(k=3, d=8), rng=1), rng=2)
    >>> fit.outcome.name, fit.examples_used
    ('EXACT', 44)
    """

    m: int
    examples: int | None = None
    work: int = 20_000
    starts: int = 10
    tolerance: float = 1e-14
    inner_steps: int = 60

    def __post_init__(self) -> None:
        for name in ("m", "work", "starts", "inner_steps"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if self.examples is not None:
            object.__setattr__(self, "examples", count("examples", self.examples, least=0))
        object.__setattr__(self, "tolerance", non_negative("tolerance", self.tolerance))

    def minimum_examples(self, k: int, d: int) -> int:
        """The counting floor, and one example to hold out."""
        return counting_floor(heads=self.m, tokens=k, dim=d) + 1

    def fit(
        self,
        oracle: ExampleOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Learn a layer of m heads from the oracle.

        Raises
        ------
        ValueError
            If the budget is below `minimum_examples`, or the oracle's examples are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        rng = np.random.default_rng(rng)
        floor = counting_floor(heads=self.m, tokens=oracle.k, dim=oracle.d)
        budget = check_budget(self, oracle)
        default = 4 * floor if self.examples is None else self.examples
        n = max(default if budget is None else min(default, budget), floor + 1)
        x, y = draw_examples(oracle, n)
        # the residual is relative, and W scales with the labels: units keep their squares within the floats
        unit = float(np.abs(y).max()) or 1.0
        y = y / unit
        held_out = min(max(1, n // 20), n - floor)
        x_held, y_held, x, y = x[:held_out], y[:held_out], x[held_out:], y[held_out:]

        ends: list[Iterate] = []
        spent, at_floor = 0, False
        while len(ends) < self.starts and spent < self.work and not at_floor:
            ends.append(self._run(x, y, unit, self.work - spent, len(ends) + 1, recorder, rng))
            spent += ends[-1].passes
            ends.sort(key=attrgetter("residual"))
            if ends[0].residual < max(_EXACT, self.tolerance):
                break
            at_floor = _same_residual(ends) and (
                _held_out_error(ends[0], x_held, y_held) < _HELD_OUT_RATIO * ends[0].residual
            )
        best = ends[0]
        held_error = _held_out_error(best, x_held, y_held)
        layer = _layer(best, unit)
        recorder.step(
            "Held-out examples",
            layer=layer,
            residual=best.residual,
            held_out_error=held_error,
            starts=len(ends),
        )
        outcome = self._outcome(best, held_error, spent_all=spent >= self.work, at_floor=at_floor)
        return recorder.fit(outcome, layer=layer)

    def _run(
        self,
        x: np.ndarray,
        y: np.ndarray,
        unit: float,
        work: int,
        start: int,
        recorder: Recorder,
        rng: np.random.Generator,
    ) -> Iterate:
        d = x.shape[-1]
        history: list[float] = []
        theta = rng.standard_normal((self.m, d, d)) / d
        iterates = gauss_newton(x, y, theta, inner_steps=self.inner_steps, rng=rng)
        for iterate in iterates:
            recorder.step(
                f"Start {start}, iterate {len(history)}",
                layer=_layer(iterate, unit) if recorder.measuring else None,
                residual=iterate.residual,
                damping=iterate.damping,
                passes=iterate.passes,
            )
            history.append(iterate.residual)
            if iterate.residual <= self.tolerance or iterate.passes >= work or _stalled(history):
                return iterate
        raise AssertionError("gauss_newton never ends by itself")

    def _outcome(self, best: Iterate, held_error: float, *, spent_all: bool, at_floor: bool) -> Outcome:
        if held_error < _EXACT:
            return Outcome.EXACT
        if best.residual <= self.tolerance and held_error <= 4 * self.tolerance:
            return Outcome.REACHED_TOLERANCE
        if best.residual < 0.1 * held_error:
            return Outcome.OVERFITTED
        if at_floor:
            return Outcome.RESIDUAL_FLOOR
        return Outcome.WORK_SPENT if spent_all else Outcome.LOCAL_MINIMUM


def _stalled(history: list[float]) -> bool:
    if len(history) <= _STALL_ITERATES:
        return False
    before, now = history[-1 - _STALL_ITERATES], history[-1]
    # below _EXACT only rounding is left to lose, and two iterates without progress are the floor
    return now > _STALL_RATIO * before or (now < _EXACT and now > 0.5 * history[-3])


def _same_residual(ends: list[Iterate]) -> bool:
    return len(ends) > 1 and ends[1].residual < 1.01 * ends[0].residual


def _layer(iterate: Iterate, unit: float) -> AttentionLayer:
    return AttentionLayer(theta=iterate.theta, w=unit * iterate.w)


def _held_out_error(iterate: Iterate, x: np.ndarray, y: np.ndarray) -> float:
    predicted = AttentionLayer(theta=iterate.theta, w=iterate.w)(x)
    if not np.any(y):  # a zero target has no relative error; its predictor must be zero too
        return float(np.linalg.norm(predicted))
    return relative_error(predicted, y)
