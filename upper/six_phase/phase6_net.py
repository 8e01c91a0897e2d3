"""Phase 6 of paper mode: enumerate a net of the span or hull, regress the projections, keep the best tuple."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer
from attention.evaluation import HeldOut
from attention.layer import read_tokens
from attention.validation import PositiveFloat, PositiveInt, Whole, checked
from upper.six_phase.phase5_span import AttentionSpan

_NEIGHBOURS = 32  # of a head, whose moments are in memory together


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
        How many refinements follow the first net. Each halves the spacing and moves one head of the best tuple after
        the other to its best neighbour, until no move helps.
    most : int
        The most tuples in total. Three quarters are for the first net; the refinements share the rest equally. Without
        refinements, all are for the first net.
    """

    over: Literal["hull", "span"] = "hull"
    spacing: PositiveFloat = 0.04
    refinements: Annotated[int, Whole(0, 60)] = 3
    most: PositiveInt = 2_000_000

    cells: ClassVar[int] = 400_000  #: the most cells of the cube around the ball
    #: the most numbers in memory for the moments of all pairs of points, (points d)^2, and for the reads of all points
    numbers: ClassVar[int] = 1 << 26
    together: ClassVar[int] = 256  #: tuples whose systems are solved together
    kurtosis: ClassVar[float] = 4.0  #: the largest E z^2 / (E z)^2 for which there is a bound
    delta: ClassVar[float] = 0.01  #: the probability of a wrong selection


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


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of the net, in units of the centre's norm: Theta = origin + sum_j z_j axes_j, |z| <= reach."""

    origin: np.ndarray
    axes: np.ndarray
    reach: float
    simplex: np.ndarray

    @classmethod
    def of(cls, span: AttentionSpan, over: str) -> "Frame":
        """The frame of the affine "hull" of the heads, or of their "span"."""
        unit, m = float(np.linalg.norm(span.centre)) or 1.0, len(span.basis)
        reach = span.reach / unit
        # corners of a regular simplex around the centre, in the coordinates of the hull
        corners = reach * np.linalg.svd(np.eye(m) - 1 / m)[0][:, : m - 1] / math.sqrt(max(1 - 1 / m, 0.5))
        if over == "hull":
            return cls(span.centre, unit * span.directions, reach, corners)
        corners = np.concatenate([corners, np.ones((m, 1))], axis=1)
        origin = np.zeros_like(span.centre)
        return cls(origin, span.scaled_basis, float(np.hypot(1.0, reach)), corners)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.axes)

    def matrices(self, points: Float[np.ndarray, "p z"]) -> Float[np.ndarray, "p d d"]:
        """The Theta at these coordinates."""
        return self.origin + np.tensordot(points, self.axes, 1)


@dataclass(frozen=True, eq=False)
class TupleRegression:
    """Least squares of the labels on the reads P_i X of a tuple of heads; a tuple needs no pass over the data.

    The heads are points of a `frame`. `x`, `y` are the examples for the regression, and `x_held`, `y_held` the
    held-out ones for the errors.
    """

    frame: Frame
    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    x_held: Float[np.ndarray, "h k d"]
    y_held: Float[np.ndarray, "h k d"]

    def heads(
        self, points: Float[np.ndarray, "m z"]
    ) -> tuple[Float[np.ndarray, "m d d"], Float[np.ndarray, "m d d"]]:
        """The Theta_i and W_i of one tuple, by least squares over the examples themselves."""
        theta = self.frame.matrices(points)
        _, read = read_tokens(self.x, theta)
        w = np.linalg.lstsq(read, self.y.reshape(-1, theta.shape[1]), rcond=None)[0]
        return theta, w.reshape(theta.shape)

    def errors(
        self, points: Float[np.ndarray, "g z"], tuples: Int[np.ndarray, "t m"]
    ) -> Float[np.ndarray, " t"]:
        """Squared relative held-out errors of tuples of places in `points`.

        O((m d)^3) a tuple; memory (g d)^2 for the moments of all points.
        """
        theta = self.frame.matrices(points)
        fitted, held = _moments(self.x, self.y, theta), _moments(self.x_held, self.y_held, theta)
        energy, parts = float(np.sum(self.y_held**2)), []
        for start in range(0, len(tuples), Net.together):
            places = tuples[start : start + Net.together]
            gram, moment = _of_tuples(*fitted, places)
            size = np.einsum("tii->t", gram)[:, None, None] / gram.shape[1]
            # two equal heads make the moments singular
            w = np.linalg.solve(gram + (1e-9 * size + 1e-300) * np.eye(gram.shape[1]), moment)
            gram, moment = _of_tuples(*held, places)
            explained, square = np.einsum("tij,tij->t", w, moment), np.einsum("tij,tij->t", w, gram @ w)
            parts.append(np.maximum(energy - 2 * explained + square, 0.0) / (energy or 1.0))
        return np.concatenate(parts)


def _moments(x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The moments Z_i^T Z_j of the reads Z_i = P_i X of g matrices, (g, g, d, d), and Z_i^T Y, (g, d, d)."""
    g, d, _ = theta.shape
    read = read_tokens(x, theta)[1]
    gram = (read.T @ read).reshape(g, d, g, d).transpose(0, 2, 1, 3)
    return gram, (read.T @ y.reshape(-1, d)).reshape(g, d, d)


def _of_tuples(gram: np.ndarray, moment: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The moments (t, m d, m d) and (t, m d, d) of tuples of the matrices."""
    (t, m), d = places.shape, moment.shape[1]
    blocks = gram[places[:, :, None], places[:, None, :]]  # t, m, m, d, d
    return blocks.transpose(0, 1, 3, 2, 4).reshape(t, m * d, m * d), moment[places].reshape(t, m * d, d)


@checked
def search_net(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    span: AttentionSpan,
    net: Net = Net(),
) -> NetSearch:
    """Phase 6: try tuples of points of a net, with projections by regression; keep the best on held-out examples.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples, at least 2 m d / k + 2. The first ones are used only to select, the next ones only to judge the
        selected tuple: `held_out_examples` of `net.most` candidates and of one candidate, or fewer if there are too few
        examples.
    span : AttentionSpan
        The span of the m heads, from phase 5.
    net : Net
        The net, and the limits of the search.

    Notes
    -----
    A ValueError if there are too few examples.

    *First net.* In each coordinate, every point of the ball |z| <= reach is within spacing / 2 of a point of the net.
    If the heads lie in the ball and their closest points are distinct, one tuple is as near to the heads. Its squared
    error after regression is of the order of the squared distance. The refinements have no guarantee. A net of spacing
    eps has (R/eps)^(m(m-1)) tuples over the hull and (R/eps)^(m^2) over the span. It is exhaustive for m <= 2 and
    coarse for m = 3. For more heads it is only a start for the refinements. A tuple costs O((m d)^3), without a pass
    over data.

    Source: Chen and Li, arXiv 2402.04084, phase 6, for the net; the refinements are not from there.
    """
    n, k, d = x.shape
    m, frame = len(span.basis), Frame.of(span, net.over)
    least = -(-2 * m * d // k)
    if n < least + 2:
        raise ValueError(
            f"There are {n} examples: {least} to regress on, one to select and one to judge are needed."
        )
    select, judge = _set_aside(n, least, held_out_examples(net.most), held_out_examples(1, net.delta / 2))
    # divide by the largest first: squares of labels could overflow
    unit = float(np.abs(y).max()) or 1.0
    unit = unit * float(np.sqrt(np.mean((y / unit) ** 2))) or 1.0
    y = y / unit
    fitted, judging = slice(select + judge, None), slice(select, select + judge)
    data = TupleRegression(frame, x[fitted], y[fitted], x_held=x[:select], y_held=y[:select])

    halvings = net.refinements if frame.dimension else 0
    first = net.most - net.most // 4 if halvings else net.most
    spacing, points = _grid(
        frame, net.spacing, m, first, min(math.isqrt(net.numbers) // d, net.numbers // x.size)
    )
    tuples = np.array([*combinations(range(len(points)), m)])
    errors = data.errors(points, tuples)
    best, error, tried = points[tuples[np.argmin(errors)]], float(errors.min()), len(tuples)
    for halving in range(1, halvings + 1):
        allowed = (net.most - tried) // (halvings - halving + 1)
        best, error, more = _refined(data, best, error, spacing / 2**halving, allowed)
        tried += more
    theta, w = data.heads(best)
    misses, energy = _squares(AttentionLayer(theta=theta, w=w)(x[judging]) - y[judging]), _squares(y)
    surface = None
    if m == 2 and frame.dimension == 1:
        surface = np.full((len(points), len(points)), np.nan)
        surface[tuple(tuples.T)] = surface[tuple(tuples.T[::-1])] = errors
    return NetSearch(
        layer=AttentionLayer(theta=theta, w=unit * w),
        error=float(misses.sum() / (energy[judging].sum() or 1.0)),
        candidates=tried,
        points=len(points),
        spacing=spacing,
        grid=None if surface is None else points[:, 0],
        surface=surface,
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


def _refined(
    data: TupleRegression, points: np.ndarray, error: float, step: float, allowed: int
) -> tuple[np.ndarray, float, int]:
    """Move one head after the other to its best neighbour until none is better; the tuple, its error, and those tried.

    Neighbours are a step away in some coordinates.
    """
    m, dimension = points.shape
    # each head gets an equal share of the tuples, so that none uses up those of the others
    share, since, head, tried = max(2 * dimension, allowed // (4 * m)), 0, 0, 0
    while since < m and tried < allowed:
        # without the head itself, which comes first
        near = [*islice(_around(dimension, step), 1, 1 + min(share, allowed - tried))] + points[head]
        since, tried, others = since + 1, tried + len(near), np.delete(points, head, axis=0)
        for start in range(0, len(near), _NEIGHBOURS):
            part = near[start : start + _NEIGHBOURS]
            places = np.array([[*range(m - 1), m - 1 + place] for place in range(len(part))])
            errors = data.errors(np.concatenate([others, part]), places)
            if errors.min() < error * (1 - 1e-9):
                points, error, since = points.copy(), float(errors.min()), 0
                points[head] = part[np.argmin(errors)]
        head = (head + 1) % m
    return points, error, tried


def _around(dimension: int, step: float) -> Iterator[np.ndarray]:
    """The 3^dimension offsets by a step in some coordinates; zero first, then those in the fewest coordinates."""
    for changed in range(dimension + 1):
        for places in combinations(range(dimension), changed):
            for signs in product((-step, step), repeat=changed):
                offset = np.zeros(dimension)
                offset[list(places)] = signs
                yield offset
