"""The Newton learner: exact recovery of nice layers from a few times the counting floor of examples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

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
from attention._arrays import count, non_negative
from attention.inputs import Rng
from attention.learning import Progress
from attention.metrics import relative_error
from upper.floor import counting_floor
from upper.gauss_newton import Iterate, gauss_newton

__all__ = ["EXACT_RESIDUAL", "Newton", "at_noise_level", "judge", "last_iterate", "same_residual"]

# A residual this small on held-out examples is rounding: nothing but the target itself explains them.
EXACT_RESIDUAL = 1e-10
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
            if ends[0].residual < max(EXACT_RESIDUAL, self.tolerance):
                break
            at_floor = same_residual(ends) and at_noise_level(ends[0], x_held, y_held)
        best = ends[0]
        outcome, held_error = judge(
            best,
            x_held,
            y_held,
            tolerance=self.tolerance,
            spent_all=spent >= self.work,
            at_floor=at_floor,
        )
        layer = _layer(best, unit)
        recorder.step(
            "Held-out examples",
            layer=layer,
            residual=best.residual,
            held_out_error=held_error,
            starts=len(ends),
        )
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
        theta = rng.standard_normal((self.m, d, d)) / d
        iterates = gauss_newton(x, y, theta, inner_steps=self.inner_steps, rng=rng)

        def tell(number: int, iterate: Iterate) -> None:
            recorder.step(
                f"Start {start}, iterate {number}",
                layer=_layer(iterate, unit) if recorder.measuring else None,
                residual=iterate.residual,
                damping=iterate.damping,
                passes=iterate.passes,
            )

        return last_iterate(iterates, tolerance=self.tolerance, work=work, tell=tell)


def last_iterate(
    iterates: Iterator[Iterate], *, tolerance: float, work: int, tell: Callable[[int, Iterate], None]
) -> Iterate:
    """The first iterate at the tolerance, at the end of the work, or at which the descent has stalled.

    Parameters
    ----------
    iterates : iterator of Iterate
        From `gauss_newton`.
    tolerance : float
        Relative residual at which to stop.
    work : int
        Passes after which to stop.
    tell : callable
        Called with the number of each iterate and the iterate.
    """
    history: list[float] = []
    for iterate in iterates:
        tell(len(history), iterate)
        history.append(iterate.residual)
        if iterate.residual <= tolerance or iterate.passes >= work or _stalled(history):
            return iterate
    raise AssertionError("gauss_newton never ends by itself")


def judge(
    best: Iterate,
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    *,
    tolerance: float,
    spent_all: bool,
    at_floor: bool = False,
) -> tuple[Outcome, float]:
    """What the best iterate amounts to on held-out examples, and its relative error there.

    Parameters
    ----------
    best : Iterate
        The best of all starts.
    x, y : array (n, k, d)
        Examples that were not fitted.
    tolerance : float
        The residual that was asked for.
    spent_all : bool
        Whether the work was spent.
    at_floor : bool
        Whether other starts ended at the same residual.
    """
    held_error = _held_out_error(best, x, y)
    if held_error < EXACT_RESIDUAL:
        return Outcome.EXACT, held_error
    if best.residual <= tolerance and held_error <= 4 * tolerance:
        return Outcome.REACHED_TOLERANCE, held_error
    if best.residual < 0.1 * held_error:
        return Outcome.OVERFITTED, held_error
    if at_floor:
        return Outcome.RESIDUAL_FLOOR, held_error
    return Outcome.WORK_SPENT if spent_all else Outcome.LOCAL_MINIMUM, held_error


def same_residual(ends: Sequence[Iterate]) -> bool:
    """Whether the two best of several starts ended at the same residual, to a per cent."""
    best = sorted(end.residual for end in ends)
    return len(best) > 1 and best[1] < 1.01 * best[0]


def at_noise_level(end: Iterate, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]) -> bool:
    """Whether held-out examples have the residual of the fitted ones, up to what fitting them takes off it."""
    return _held_out_error(end, x, y) < _HELD_OUT_RATIO * end.residual


def _stalled(history: list[float]) -> bool:
    if len(history) <= _STALL_ITERATES:
        return False
    before, now = history[-1 - _STALL_ITERATES], history[-1]
    # below EXACT_RESIDUAL only rounding is left to lose, and two iterates without progress are the floor
    return now > _STALL_RATIO * before or (now < EXACT_RESIDUAL and now > 0.5 * history[-3])


def _held_out_error(iterate: Iterate, x: np.ndarray, y: np.ndarray) -> float:
    predicted = AttentionLayer(theta=iterate.theta, w=iterate.w)(x)
    if not np.any(y):  # a zero target has no relative error; its predictor must be zero too
        return float(np.linalg.norm(predicted))
    return relative_error(predicted, y)


def _layer(iterate: Iterate, unit: float) -> AttentionLayer:
    return AttentionLayer(theta=iterate.theta, w=unit * iterate.w)
