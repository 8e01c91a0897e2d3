"""Phase 6 of paper mode: enumerate a net of the span or hull, regress the projections, keep the best tuple."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice, product
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from attention.evaluation import HeldOut
from attention.layer import read_tokens
from attention.validation import PositiveFloat, PositiveInt, Real, Whole, checked
from upper.six_phase.phase5_span import AttentionSpan

__all__ = ["DELTA", "NetSearch", "TupleRegression", "held_out_examples", "search_net"]

# For m > 2, moments of all pairs of points take (points d)^2 numbers; the reads of all points take points n k d.
_MOST_NUMBERS = 1 << 26
_MOST_POINTS = 4000
_MOST_CELLS = 400_000
_CHUNK, _CHUNK_NUMBERS = 256, 1 << 23  # tuples solved together, and the numbers in their reads
_RIDGE = 1e-9  # of the mean diagonal: two equal heads make a tuple's moments singular
_KEPT = 0.25  # the share of the tuples for the refinements
_KURTOSIS = 4.0
DELTA = 0.01
"""The probability of a wrong selection, and that of a wrong bound."""


@dataclass(frozen=True, eq=False)
class NetSearch:
    """The best `layer` of a net: a tuple of attention matrices with its regressed projections.

    `error` is its squared relative error E|F^ - F|^2 / E|F|^2 on the judging examples, which had no part in the
    selection. The true error is at most `bound` with probability .99, if neither |F^ - F|^2 nor |F|^2 has a kurtosis
    E z^2 / (E z)^2 above 4. There is no bound if the judging examples are too few, or if the examples show a higher
    kurtosis of either. `kurtosis` is that of |F^ - F|^2. `evidence` is the number of judging inputs whose labels do not
    follow from those of the other examples; inputs that are equal up to symmetry count once.

    `candidates` counts the tuples tried, also those of the refinements, and `examples` all examples. The first net has
    `points` points per head, `spacing` apart relative to the norm of the centre. For two heads over the hull, `grid`
    has the positions of the points along it. `surface` then has the squared relative error of each pair of points on
    the selecting examples, NaN on the diagonal.
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
    refinements: Annotated[int, Whole(0, 60)] = 3,
    held_out: PositiveInt | None = None,
    judged: PositiveInt | None = None,
    most: PositiveInt = 2_000_000,
) -> NetSearch:
    """Phase 6: try tuples of points of a net, with projections by regression; keep the best on held-out examples.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples. The first `held_out` are used only to select, the next `judged` only to judge the selected tuple.
    span : AttentionSpan
        The span of the heads, from phase 5.
    heads : int
        m, the dimension of the span.
    over : "hull" or "span"
        "hull": the net is of the affine hull, with m - 1 dimensions per head. "span": it is of the whole span, with m
        dimensions per head, as in the paper.
    spacing : float
        Distance of neighbouring points, relative to the norm of the centre. It is at most the radius of the net, and is
        increased until `most` allows all tuples. If no spacing does, the net is the m corners of a simplex.
    refinements : int
        How many refinements follow the first net. Each halves the spacing and tries the neighbours of the best tuple.
    held_out, judged : int, optional
        By default `held_out_examples` of `most` candidates and of one candidate, or fewer if there are too few
        examples.
    most : int
        The most tuples in total. Three quarters are for the first net; the refinements share the rest equally. Without
        refinements, all are for the first net.

    Notes
    -----
    A ValueError if there are fewer examples than the selecting ones, the judging ones and 2 m d / k together.

    *First net.* In each coordinate, every point of the ball |z| <= reach is within spacing / 2 of a point of the net.
    If the heads lie in the ball and their closest points are distinct, one tuple is as near to the heads. Its squared
    error after regression is of the order of the squared distance. The refinements have no guarantee. A net of spacing
    eps has (R/eps)^(m(m-1)) tuples over the hull and (R/eps)^(m^2) over the span. It is exhaustive for m <= 2 and
    coarse for m = 3. For more heads it is only a start for the refinements. A tuple costs O((m d)^3), without a pass
    over data.

    *Bound.* Let n be the number of judging examples, s^2 = 2 kurtosis ln(2 / delta) / n and s <= 1/2. The mean of
    |F^ - F|^2 is below 1 - s times its expectation with probability at most delta / 2. Let N be the number of all
    examples and t^2 = (kurtosis - 1)(2 / delta - 1) / N. The mean of |F|^2 is above 1 + t times its expectation with
    probability at most delta / 2. A kurtosis of 4 is assumed; delta is .01.

    Source: Chen and Li, arXiv 2402.04084, phase 6, for the net; the refinements are not from there. The tail bounds are
    Maurer's and Cantelli's.
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
    least = -(-2 * m * d // k)
    by_default = _set_aside(n, least, held_out_examples(most, DELTA), held_out_examples(1, DELTA / 2))
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
    data = TupleRegression(x=x[fitted], y=y[fitted], x_held=x[:select], y_held=y[:select])
    surface = data.pair_errors(frame.matrices(points)) if m == 2 else None
    if surface is not None:
        best = list(divmod(int(np.nanargmin(surface)), len(points)))
        error = float(np.nanmin(surface))
    else:
        best, error = data.best_tuple(frame.matrices(points), combinations(range(len(points)), m))
    found = _Best(points[best], error, math.comb(len(points), m))
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
    """How many of `n` examples select and how many judge: the wanted numbers, or fewer if `n` is too small."""
    # twice the unit to regress on, or two thirds of the examples, or at least the unit
    left = max(2, min(n - regress, max(n - 2 * regress, n // 3)))
    judge = max(1, min(judge, left // 2))
    return max(1, min(select, left - judge)), judge


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
        return cls(origin, span.scaled_basis, float(np.hypot(1.0, reach)), corners)

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


@dataclass(frozen=True, eq=False)
class _Best:
    """The best tuple so far, its error on the selecting examples, and how many were tried."""

    points: np.ndarray
    error: float
    tried: int


def _halved(
    data: "TupleRegression", frame: _Frame, best: _Best, step: float, allowed: int, together: int
) -> _Best:
    """The best tuple within a step of the best one in each coordinate; `allowed` bounds all tuples tried so far."""
    m, dimension = best.points.shape
    # a large power of three may exceed the floats, but not the integers
    if 3 ** (dimension * m) <= allowed - best.tried and m * 3**dimension <= together:
        around = np.array(list(_around(dimension, step)))
        near = (best.points[:, None] + around).reshape(-1, dimension)
        choices = product(*(range(i * len(around), (i + 1) * len(around)) for i in range(m)))
        chosen, error = data.best_tuple(frame.matrices(near), choices)
        best = replace(best, tried=best.tried + len(around) ** m)
        if error < best.error:
            best = replace(best, points=near[chosen], error=error)
    # each head gets an equal share of the tuples, so that none uses up those of the others
    share, since, head = max(2 * dimension, (allowed - best.tried) // (4 * m)), 0, 0
    while since < m and best.tried < allowed:
        # without the head itself, which comes first
        around = np.array(list(islice(_around(dimension, step), 1, 1 + min(share, allowed - best.tried))))
        near = best.points[head] + around
        errors = data.one_more_errors(
            frame.matrices(np.delete(best.points, head, axis=0)), near, frame.matrices
        )
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


@dataclass(frozen=True, eq=False)
class TupleRegression:
    """Least squares of the labels on the reads of tuples of heads, from moments: a tuple needs no pass over data.

    `x`, `y` are the examples for the regression, and `x_held`, `y_held` the held-out ones for the errors.
    """

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]

    def projections(self, theta: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, "m d d"]:
        """The W_i of one tuple, by least squares over the examples themselves."""
        m, d, _ = theta.shape
        _, read = read_tokens(self.x, theta)
        return np.linalg.lstsq(read, self.y.reshape(-1, d), rcond=None)[0].reshape(m, d, d)

    def pair_errors(self, theta: Float[np.ndarray, "g d d"]) -> Float[np.ndarray, "g g"]:
        """Squared relative held-out error of every pair of the matrices; NaN on the diagonal.

        O(g^2 (n k + d) d^2) time; memory O(g n k d), never that of all moments.
        """
        sides = self._reads(theta)
        errors = np.full((len(theta), len(theta)), np.nan)
        for i in range(len(theta) - 1):
            pairs = [side.part(slice(i, i + 1)).beside(side.part(slice(i + 1, None))) for side in sides]
            errors[i, i + 1 :] = errors[i + 1 :, i] = self._errors(*pairs)
        return errors

    def best_tuple(
        self, theta: Float[np.ndarray, "g d d"], tuples: Iterable[tuple[int, ...]]
    ) -> tuple[list[int], float]:
        """The best tuple of places in `theta` by its squared relative held-out error, and that error.

        O((m d)^3) a tuple; memory (g d)^2 for the moments of all matrices.
        """
        sides, iterator = self._reads(theta), iter(tuples)
        best, least = [0], np.inf
        while chunk := list(islice(iterator, _CHUNK)):
            errors = self._errors(*(side.tuples(np.array(chunk)) for side in sides))
            place = int(np.argmin(errors))
            if errors[place] < least:
                best, least = list(chunk[place]), float(errors[place])
        return best, least

    def one_more_errors(
        self,
        fixed: Float[np.ndarray, "fixed d d"],
        points: Float[np.ndarray, "t z"],
        matrices: Callable[[np.ndarray], np.ndarray],
    ) -> Float[np.ndarray, " t"]:
        """Squared relative held-out error of the fixed matrices together with that of each of the points.

        O(n k m d^2 + (m d)^3) for each of the points; memory bounded, however many they are.
        """
        sides = self._reads(fixed)
        # in blocks whose reads and moments fit into the memory
        width = (len(fixed) + 1) * self.x.shape[2]
        at_once = max(1, min(_CHUNK, _CHUNK_NUMBERS // max(self.x.size, self.x_held.size, width**2)))
        errors = []
        for start in range(0, len(points), at_once):
            others = self._reads(matrices(points[start : start + at_once]))
            errors.append(
                self._errors(*(side.beside(other) for side, other in zip(sides, others, strict=True)))
            )
        return np.concatenate(errors)

    def _reads(self, theta: np.ndarray) -> tuple["_Reads", "_Reads"]:
        return _Reads.of(self.x, self.y, theta), _Reads.of(self.x_held, self.y_held, theta)

    def _errors(
        self, moments: tuple[np.ndarray, np.ndarray], held: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        gram, moment = moments
        size = np.einsum("tii->t", gram)[:, None, None] / gram.shape[1]
        w = np.linalg.solve(gram + (_RIDGE * size + 1e-300) * np.eye(gram.shape[1]), moment)
        energy = float(np.sum(self.y_held**2))
        explained, square = np.einsum("tij,tij->t", w, held[1]), np.einsum("tij,tij->t", w, held[0] @ w)
        return np.maximum(energy - 2 * explained + square, 0.0) / (energy or 1.0)


@dataclass(frozen=True, eq=False)
class _Reads:
    """The reads Z_i = P_i X of g matrices, their moments Z_i^T Z_i, and their moments with the labels, Z_i^T Y."""

    read: np.ndarray  # (g, n k, d)
    own: np.ndarray  # (g, d, d)
    moment: np.ndarray  # (g, d, d)

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> "_Reads":
        g, d, _ = theta.shape
        labels = y.reshape(-1, d)
        read = read_tokens(x, theta)[1] if g else np.zeros((len(labels), 0))
        moment = (read.T @ labels).reshape(g, d, d)
        heads = np.ascontiguousarray(read.reshape(len(labels), g, d).transpose(1, 0, 2))
        return cls(heads, np.matmul(heads.transpose(0, 2, 1), heads), moment)

    def part(self, which: slice) -> "_Reads":
        return _Reads(self.read[which], self.own[which], self.moment[which])

    @cached_property
    def all(self) -> np.ndarray:
        """Moments of all pairs, (g, g, d, d)."""
        g, _, d = self.read.shape
        return (self._flat.T @ self._flat).reshape(g, d, g, d).transpose(0, 2, 1, 3)

    def tuples(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moments (t, m d, m d) and (t, m d, d) of tuples of these matrices."""
        t, m = index.shape
        d = self.read.shape[2]
        blocks = self.all[index[:, :, None], index[:, None, :]]  # t, m, m, d, d
        return blocks.transpose(0, 1, 3, 2, 4).reshape(t, m * d, m * d), self.moment[index].reshape(
            t, m * d, d
        )

    def beside(self, others: "_Reads") -> tuple[np.ndarray, np.ndarray]:
        """Moments (t, m d, m d) and (t, m d, d) of these matrices together with each of the t others."""
        g, _, d = self.read.shape
        t, width = len(others.read), g * d
        gram = np.empty((t, width + d, width + d))
        moment = np.empty((t, width + d, d))
        gram[:, :width, :width] = self.all.transpose(0, 2, 1, 3).reshape(width, width)
        moment[:, :width], moment[:, width:] = self.moment.reshape(width, d), others.moment
        gram[:, :width, width:] = np.matmul(self._flat.T, others.read)
        gram[:, width:, :width] = gram[:, :width, width:].transpose(0, 2, 1)
        gram[:, width:, width:] = others.own
        return gram, moment

    @cached_property
    def _flat(self) -> np.ndarray:
        g, rows, d = self.read.shape
        return self.read.transpose(1, 0, 2).reshape(rows, g * d)
