"""Study: a path from a nice random layer to a hidden parity: where each learner stops, and what makes it hard."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from arena.paper_figure import PaperFigure
from arena.studies._path_figure import draw_path_figure
from arena.studies._path_rows import (
    LEARNED,
    Place,
    by_place,
    main_family,
    median_error,
    path_of,
    shown_error,
)
from arena.studies._path_to_parity import STEEPEST, PathPoint, draw_path
from arena.studies._path_words import TITLES, bits_in_words, found_in_words
from arena.studies.study import Parameters, Row, Study, Table
from attention import BooleanInputs, ExampleOracle, Learner
from attention.metrics import relative_error, unknown_part_error
from paper_checks import Scale, proportion_interval
from sq import ParityElimination
from upper import LBFGS, Adam, LinearBaseline, Newton
from upper.six_phase import SixPhase

__all__ = ["STUDY"]

_WORK = {"newton": 1500, "six-phase": 1500, "l-bfgs": 1000, "adam": 1500, "linear": 1, "elimination": 1}
_QUICK_STEPS = 200  # of Adam
_SHAPES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
_APART = (0.0, 0.8, 0.95, 1.0)
_FRESH = 2000
_CONFIDENCE = 0.95


def _cells(scale: Scale) -> list[Parameters]:
    quick = scale is Scale.QUICK
    dim = 8 if quick else 12
    draws = dict.fromkeys(TITLES, 1) if quick else {"newton": 5, "six-phase": 5, "l-bfgs": 2, "adam": 2}
    shapes, slopes = ((0.0, 0.8, 0.95, 1.0), (0.0, 1.0)) if quick else (_SHAPES, (0.0, 0.5, 1.0))
    apart = (0.0, 1.0) if quick else _APART
    cells = [
        _cell(learner, draw, dim=dim, shape=t, slope=slope, quick=quick)
        for learner in TITLES
        # a run of Adam takes five seconds
        for slope in (slopes if learner != "adam" else slopes[::2])
        for t in shapes
        for draw in range(2 if quick and learner == "newton" else draws.get(learner, 5))
    ]
    cells += [
        _cell("newton", draw, dim=dim, shape=a, projections=b)
        for a in apart
        for b in apart
        if a != b
        for draw in range(2 if quick else 5)
    ]
    # ranks alone: the nice end with those of the parity
    cells += [
        _cell(learner, draw, dim=dim, ends="low rank")
        for learner in ("newton", "six-phase")
        for draw in range(1 if quick else 5)
    ]
    sizes = ((2, 8),) if quick else ((3, 8), (3, 16), (1, 12), (2, 12), (5, 12))
    cells += [
        _cell("newton", draw, dim=other, bits=bits, shape=t)
        for bits, other in sizes
        for t in ((0.0, 0.8, 1.0) if quick else (0.0, 0.5, 0.8, 0.9, 0.95, 1.0))
        for draw in range(1 if quick else 4)
    ]
    return cells


def _cell(
    learner: str,
    draw: int,
    *,
    dim: int,
    bits: int = 3,
    shape: float = 0.0,
    slope: float = 0.0,
    projections: float | None = None,
    ends: str = "generic",
    quick: bool = False,
) -> Parameters:
    return {
        "learner": learner,
        "dim": dim,
        "bits": bits,
        "ends": ends,
        "slope": slope,
        "shape": shape,
        "projections": shape if projections is None else projections,
        "work": _QUICK_STEPS if quick and learner == "adam" else _WORK[learner],
        "draw": draw,
    }


def _measure(
    *,
    rng: np.random.Generator,
    learner: str,
    dim: int,
    bits: int,
    ends: str,
    slope: float,
    shape: float,
    projections: float,
    work: int,
    draw: int,
) -> Mapping[str, Any]:
    # apart, so that every cell of a draw has the same ends, examples and tests
    for_path, for_oracle, for_learner, for_tests = rng.spawn(4)
    path = draw_path(dim=dim, bits=bits, low_rank=ends == "low rank", rng=for_path)
    point = path.point(shape, slope, projections=projections)
    inputs = BooleanInputs(k=2, d=dim)
    fit = _LEARNERS[learner](point, work).fit(
        ExampleOracle(point.layer, inputs, rng=for_oracle), rng=for_learner
    )
    x = inputs.sample(_FRESH, rng=for_tests)
    y, predicted = point.layer(x), np.asarray(fit.predict(x), dtype=np.float64)
    theta = point.layer.theta
    return {
        "error": _finite(unknown_part_error(predicted, y, point.known(x))),
        "relative_error": _finite(relative_error(predicted, y)),
        "outcome": fit.outcome.name,
        "examples": fit.examples_used,
        "visible_share": point.visible_share(x),
        "stable_rank": float(np.mean([np.sum(h**2) / np.linalg.norm(h, 2) ** 2 for h in theta])),
        "slopes": float(np.mean(np.linalg.norm(theta, axis=(1, 2)))),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _elimination(point: PathPoint, work: int) -> Learner:
    """The attack with what is known of the parity at this slope; a label up to .9 off still gives its bit."""
    direction = np.eye(point.path.dim)[0]
    known = point.heads.known(gate=0, direction=direction)
    return ParityElimination(direction=direction, known=known, heads=point.heads, tolerance=0.9)


_LEARNERS: Mapping[str, Callable[[PathPoint, int], Learner]] = {
    "newton": lambda point, work: Newton(
        m=point.layer.heads, examples=14 * point.path.dim**2, work=work, starts=5
    ),
    "six-phase": lambda point, work: SixPhase(m=point.layer.heads, examples=40_000, work=work),
    "l-bfgs": lambda point, work: LBFGS(m=point.layer.heads, examples=14 * point.path.dim**2, work=work),
    "adam": lambda point, work: Adam(m=8, work=work, batch=256, learning_rate=0.01),
    "linear": lambda point, work: LinearBaseline(examples=14 * point.path.dim**2),
    "elimination": _elimination,
}


def _table(rows: Sequence[Row]) -> Table:
    places, family = by_place(rows), main_family(rows)
    shown = sorted({place.shape for place in places if place.on_path})
    lines = []
    for name, title in TITLES.items():
        for slope in sorted({place.slope for place in places}):
            if path := path_of(places, name, family, slope=slope):
                lines.append((f"{title}, slopes × {STEEPEST**slope:.2g}", path))
    for other in sorted({(place.bits, place.dim) for place in places} - {family[::-1]}):
        if path := path_of(places, "newton", other[::-1], slope=0.0):
            lines.append((f"Newton, {bits_in_words(other[0])}, d = {other[1]}", path))
    for learner in TITLES:
        low = {
            place: errors
            for place, errors in places.items()
            if (place.learner, place.ends) == (learner, "low rank")
        }
        if low:
            lines.append((f"{TITLES[learner]}, nice end of the parity's ranks", low))
    return Table(
        (
            "learner",
            *(f"t = {t:g}" for t in shown),
            "learned at the last t",
            f"{_CONFIDENCE:.0%} interval",
        ),
        tuple((words, *_line(path, shown)) for words, path in lines),
    )


def _line(path: Mapping[Place, list[float]], shown: Sequence[float]) -> tuple[str, ...]:
    at = {place.shape: errors for place, errors in path.items()}
    end = path[max(path)]
    count = sum(error < LEARNED for error in end)
    interval = proportion_interval(count, len(end), confidence=_CONFIDENCE)
    return (
        *(shown_error(median_error(at[t])) if t in at else "" for t in shown),
        f"{count} of {len(end)}",
        f"{interval.low:.2f} to {interval.high:.2f}",
    )


def _draw(rows: Sequence[Row]) -> PaperFigure:
    return draw_path_figure(rows, TITLES)


STUDY = Study(
    name="nice-to-hard",
    title="From a nice layer to a hidden parity",
    question="On a path from a nice random layer to one that hides a parity, where does each learner stop, and is it "
    "the slopes, the ranks or the projections that stop it?",
    expected="By the specification's figures Newton and the six phases are exact on nice layers and Newton leaves 1.06 "
    "to 1.36 of the unknown part of the two-head parity at d = 16, elimination needs the exact parity, Adam with eight "
    "heads learns three bits in thousands of steps at d = 16, and neither rank down to 1 nor sigma up to 8 stops "
    "Newton, while sigma 16 does.",
    limits="One family of paths, whose scale of t is a choice, small d and one budget a learner, so no asymptotic "
    "statement, and a learner that fails within its budget may not fail with more: Adam with eight heads is known to "
    "learn three bits at these d given several thousand steps.",
    how="Two tokens. The nice end has sigma 2; the hard end is the minimal parity (construction D), two heads for two "
    "and three bits, one for one, three for five. At shape t directions of every Theta_i and W_i are (1 - t) nice + t "
    "hard, norms go geometrically; s multiplies all slopes by 8^s, coefficients solved anew, so the end is an exact "
    "parity at every slope and the other end a nice layer of sigma 2 to 16. The known part is the mean over all "
    "secrets, everything else given, exact: the secret enters by the number of its coordinates in which tokens differ, "
    "which is hypergeometric. So an error of 1 is all but the secret; without attention of the parity (t = 0) it is "
    "the error on the layer beyond even attention. Learned: error below 0.3, nine tenths of that energy. Budgets are "
    "the same at every point: Newton 14 d^2 examples (with two heads 28 counting floors, where the specification's "
    "figures are at about four and the study of violations counts at 4 and at 28), 1500 passes, 5 starts; six phases "
    "in practical mode 40 000 examples, about a tenth of their default at d = 12, and 1500 passes; L-BFGS 14 d^2 and "
    "1000 passes; Adam, eight heads, 1500 steps (quick: 200) of 256 fresh examples, rate .01; least squares on the "
    "tokens; elimination told gate, direction and the parity's known part, "
    "labels up to .9 off. The threshold .3, the values of t and the budgets were chosen after trials on other "
    "draws; with .25 and .35 the errors near it count otherwise, as the figures say. Exact: error below 1e-6. "
    "Full scale: d = 12, three bits, 2 to 5 draws a point; every learner has the same ends and "
    "tests in a draw. Share seen one by one: of the secret part's energy, what is linear in that number.",
    cells=_cells,
    measure=_measure,
    found=found_in_words,
    table=_table,
    draw=_draw,
    stream=("dim", "bits", "ends", "draw"),
    needs=("torch",),
)
