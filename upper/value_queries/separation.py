"""The heads at one delta, from a matrix pencil, and at all others, by following them."""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import scipy
from jaxtyping import Bool, Float

from attention import Recorder
from attention.evaluation import norm_ratio
from upper.value_queries.queries import TwoTokens, orthonormal


@dataclass(frozen=True)
class _Pencils:
    """How heads are separated at the first delta."""

    enough: int = 3  #: the best of so many pencils with real eigenvalues is taken
    tries: int = 12
    good: float = 25.0  #: or the first that is as well conditioned as this
    #: fourth-order differences: the step length in units of the scale, and the longest that noise asks for
    step_length: float = 0.25
    longest: float = 0.5
    #: points of a fit for each unknown: fewer leave some heads with neighbours just as good
    rows: float = 1.5


@dataclass(frozen=True)
class _Following:
    """How heads are followed from the first delta, and what is a right separation."""

    change: float = 0.125  #: the first change of delta, relative to its length
    draws: int = 64  #: of points at which heads are followed
    float64: float = (
        2e-15  #: coarser answers are asked for at more points, as fewer make errors of heads larger
    )
    halvings: int = 5  #: it is halved at most so often, where heads fall together
    #: where values have errors of this share the first change is longer: its error is that of the values over it
    coarse: float = 1e-4
    long_change: float = 0.5
    residual: float = 1e-11  #: a separation is right where its residual is rounding of float64,
    noise: float = 3.0  #: or so many times the noise,
    rounded: float = 5.0  #: or this times as much where answers are rounded: up to 7 times were measured
    #: and where no two heads are nearly one: conditions are at most so many times the first
    worse: float = 1e3
    few: float = 50.0  #: the same at as few points as there are unknowns
    batch: int = 64  #: delta at a time, for memory


_PENCILS, _FOLLOWING = _Pencils(), _Following()


@dataclass(frozen=True)
class _Damping:
    """The Levenberg-Marquardt damping of all fits of a batch, each its own."""

    iterations: int = 40  #: from a near start 4 to 8 are enough
    first: float = 1e-3
    least: float = 1e-15
    most: float = 1e8  #: beyond, a fit has ended
    less: float = 0.05  #: the factor after a step that helps
    more: float = 10.0  #: the factor after one that does not
    #: squared residuals a row below the first are rounding, in units of a sigmoid's height; below the second, a step
    #: that takes nothing off is the last
    rounding: float = 1e-32
    small: float = 1e-26


_DAMPING = _Damping()
# Two heads fell together where the singular values of what singles heads out are so far apart.
_TOGETHER = 1e-12
# Keeps the normal equations of a saturated head regular.
_SATURATED = 1e-100


@dataclass(frozen=True)
class Sigmoids:
    """The arguments of the heads' sigmoids: slope . y + offset at x, and that less `drop` at x - delta."""

    slope: Float[np.ndarray, "*batch m p"]  #: in coordinates y of a plane of p dimensions
    offset: Float[np.ndarray, "*batch m"]
    drop: Float[np.ndarray, "*batch m"]  #: u_i . delta


@dataclass(frozen=True)
class Separated:
    """The heads that a fit found, for each delta of a batch."""

    sigmoids: Sigmoids
    values: Float[np.ndarray, "batch m d"]  #: v_i = delta W_i
    residual: Float[np.ndarray, " batch"]  #: the worst head's, root mean square over rows
    noise: Float[np.ndarray, " batch"]  #: what the noise on the values alone makes of it
    #: how much larger rounding of g gets in v_i, relative to its size; infinite if two heads fell together
    condition: Float[np.ndarray, "batch m"]


@dataclass(frozen=True)
class Plane:
    """The points x = y . basis at which the heads are fitted."""

    basis: Float[np.ndarray, "p d"]
    y: Float[np.ndarray, "n p"]


@dataclass(frozen=True)
class SeparatedHeads:
    """The projections of all heads."""

    w: Float[np.ndarray, "m d d"]
    directions: Float[np.ndarray, "d d"]  #: the orthonormal directions of delta that were followed
    change: float  #: the shortest change of delta along them, relative to its length


class Refusal(Enum):
    """Why heads are not separated; the last ones are of heads whose outputs have one direction."""

    FEWER_HEADS = "Fewer heads are seen than asked for"
    NO_PENCIL = "No pencil separates the heads"
    FALL_TOGETHER = "Heads fall together"
    NO_COMMON_ROW = "Rows share no vector, so that tokens cannot be exchanged"
    NO_STEPS = "On no circle are the steps apart"
    NO_SIGN = "Parallel heads with unequal numbers of the two tokens"
    OUT_OF_REACH = "A step is out of reach at the first difference"
    LOST = "A step is lost on the way to other differences"
    MORE_HEADS = "More heads are seen than asked for"


@dataclass(frozen=True)
class FirstHeads:
    """The heads at the first delta: a fit of one delta."""

    delta: Float[np.ndarray, " d"]
    plane: Plane
    fit: Separated

    @property
    def condition(self) -> float:
        """How much larger rounding gets in the worst head's v_i."""
        return float(self.fit.condition.max())


def separate_heads(
    pairs: TwoTokens, m: int, rank: int, rng: np.random.Generator, recorder: Recorder
) -> SeparatedHeads | Refusal:
    """All projections W_i, or why heads are not told apart; `rank` is that of the values, the number that is seen."""
    if m > rank:
        return Refusal.FEWER_HEADS
    first = first_heads(pairs, m, rng) if m else None
    if first is None:
        return Refusal.NO_PENCIL
    recorder.step("Heads separated", residual=float(first.fit.residual[0]), condition=first.condition)
    heads = follow_heads(pairs, first, rng)
    if heads is None:
        return Refusal.FALL_TOGETHER
    total = norm_ratio(heads.w.sum(axis=0) - pairs.linear.projection_sum, pairs.linear.projection_sum)
    recorder.step("Projections", sum_error=total, change=heads.change)
    # the sum is known best, from equal tokens
    closer = heads.w + (pairs.linear.projection_sum - heads.w.sum(axis=0)) / m
    return replace(heads, w=closer)


def first_heads(pairs: TwoTokens, m: int, rng: np.random.Generator) -> FirstHeads | None:
    """The m heads at a random delta, or None where no pencil separates them.

    The Jacobians of g at 0 and at -delta, along the axes of a plane, are A diag(s) V and A diag(s') V with the rows v_i
    of V, so the eigenvectors of one over the other are the v_i up to scale; v_1 + ... + v_m = delta (W_1 + ... + W_m)
    gives the scales. That starts the fit of `_fit_sigmoids`, which takes the error of the differences away.
    4 p + 1 queries a try, and those of a fit; p = min(m, d).

    Another delta is tried where two eigenvalues are so close that they come out complex, or a fit ends elsewhere.
    """
    d, p = pairs.oracle.dim, min(m, pairs.oracle.dim)
    right: list[FirstHeads] = []
    for _ in range(_PENCILS.tries):
        delta = pairs.scale * orthonormal(rng, 1, d)[0]
        # logits of a plane's points have the spread of those of tokens of length 2 r
        basis = 2 * pairs.scale / np.sqrt(p) * orthonormal(rng, p, d)
        start = _pencil(pairs, delta, basis, m)
        if start is not None:
            rows = int(np.ceil(_PENCILS.rows * (m + p + 2) / 2)) + 2
            plane = Plane(basis, rng.standard_normal((rows, p)))
            heads = FirstHeads(delta, plane, _fit(pairs, plane, delta[None], start))
            if _fitted(heads.fit)[0] and np.isfinite(heads.condition):
                right.append(heads)
        if len(right) == _PENCILS.enough or (right and right[-1].condition < _PENCILS.good):
            break
    return min(right, key=lambda heads: heads.condition, default=None)


def _fitted(heads: Separated) -> Bool[np.ndarray, " batch"]:
    return heads.residual < np.maximum(_FOLLOWING.residual, _FOLLOWING.noise * heads.noise)


def _pencil(pairs: TwoTokens, delta: np.ndarray, basis: np.ndarray, m: int) -> Sigmoids | None:
    p, total = len(basis), delta @ pairs.linear.projection_sum
    least = np.finfo(float).tiny  # the sum of the v_i may be zero
    noise_level = pairs.value_noise * np.sqrt(len(total)) / max(float(np.linalg.norm(total)), least)
    # fourth-order differences of a step h are off by h^4, and by the noise over h
    step = float(np.clip(2 * noise_level**0.2, _PENCILS.step_length, _PENCILS.longest))
    points, weights = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12
    x = np.concatenate(
        [(step * points[:, None, None] * basis).reshape(-1, len(delta)), np.zeros((1, len(delta)))]
    )
    rows = pairs(x, delta)
    jacobians = [np.tensordot(weights / step, values[:-1].reshape(len(points), p, -1), 1) for values in rows]
    space = np.linalg.svd(np.concatenate(rows), full_matrices=False)[2][:m].T
    inside = [jacobian @ space for jacobian in jacobians]
    ratio = np.linalg.lstsq(inside[0], inside[1], rcond=None)[0]
    eigenvalues, vectors = np.linalg.eig(ratio)
    if np.any(np.abs(eigenvalues.imag) > 1e-9 * np.abs(eigenvalues).max()) or np.linalg.cond(vectors) > 1e10:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        dual = vectors.real / ((total @ space) @ vectors.real)
    if not np.isfinite(dual).all():
        return None
    # the heads' sigmoids at 0 and at -delta, and their slopes, as far as differences show them
    at_zero, at_delta = (np.clip(values[-1] @ space @ dual, 0.01, 0.99) for values in rows)
    slope = (inside[0] @ dual / (at_zero * (1 - at_zero))).T
    offset = scipy.special.logit(at_zero)
    return Sigmoids(slope, offset, offset - scipy.special.logit(at_delta))


def _fit(pairs: TwoTokens, plane: Plane, deltas: np.ndarray, start: Sigmoids) -> Separated:
    x = np.tile(plane.y @ plane.basis, (len(deltas), 1, 1))
    values = np.concatenate(pairs(x, deltas), axis=1)
    noise = (_FOLLOWING.rounded if pairs.rounded else 1.0) * pairs.value_noise
    return _fit_sigmoids(plane.y, values, deltas @ pairs.linear.projection_sum, start, noise=noise)


def follow_heads(pairs: TwoTokens, first: FirstHeads, rng: np.random.Generator) -> SeparatedHeads | None:
    """All projections W_i, and the orthonormal directions that were followed; None where heads fall together.

    From delta to delta + s q for each of d orthonormal q, heads change little and are fitted from where they were, so
    each keeps its name. s is halved where two end as one. Exact answers at (m + p + 2) / 2 points determine the
    m + p + 2 unknowns of a head, with p = m mostly. Coarser ones, and heads that are ill conditioned at so few points,
    are asked for at all points of the first fit.
    """
    d, delta = pairs.oracle.dim, first.delta
    in_float64 = pairs.precision.accuracy < _FOLLOWING.float64 and not pairs.coarse
    planes = [_fewest_points(first, rng)] * in_float64 + [first.plane] * _FOLLOWING.halvings
    q = np.linalg.qr(np.column_stack([delta, rng.standard_normal((d, d - 1))]))[0].T
    q[0] = delta / np.linalg.norm(delta)
    at_delta = first.fit.values[0]
    projected = np.empty((d, *at_delta.shape))
    projected[0] = at_delta / pairs.scale
    coarse = pairs.value_noise * np.sqrt(at_delta.size) > _FOLLOWING.coarse * np.linalg.norm(at_delta)
    left = np.arange(1, d)
    change = (_FOLLOWING.long_change if coarse else _FOLLOWING.change) * pairs.scale
    for plane in planes:
        few = plane is not first.plane
        failed = []
        for which in np.split(left, range(_FOLLOWING.batch, len(left), _FOLLOWING.batch)):
            heads = _fit(pairs, plane, delta + change * q[which], first.fit.sigmoids)
            worst = (_FOLLOWING.few if few else _FOLLOWING.worse) * first.condition
            right = _fitted(heads) & (heads.condition.max(axis=1) < worst)
            projected[which[right]] = (_matched(heads.values[right], at_delta) - at_delta) / change
            failed.append(which[~right])
        left = np.concatenate(failed)
        if not len(left):
            return SeparatedHeads(np.einsum("jp,jmd->mpd", q, projected), q, change / pairs.scale)
        change = change if few else change / 2
    return None


def _fewest_points(first: FirstHeads, rng: np.random.Generator) -> Plane:
    """As many points as a head has unknowns; of some draws those with the best conditioned equations at the first."""
    basis, sigmoids = first.plane.basis, first.fit.sigmoids
    slope, offset, drop = sigmoids.slope[0], sigmoids.offset[0], sigmoids.drop[0]
    n = -(-(len(basis) + len(offset) + 2) // 2) + len(offset) // 4
    best, least = first.plane, 0.0
    for _ in range(_FOLLOWING.draws):
        y = rng.standard_normal((n, len(basis)))
        at = y @ slope.T + offset
        values = scipy.special.expit(np.concatenate([at, at - drop]))
        ones = np.ones((n, 1))
        moves = np.concatenate([np.concatenate([y, ones, other * ones], axis=1) for other in (0, -1)])
        equations = np.concatenate(
            [
                (values * (1 - values)).T[:, :, None] * moves,
                np.broadcast_to(values, (len(offset), *values.shape)),
            ],
            axis=2,
        )
        singular = np.linalg.svd(equations, compute_uv=False)
        smallest = float((singular[:, -1] / singular[:, 0]).min())
        if smallest > least:
            best, least = Plane(basis, y), smallest
    return best


def _matched(
    values: Float[np.ndarray, "batch m d"], before: Float[np.ndarray, "*batch m d"]
) -> Float[np.ndarray, "batch m d"]:
    """The values in the order of the heads they have changed the least from: a fit may end with two heads exchanged."""
    distances = np.linalg.norm(values[:, None] - before[..., :, None, :], axis=-1)
    orders = [scipy.optimize.linear_sum_assignment(distance)[1] for distance in distances]
    return np.array([heads[order] for heads, order in zip(values, orders, strict=True)]).reshape(values.shape)


def _fit_sigmoids(
    y: Float[np.ndarray, "n p"],
    g: Float[np.ndarray, "batch 2*n d"],
    total: Float[np.ndarray, "batch d"],
    start: Sigmoids,
    *,
    noise: float = 0.0,
) -> Separated:
    """Fit, for every delta of a batch and every head i, p_i with g(x) . p_i = sigmoid(slope . y + offset).

    Levenberg-Marquardt on slope, offset and drop; p_i, in which the residual is linear, is eliminated. As
    p_i . v_j = 1[i = j], the constraint total . p_i = 1 holds, with total = v_1 + ... + v_m; it excludes p_i = 0.

    Parameters
    ----------
    y : array (n, p)
        Coordinates of the points x.
    g : array (batch, 2 n, d)
        The values at the points x, then at x - delta.
    total : array (batch, d)
        delta (W_1 + ... + W_m).
    start : Sigmoids
        Where to begin, for m heads; one start for all deltas or one for each.
    noise : float
        Standard deviation of the noise on an entry of g; a fit ends where it reaches that.

    Notes
    -----
    O(batch m n (m + p)^2) an iterate. From a start that is a small change of delta away it takes 4 to 8 iterates.
    """
    batch, rows, _ = g.shape
    m, p = start.slope.shape[-2:]
    space = np.linalg.svd(g, full_matrices=False)[2][:, :m]
    inside = np.concatenate([g, total[:, None]], axis=1) @ np.swapaxes(space, 1, 2)
    unit = np.sqrt(np.mean(inside**2, axis=(1, 2), keepdims=True))
    q, triangle = np.linalg.qr(inside / unit)
    small = np.maximum(_DAMPING.small, (noise / unit[:, :, 0]) ** 2)
    at_x = np.concatenate([y, np.ones((len(y), 1)), np.zeros((len(y), 1))], axis=1)
    at_other = np.concatenate([y, np.ones((len(y), 1)), -np.ones((len(y), 1))], axis=1)
    inner = np.concatenate([at_x, at_other])

    def residuals(unknowns: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sigmoid = scipy.special.expit(unknowns @ inner.T)
        ends = np.concatenate([sigmoid, np.ones((*sigmoid.shape[:-1], 1))], axis=-1)
        left = ends - (ends @ q) @ np.swapaxes(q, 1, 2)
        return ends, left, np.sum(left**2, axis=-1)

    def moves(ends: np.ndarray) -> np.ndarray:
        slopes = ends[..., :-1] * (1 - ends[..., :-1])
        return np.concatenate([slopes[..., None] * inner, np.zeros((*ends.shape[:2], 1, p + 2))], axis=2)

    def off_span(columns: np.ndarray, q: np.ndarray) -> np.ndarray:
        return columns - q[:, None] @ (np.swapaxes(q, 1, 2)[:, None] @ columns)

    unknowns = np.concatenate([start.slope, start.offset[..., None], start.drop[..., None]], axis=-1)
    unknowns = np.array(np.broadcast_to(unknowns, (batch, m, p + 2)))
    ends, left, squared = residuals(unknowns, q)
    damping = np.full((batch, m), _DAMPING.first)
    for _ in range(_DAMPING.iterations):
        active = (squared > rows * _DAMPING.rounding) & (damping < _DAMPING.most)
        open_ = np.flatnonzero(active.any(axis=1))
        if not len(open_):
            break
        # columns off the span of the values, as the residual is
        jacobian = off_span(moves(ends[open_]), q[open_])
        normal = np.swapaxes(jacobian, -1, -2) @ jacobian
        scale = np.trace(normal, axis1=-2, axis2=-1) / (p + 2) + _SATURATED
        normal += (damping[open_] * scale)[..., None, None] * np.eye(p + 2)
        gradient = np.swapaxes(jacobian, -1, -2) @ left[open_][..., None]
        trial = unknowns[open_] - np.linalg.solve(normal, gradient)[..., 0]
        trial_ends, trial_left, trial_squared = residuals(trial, q[open_])
        better = active[open_] & (trial_squared < squared[open_])
        for held, new in ((unknowns, trial), (ends, trial_ends), (left, trial_left)):
            held[open_] = np.where(better[..., None], new, held[open_])
        squared[open_] = np.where(better, trial_squared, squared[open_])
        lower = np.maximum(damping[open_] * _DAMPING.less, _DAMPING.least)
        damping[open_] = np.where(better, lower, np.maximum(damping[open_], 1e-12) * _DAMPING.more)
        ended = ~better & (squared[open_] < rows * small[open_])
        damping[open_] = np.where(ended, _DAMPING.most, damping[open_])
    # columns: the sigmoids in the basis q, and the p_i
    sigmoids = np.swapaxes(ends @ q, 1, 2)
    single = np.swapaxes(np.linalg.solve(triangle, sigmoids), 1, 2)
    singular = np.linalg.svd(single, compute_uv=False)
    usable = singular[:, -1] > _TOGETHER * singular[:, 0]
    single, sigmoids = (np.where(usable[:, None, None], part, np.eye(m)) for part in (single, sigmoids))
    values = np.swapaxes(np.linalg.inv(single), 1, 2) @ space
    # an error of g . p_j moves sigmoid j by that over the sine of the angle between what can move it and the values
    sine = np.linalg.svd(off_span(np.linalg.qr(moves(ends))[0], q), compute_uv=False)[..., -1]
    moved = np.linalg.norm(values, axis=2) * np.linalg.norm(single, axis=2) / np.maximum(sine, _SATURATED)
    moved = np.linalg.norm(moved, axis=1, keepdims=True) / np.sqrt(m)
    condition = np.linalg.norm(np.linalg.inv(sigmoids), axis=2) * moved
    return Separated(
        Sigmoids(unknowns[..., :p], unknowns[..., p], unknowns[..., p + 1]),
        values * unit,
        np.sqrt(squared.max(axis=1) / rows),
        noise * np.linalg.norm(single / unit, axis=2).max(axis=1),
        np.where(usable[:, None], condition, np.inf),
    )
