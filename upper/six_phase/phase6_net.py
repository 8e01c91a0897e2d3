"""Phase 6, the paper's way: enumerate a net of the span or hull, regress the projections, keep the best tuple."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.evaluation import HeldOut
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Real, Whole, checked
from upper.six_phase.net_tuples import TupleRegression
from upper.six_phase.phase5_span import AttentionSpan

__all__ = ["DELTA", "NetSearch", "held_out_examples", "search_net"]

# Moments of all pairs of points take (points d)^2 numbers where m > 2, what all points read takes (points n k d).
_MOST_NUMBERS = 1 << 26
_MOST_POINTS = 4000
_MOST_CELLS = 400_000
_KEPT = 0.25  # of the tuples, for the halvings
_KURTOSIS = 4.0
DELTA = 0.01
"""The probability with which the selection may be misled, and that with which the bound may fail."""


@dataclass(frozen=True, eq=False)
class NetSearch:
    """The best layer of a net.

    Attributes
    ----------
    layer : AttentionLayer
        The best tuple of attention matrices with its regressed projections.
    error : float
        Its squared relative error E|F^ - F|^2 / E|F|^2 on the examples that judge: they chose nothing.
    bound : float or None
        The true error is at most this with probability .99, if neither |F^ - F|^2 nor |F|^2 has a kurtosis
        E z^2 / (E z)^2 above 4. None where the judging examples are too few, or show a higher kurtosis.
    kurtosis : float
        E z^2 / (E z)^2 of z = |F^ - F|^2 of an example, as measured on those that judge.
    candidates : int
        Tuples tried, those of the halvings included.
    points : int
        Points of the first net for one head.
    spacing : float
        Distance of neighbouring points of the first net, relative to the norm of the centre.
    grid : array (points,) or None
        Where the points lie along the hull, for two heads over the hull.
    surface : array (points, points) or None
        Squared relative error of each pair of them on the selecting examples; NaN on the diagonal.
    examples : int
        Examples given: to select, to judge and to regress on.
    evidence : int
        Inputs that judge, up to symmetry, whose labels do not follow from those of the others.
    """

    layer: AttentionLayer
    error: float
    bound: float | None
    kurtosis: float
    candidates: int
    points: int
    spacing: float
    grid: Float[np.ndarray, " g"] | None
    surface: Float[np.ndarray, "g g"] | None
    examples: int
    evidence: int

    @property
    def measures(self) -> dict[str, float | int]:
        """The measures of the step in the trace."""
        return {
            "phase_examples": self.examples,
            "candidates": self.candidates,
            "points": self.points,
            "spacing": self.spacing,
            "held_out_error": math.sqrt(self.error),
            "held_out_squared_error": self.error,
            "kurtosis": self.kurtosis,
            **({} if self.bound is None else {"held_out_bound": self.bound}),
        }


@checked
def held_out_examples(
    candidates: Annotated[int, Whole(1, 2**1000)], delta: Annotated[float, Real(above=0, below=1)]
) -> int:
    """Held-out examples with which, but with probability delta, no candidate's error is underestimated by over a half.

    Notes
    -----
    A mean of n non-negative variables of kurtosis E z^2 / (E z)^2 <= 4 is below half of its expectation with
    probability at most exp(-n / 32); over all candidates, n = 32 ln(candidates / delta). It covers candidates that
    were fixed before the held-out examples were looked at: in `search_net` the tuples of the first net.

    References
    ----------
    The lower tail is Maurer's, J. Inequalities in Pure and Applied Mathematics 4 (2003).

    Examples
    --------
    >>> held_out_examples(10_000, 0.01)
    443
    """
    return math.ceil(8 * _KURTOSIS * math.log(candidates / delta))


@checked
def search_net(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    span: AttentionSpan,
    *,
    heads: PositiveInt,
    over: Literal["hull", "span"] = "hull",
    spacing: PositiveFloat = 0.04,
    refinements: NonNegativeInt = 3,
    held_out: PositiveInt | None = None,
    judged: PositiveInt | None = None,
    most: PositiveInt = 2_000_000,
) -> NetSearch:
    """Phase 6: try tuples of points of a net, their projections by regression; keep the best on held-out examples.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples; the first `held_out` only select, the next `judged` only judge what was selected.
    span : AttentionSpan
        Where the heads lie, from phase 5.
    heads : int
        m.
    over : "hull" or "span"
        Whether the net is of the affine hull, (m-1) dimensions a head, or of the whole span, m dimensions a head: the
        paper's count.
    spacing : float
        Distance of neighbouring points, relative to the norm of the centre. It is at most how far the net reaches,
        and is widened until `most` allows all tuples.
    refinements : int
        How often the spacing is halved around the best tuple, whose neighbours are then tried.
    held_out, judged : int, optional
        By default `held_out_examples` of `most` candidates and of one, as far as the examples suffice.
    most : int
        At most so many tuples altogether: three quarters of them for the first net, the rest in equal parts for the
        halvings; all for the first net if there are no halvings.

    Raises
    ------
    ValueError
        If a parameter is out of range, the span is not of `heads` dimensions, or the examples are fewer than those
        that select, those that judge and 2 m d / k.

    Notes
    -----
    First net: every point of the ball |z| <= reach is within spacing / 2 of a point of the net in each coordinate. If
    the heads lie in the ball and their closest points are distinct, one tuple is so near, and its error after
    regression is of the order of that squared. Halvings have no guarantee: all neighbours of all heads together where
    they are allowed, then those of one head after the other until none improves, those that differ in the fewest
    coordinates first.

    A net of spacing eps has (R/eps)^(m(m-1)) tuples over the hull and (R/eps)^(m^2) over the span: exhaustive for
    m <= 2, coarse for m = 3, and beyond it no more than a start for the halvings. A tuple costs O((m d)^3), from the
    moments of all points and without a pass over data.

    Bound: with n judging examples, 2 kurtosis ln(2 / delta) / n = s^2 and s <= 1/2, the mean of |F^ - F|^2 is below
    1 - s times its expectation with probability at most delta / 2; that of |F|^2 over all N examples is above 1 + t
    times its own with probability at most delta / 2, t^2 = (kurtosis - 1)(2 / delta - 1) / N. The kurtosis of 4 is
    assumed; delta is .01. The judging examples chose nothing, so nothing is charged for the selection.

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 6; there the net is flat. The tails are Maurer's, J. Inequalities in Pure and
    Applied Mathematics 4 (2003), and Cantelli's inequality.
    """
    n, k, d = x.shape
    m = heads
    if len(span.basis) != m:
        raise ValueError(f"heads is {m}: {len(span.basis)}, the dimensions of the span, is needed.")
    frame = _Frame.of(span, over)
    halvings = refinements if frame.dimension else 0
    first = most - int(_KEPT * most) if halvings else most
    together = math.isqrt(_MOST_NUMBERS) // d if m != 2 else min(_MOST_POINTS, _MOST_NUMBERS // x.size)
    spacing, points = _grid(frame, spacing, m, first, together)
    tuples = math.comb(len(points), m)
    least = -(-2 * m * d // k)
    by_default = _set_aside(n, least, held_out_examples(most, DELTA), held_out_examples(1, DELTA / 2))
    select, judge = held_out or by_default[0], judged or by_default[1]
    if n < select + judge + least:
        raise ValueError(
            f"There are {n} examples: {select} to select, {judge} to judge and {least} to regress on are needed."
        )
    unit = _root_mean_square(y)
    y = y / unit
    fitted, judging = slice(select + judge, None), slice(select, select + judge)
    data = TupleRegression(x=x[fitted], y=y[fitted], x_held=x[:select], y_held=y[:select])
    surface = None
    if m == 2:
        surface = data.pair_errors(frame.matrices(points))
        best = [int(place) for place in np.unravel_index(np.nanargmin(surface), surface.shape)]
        found = _Best(points[best], float(surface[best[0], best[1]]), tuples)
    else:
        found = _all_tuples(data, frame, points, combinations(range(len(points)), m), tuples)
    for halving in range(1, halvings + 1):
        allowed = found.tried + (most - found.tried) // (halvings - halving + 1)
        found = _halved(data, frame, found, spacing / 2**halving, allowed, together)
    theta = frame.matrices(found.points)
    w = data.projections(theta)
    misses, energy = _squares(AttentionLayer(theta=theta, w=w)(x[judging]) - y[judging]), _squares(y)
    mean = float(misses.mean())
    kurtosis = float(np.mean((misses / mean) ** 2)) if mean > 0 else 1.0
    return NetSearch(
        layer=AttentionLayer(theta=theta, w=unit * w),
        error=float(misses.sum() / (energy[judging].sum() or 1.0)),
        bound=_bound(mean, kurtosis, judge, energy, DELTA),
        kurtosis=kurtosis,
        candidates=found.tried,
        points=len(points),
        spacing=spacing,
        grid=points[:, 0] if surface is not None and frame.dimension == 1 else None,
        surface=surface if frame.dimension == 1 else None,
        examples=n,
        evidence=HeldOut(x[judging], y[judging], np.delete(x, judging, axis=0)).evidence,
    )


def _set_aside(n: int, regress: int, select: int, judge: int) -> tuple[int, int]:
    """How many of `n` examples select and how many judge: what is wanted, as far as `n` allows."""
    # twice the unit to regress on, or two thirds of the examples, or at least the unit
    spare = max(2, min(n - regress, max(n - 2 * regress, n // 3)))
    judge = max(1, min(judge, spare // 2))
    return max(1, min(select, spare - judge)), judge


def _root_mean_square(y: np.ndarray) -> float:
    # the largest first: squares of labels of any unit would overflow
    largest = float(np.abs(y).max()) or 1.0
    return largest * float(np.sqrt(np.mean((y / largest) ** 2))) or 1.0


def _squares(outputs: np.ndarray) -> np.ndarray:
    return np.sum(outputs**2, axis=(1, 2))


def _bound(mean: float, kurtosis: float, judge: int, energy: np.ndarray, delta: float) -> float | None:
    below = math.sqrt(2 * _KURTOSIS * math.log(2 / delta) / judge)
    size = float(energy.mean()) or 1.0
    if below > 0.5 or max(kurtosis, float(np.mean((energy / size) ** 2))) > _KURTOSIS:
        return None
    above = math.sqrt((_KURTOSIS - 1) * (2 / delta - 1) / len(energy))
    return mean / (1 - below) * (1 + above) / size


@dataclass(frozen=True, eq=False)
class _Best:
    """The best tuple so far, its error on the selecting examples, and how many were tried."""

    points: np.ndarray
    error: float
    tried: int


def _all_tuples(
    data: TupleRegression,
    frame: "_Frame",
    points: np.ndarray,
    tuples: Iterable[tuple[int, ...]],
    tried: int,
) -> _Best:
    best, least = [0], np.inf
    for index, errors in data.tuple_errors(frame.matrices(points), tuples):
        place = int(np.argmin(errors))
        if errors[place] < least:
            best, least = [int(one) for one in index[place]], float(errors[place])
    return _Best(points[best], least, tried)


def _halved(
    data: TupleRegression, frame: "_Frame", best: _Best, step: float, allowed: int, together: int
) -> _Best:
    """The best tuple around the best, up to a step in each coordinate; `allowed` bounds all tuples tried so far."""
    m, dimension = best.points.shape
    # so large a power of three may exceed the floats, never the integers
    if 3 ** (dimension * m) <= allowed - best.tried and m * 3**dimension <= together:
        around = np.array(list(_around(dimension, step)))
        near = (best.points[:, None] + around).reshape(-1, dimension)
        choices = product(*(range(i * len(around), (i + 1) * len(around)) for i in range(m)))
        other = _all_tuples(data, frame, near, choices, best.tried + len(around) ** m)
        best = other if other.error < best.error else _Best(best.points, best.error, other.tried)
    # where not all neighbours of every head fit, no head may take what the others need
    share, since, head = max(2 * dimension, (allowed - best.tried) // (4 * m)), 0, 0
    while since < m and best.tried < allowed:
        # without the head itself, which comes first
        around = np.array(list(islice(_around(dimension, step), 1, 1 + min(share, allowed - best.tried))))
        near = best.points[head] + around
        fixed = frame.matrices(np.delete(best.points, head, axis=0))
        errors = data.one_more_errors(fixed, (frame.matrices(near[i : i + 1])[0] for i in range(len(near))))
        place, tried = int(np.argmin(errors)), best.tried + len(near)
        if errors[place] < best.error * (1 - 1e-9):
            moved = best.points.copy()
            moved[head] = near[place]
            best, since = _Best(moved, float(errors[place]), tried), 0
        else:
            best, since = _Best(best.points, best.error, tried), since + 1
        head = (head + 1) % m
    return best


def _around(dimension: int, step: float) -> Iterator[np.ndarray]:
    """Offsets by a step in some coordinates, none first and then those in the fewest: 3^dimension of them."""
    for changed in range(dimension + 1):
        for places in combinations(range(dimension), changed):
            for signs in product((-step, step), repeat=changed):
                offset = np.zeros(dimension)
                offset[list(places)] = signs
                yield offset


@dataclass(frozen=True, eq=False)
class _Frame:
    """Coordinates of the net, in units of the centre's norm: Theta = origin + sum_j z_j axes_j, |z| <= reach."""

    origin: np.ndarray
    axes: np.ndarray
    reach: float
    simplex: np.ndarray

    @classmethod
    def of(cls, span: AttentionSpan, over: str) -> "_Frame":
        unit = float(np.linalg.norm(span.centre)) or 1.0
        reach = float(span.reach.max(initial=0.0)) / unit
        m = len(span.basis)
        # corners of a regular simplex around the centre, in the coordinates of the hull
        corners = reach * np.linalg.svd(np.eye(m) - 1 / m)[0][:, : m - 1] / math.sqrt(max(1 - 1 / m, 0.5))
        if over == "hull":
            return cls(span.centre, unit * span.directions, reach, corners)
        corners = np.concatenate([corners, np.ones((m, 1))], axis=1)
        origin = np.zeros_like(span.centre)
        return cls(origin, unit * span.basis, float(np.hypot(1.0, reach)), corners)

    @property
    def dimension(self) -> int:
        return len(self.axes)

    def matrices(self, points: np.ndarray) -> np.ndarray:
        return self.origin + np.tensordot(points, self.axes, 1)


def _grid(frame: _Frame, spacing: float, m: int, most: int, together: int) -> tuple[float, np.ndarray]:
    """The spacing and the points: all whose cells meet the ball, or the corners of a simplex if those are too many."""
    if frame.dimension == 0:
        return spacing, np.zeros((1, 0))
    if frame.reach == 0:
        return spacing, frame.simplex
    spacing = max(min(spacing, frame.reach), 2 * frame.reach / _MOST_CELLS)
    # beyond twice the reach one cell covers the ball
    while spacing < 2 * frame.reach:
        each_side = math.floor(frame.reach / spacing + 0.5)
        if (2 * each_side + 1) ** frame.dimension <= _MOST_CELLS:
            side = np.arange(-each_side, each_side + 1) * spacing
            grid = np.stack(np.meshgrid(*[side] * frame.dimension, indexing="ij"), -1)
            grid = grid.reshape(-1, frame.dimension)
            closest = np.maximum(np.abs(grid) - spacing / 2, 0.0)
            grid = grid[np.linalg.norm(closest, axis=1) <= frame.reach * (1 + 1e-9)]
            if len(grid) >= m and len(grid) <= together and math.comb(len(grid), m) <= most:
                return spacing, grid
        spacing *= 1.1
    return frame.reach, frame.simplex
