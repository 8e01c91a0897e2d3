"""Phase 6 of paper mode: enumerate a net of the span or hull, regress the projections, keep the best tuple."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.evaluation import HeldOut
from attention.validation import PositiveFloat, PositiveInt, Whole, checked
from upper.six_phase.phase5_span import AttentionSpan
from upper.six_phase.phase6_regression import Frame, TupleRegression

__all__ = ["Net", "NetSearch", "held_out_examples", "search_net"]


@dataclass(frozen=True)
@checked
class Net:
    """The net of phase 6, and the limits of the search.

    Parameters
    ----------
    over : "hull" or "span"
        "hull": the net is of the affine hull, with m - 1 dimensions per head. "span": it is of the whole span, with m
        dimensions per head, as in the paper.
    spacing : float
        Distance of neighbouring points, relative to the norm of the centre. It is at most the radius of the net, and is
        increased until `most` allows all tuples. If no spacing does, the net is the m corners of a simplex.
    refinements : int
        How many refinements follow the first net. Each halves the spacing and tries the neighbours of the best tuple.
    most : int
        The most tuples in total. Three quarters are for the first net; the refinements share the rest equally. Without
        refinements, all are for the first net.
    """

    over: Literal["hull", "span"] = "hull"
    spacing: PositiveFloat = 0.04
    refinements: Annotated[int, Whole(0, 60)] = 3
    most: PositiveInt = 2_000_000

    cells: ClassVar[int] = 400_000  #: the most cells of the cube around the ball
    #: the most numbers in memory: the reads of all points take points n k d, for m > 2 their moments (points d)^2
    numbers: ClassVar[int] = 1 << 26
    points: ClassVar[int] = 4000  #: the most points for two heads, whose errors are a table of all pairs
    kurtosis: ClassVar[float] = 4.0  #: the largest E z^2 / (E z)^2 for which there is a bound
    delta: ClassVar[float] = 0.01  #: the probability of a wrong selection

    def together(self, m: int, n_tokens: int, d: int) -> int:
        """The most points that fit into the memory, for examples of so many numbers."""
        return math.isqrt(self.numbers) // d if m != 2 else min(self.points, self.numbers // n_tokens)


@dataclass(frozen=True, eq=False)
class NetSearch:
    """The best `layer` of a net: a tuple of attention matrices with its regressed projections.

    `error` is its squared relative error E|F^ - F|^2 / E|F|^2 on the judging examples, which had no part in the
    selection. `evidence` is the number of judging inputs whose labels do not follow from those of the other examples;
    inputs that are equal up to symmetry count once.

    `candidates` counts the tuples tried, also those of the refinements, and `examples` all examples. The first net has
    `points` points per head, `spacing` apart relative to the norm of the centre. For two heads over the hull, `grid`
    has the positions of the points along it. `surface` then has the squared relative error of each pair of points on
    the selecting examples, NaN on the diagonal.
    """

    layer: AttentionLayer
    error: float
    candidates: int
    points: int
    spacing: float
    grid: Float[np.ndarray, " g"] | None
    surface: Float[np.ndarray, "g g"] | None
    examples: int
    evidence: int

    @property
    def measures(self) -> dict[str, Any]:
        """The measures of the step in the trace."""
        return {
            "phase_examples": self.examples,
            "candidates": self.candidates,
            "points": self.points,
            "spacing": self.spacing,
            "held_out_error": math.sqrt(self.error),
            "held_out_squared_error": self.error,
        }

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of one axis by name."""
        return {} if self.grid is None else {"grid": self.grid}


def held_out_examples(candidates: int, delta: float = Net.delta) -> int:
    """How many held-out examples make every candidate's estimated error at least half the true one.

    This fails with probability at most delta. A mean of n non-negative variables of kurtosis E z^2 / (E z)^2 <= 4 is
    below half of its expectation with probability at most exp(-n / 32) (Maurer, J. Inequalities in Pure and Applied
    Mathematics 4, 2003). For all candidates together, n = 32 ln(candidates / delta). This applies to candidates that do
    not depend on the held-out examples: in `search_net`, to the tuples of the first net.

    Examples
    --------
    >>> held_out_examples(10_000, 0.01)
    443
    """
    return math.ceil(8 * Net.kurtosis * math.log(candidates / delta))


@checked
def search_net(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    span: AttentionSpan,
    net: Net = Net(),
    *,
    held_out: PositiveInt | None = None,
    judged: PositiveInt | None = None,
) -> NetSearch:
    """Phase 6: try tuples of points of a net, with projections by regression; keep the best on held-out examples.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples. The first `held_out` are used only to select, the next `judged` only to judge the selected tuple.
    span : AttentionSpan
        The span of the m heads, from phase 5.
    net : Net
        The net, and the limits of the search.
    held_out, judged : int, optional
        By default `held_out_examples` of `net.most` candidates and of one candidate, or fewer if there are too few
        examples.

    Notes
    -----
    A ValueError if there are fewer examples than the selecting ones, the judging ones and 2 m d / k together.

    *First net.* In each coordinate, every point of the ball |z| <= reach is within spacing / 2 of a point of the net.
    If the heads lie in the ball and their closest points are distinct, one tuple is as near to the heads. Its squared
    error after regression is of the order of the squared distance. The refinements have no guarantee. A net of spacing
    eps has (R/eps)^(m(m-1)) tuples over the hull and (R/eps)^(m^2) over the span. It is exhaustive for m <= 2 and
    coarse for m = 3. For more heads it is only a start for the refinements. A tuple costs O((m d)^3), without a pass
    over data.

    Source: Chen and Li, arXiv 2402.04084, phase 6, for the net; the refinements are not from there.
    """
    n, k, d = x.shape
    m = len(span.basis)
    frame = Frame.of(span, net.over)
    halvings = net.refinements if frame.dimension else 0
    first = net.most - net.most // 4 if halvings else net.most
    together = net.together(m, x.size, d)
    spacing, points = _grid(frame, net.spacing, m, first, together)
    least = -(-2 * m * d // k)
    by_default = _set_aside(n, least, held_out_examples(net.most), held_out_examples(1, net.delta / 2))
    select, judge = held_out or by_default[0], judged or by_default[1]
    if n < select + judge + least:
        raise ValueError(
            f"There are {n} examples: {select} to select, {judge} to judge and {least} to regress on are needed."
        )
    # divide by the largest first: squares of labels could overflow
    unit = float(np.abs(y).max()) or 1.0
    unit = unit * float(np.sqrt(np.mean((y / unit) ** 2))) or 1.0
    y = y / unit
    fitted, judging = slice(select + judge, None), slice(select, select + judge)
    data = TupleRegression(frame, x[fitted], y[fitted], x_held=x[:select], y_held=y[:select])
    surface = data.pair_errors(points) if m == 2 else None
    if surface is not None:
        best = list(divmod(int(np.nanargmin(surface)), len(points)))
        error = float(np.nanmin(surface))
    else:
        best, error = data.best_tuple(points, combinations(range(len(points)), m))
    best_tuple = _Best(points[best], error, math.comb(len(points), m))
    for halving in range(1, halvings + 1):
        allowed = best_tuple.tried + (net.most - best_tuple.tried) // (halvings - halving + 1)
        best_tuple = _halved(data, best_tuple, spacing / 2**halving, allowed, together)
    theta, w = data.heads(best_tuple.points)
    misses, energy = _squares(AttentionLayer(theta=theta, w=w)(x[judging]) - y[judging]), _squares(y)
    return NetSearch(
        layer=AttentionLayer(theta=theta, w=unit * w),
        error=float(misses.sum() / (energy[judging].sum() or 1.0)),
        candidates=best_tuple.tried,
        points=len(points),
        spacing=spacing,
        grid=points[:, 0] if surface is not None and frame.dimension == 1 else None,
        surface=surface if frame.dimension == 1 else None,
        examples=n,
        evidence=HeldOut(x[judging], y[judging], np.delete(x, judging, axis=0)).evidence,
    )


def _set_aside(n: int, regress: int, select: int, judge: int) -> tuple[int, int]:
    """How many of `n` examples select and how many judge: the wanted numbers, or fewer if `n` is too small."""
    # twice the unit to regress on, or two thirds of the examples, or at least the unit
    left = max(2, min(n - regress, max(n - 2 * regress, n // 3)))
    judge = max(1, min(judge, left // 2))
    return max(1, min(select, left - judge)), judge


def _squares(outputs: np.ndarray) -> np.ndarray:
    return np.sum(outputs**2, axis=(1, 2))


def _grid(frame: Frame, spacing: float, m: int, most: int, together: int) -> tuple[float, np.ndarray]:
    """The spacing and the points: all whose cells meet the ball, or the corners of a simplex if those are too many."""
    if frame.dimension == 0:
        return spacing, np.zeros((1, 0))
    if frame.reach == 0:
        return spacing, frame.simplex
    spacing = max(min(spacing, frame.reach), 2 * frame.reach / Net.cells)
    # beyond twice the reach one cell covers the ball
    while spacing < 2 * frame.reach:
        each_side = math.floor(frame.reach / spacing + 0.5)
        if (2 * each_side + 1) ** frame.dimension <= Net.cells:
            side = np.arange(-each_side, each_side + 1) * spacing
            grid = np.stack(np.meshgrid(*[side] * frame.dimension, indexing="ij"), -1)
            grid = grid.reshape(-1, frame.dimension)
            closest = np.maximum(np.abs(grid) - spacing / 2, 0.0)
            grid = grid[np.linalg.norm(closest, axis=1) <= frame.reach * (1 + 1e-9)]
            if len(grid) >= m and len(grid) <= together and math.comb(len(grid), m) <= most:
                return spacing, grid
        spacing *= 1.1
    return frame.reach, frame.simplex


@dataclass(frozen=True, eq=False)
class _Best:
    """The best tuple so far, its error on the selecting examples, and how many were tried."""

    points: np.ndarray
    error: float
    tried: int


def _halved(data: TupleRegression, best: _Best, step: float, allowed: int, together: int) -> _Best:
    """The best tuple within a step of the best one in each coordinate; `allowed` bounds all tuples tried so far."""
    m, dimension = best.points.shape
    # a large power of three may exceed the floats, but not the integers
    if 3 ** (dimension * m) <= allowed - best.tried and m * 3**dimension <= together:
        around = np.array(list(_around(dimension, step)))
        near = (best.points[:, None] + around).reshape(-1, dimension)
        choices = product(*(range(i * len(around), (i + 1) * len(around)) for i in range(m)))
        chosen, error = data.best_tuple(near, choices)
        best = replace(best, tried=best.tried + len(around) ** m)
        if error < best.error:
            best = replace(best, points=near[chosen], error=error)
    # each head gets an equal share of the tuples, so that none uses up those of the others
    share, since, head = max(2 * dimension, (allowed - best.tried) // (4 * m)), 0, 0
    while since < m and best.tried < allowed:
        # without the head itself, which comes first
        around = np.array(list(islice(_around(dimension, step), 1, 1 + min(share, allowed - best.tried))))
        near = best.points[head] + around
        errors = data.one_more_errors(np.delete(best.points, head, axis=0), near)
        place, since = int(np.argmin(errors)), since + 1
        best = replace(best, tried=best.tried + len(near))
        if errors[place] < best.error * (1 - 1e-9):
            moved = best.points.copy()
            moved[head] = near[place]
            best, since = replace(best, points=moved, error=float(errors[place])), 0
        head = (head + 1) % m
    return best


def _around(dimension: int, step: float) -> Iterator[np.ndarray]:
    """The 3^dimension offsets by a step in some coordinates; zero first, then those in the fewest coordinates."""
    for changed in range(dimension + 1):
        for places in combinations(range(dimension), changed):
            for signs in product((-step, step), repeat=changed):
                offset = np.zeros(dimension)
                offset[list(places)] = signs
                yield offset
