"""The heads at one delta, from a matrix pencil, and at all others, by following them."""

from dataclasses import astuple, dataclass, replace

import numpy as np
import scipy
from jaxtyping import Bool, Float

from attention import Recorder
from attention.evaluation import relative_error
from upper.value_queries.polish import Parameters
from upper.value_queries.sigmoid_fit import Separated, Sigmoids, separate
from upper.value_queries.two_tokens import TwoTokens, orthonormal

# Fourth-order central differences: points in units of the step, and their weights.
_POINTS, _WEIGHTS = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12
# The best of so many pencils with real eigenvalues is kept, or the first that is as well conditioned as this.
_PENCILS, _TRIES, _GOOD = 3, 12, 25.0
# Points of a fit for each unknown: fewer leave some heads with neighbours just as good.
_ROWS_A_UNKNOWN = 1.5
# The first change of delta, relative to its length, and how often it is halved where heads fall together.
_CHANGE, _HALVINGS = 0.125, 5
# Where values have errors of this share, the first change is longer: its error is that of the values over the change.
# With noise, the heads at the first delta are asked d / 4 times.
_TOO_COARSE, _LONG_CHANGE, _FEWER = 1e-4, 0.5, 4
# A separation is right where its residual is rounding, or so many times the noise, and no two heads are nearly one.
_RESIDUAL, _LOUD, _WORSE = 1e-11, 3.0, 1e3
# The residuals of rounded answers are so many times as large as of noisy ones: up to 7 times were measured.
_ROUNDED = 5.0
# Heads read again are wrong where they change by more than this.
_CHANGED = 0.5
# The step of differences, and the longest that noise asks for. Noise of this size, relative to v, needs no averages.
_STEP, _LONG_STEP, _QUIET = 0.25, 0.5, 1e-5


@dataclass(frozen=True)
class Plane:
    """The points x = y . basis at which the heads are fitted."""

    basis: Float[np.ndarray, "p d"]
    y: Float[np.ndarray, "n p"]

    @property
    def points(self) -> Float[np.ndarray, "n d"]:
        """The points x."""
        return self.y @ self.basis


@dataclass(frozen=True)
class FirstHeads:
    """The heads at the first delta."""

    delta: Float[np.ndarray, " d"]
    plane: Plane
    sigmoids: Sigmoids
    values: Float[np.ndarray, "m d"]  #: v_i = delta W_i
    residual: float  #: the worst head's, root mean square over rows
    #: how much larger rounding gets in v_i
    condition: Float[np.ndarray, " m"]


def separate_heads(
    pairs: TwoTokens, m: int, rank: int, scale: float, rng: np.random.Generator, recorder: Recorder
) -> tuple[Float[np.ndarray, "m d d"], Float[np.ndarray, "d d"], Plane] | None:
    """All projections W_i, the directions that were followed, and where heads were fitted; None where they are not told
    apart.

    `rank` is that of the values, the number of heads that are seen.
    """
    if m > rank:
        recorder.step("Fewer heads are seen than asked for", heads=m, rank=rank)
        return None
    first = first_heads(pairs, m, scale, rng) if m else None
    if first is None:
        recorder.step("No pencil separates the heads", heads=m)
        return None
    recorder.step("Heads separated", residual=first.residual, condition=first.condition)
    followed = follow_heads(pairs, first, scale, rng)
    if followed is None:
        recorder.step("Heads fall together", heads=m)
        return None
    w, directions = followed
    recorder.step(
        "Projections", sum_error=relative_error(w.sum(axis=0)[None], pairs.linear.projection_sum[None])
    )
    return w, directions, first.plane


def first_heads(pairs: TwoTokens, m: int, scale: float, rng: np.random.Generator) -> FirstHeads | None:
    """The m heads at a random delta, or None where no pencil separates them.

    The Jacobians of g at 0 and at -delta, along the axes of a plane, are A diag(s) V and A diag(s') V with the rows v_i
    of V, so the eigenvectors of one over the other are the v_i up to scale; v_1 + ... + v_m = delta (W_1 + ... + W_m)
    gives the scales. That starts the fit of `separate`, which takes the error of the differences away.
    4 p + 1 queries a try, and those of a fit; p = min(m, d).
    """
    d, p = pairs.oracle.d, min(m, pairs.oracle.d)
    found: list[FirstHeads] = []
    for _ in range(_TRIES):
        delta = scale * orthonormal(rng, 1, d)[0]
        # logits of a plane's points have the spread of those of tokens of length 2 r
        basis = 2 * scale / np.sqrt(p) * orthonormal(rng, p, d)
        start = _pencil(pairs, delta, basis, m)
        if start is not None:
            plane = Plane(basis, rng.standard_normal((_points(m, p), p)))
            heads = _separated(pairs, plane, delta[None], start)
            if _fitted(heads)[0] and np.isfinite(heads.condition).all():
                residual = float(heads.residual[0])
                found.append(
                    FirstHeads(delta, plane, _first(heads), heads.values[0], residual, heads.condition[0])
                )
        if len(found) == _PENCILS or (found and found[-1].condition.max() < _GOOD):
            break
    if not found:
        return None
    best = min(found, key=lambda one: float(one.condition.max()))
    if not pairs.noise or pairs.precision.repeatable:
        return best
    # these values are taken from those of every other delta
    often = replace(pairs, repeats=pairs.repeats * -(-d // _FEWER))
    heads = _separated(often, best.plane, best.delta[None], best.sigmoids)
    if not (_fitted(heads) & _apart(heads, best.condition))[0]:
        return best
    return replace(
        best,
        sigmoids=_first(heads),
        values=_matched(heads.values, best.values)[0],
        residual=float(heads.residual[0]),
    )


def _first(heads: Separated) -> Sigmoids:
    return Sigmoids(*(part[0] for part in astuple(heads.sigmoids)))


def _fitted(heads: Separated) -> Bool[np.ndarray, " batch"]:
    return heads.residual < np.maximum(_RESIDUAL, _LOUD * heads.noise)


def _apart(heads: Separated, usual: Float[np.ndarray, " m"]) -> Bool[np.ndarray, " batch"]:
    return heads.condition.max(axis=1) < _WORSE * usual.max()


def _points(m: int, p: int) -> int:
    return int(np.ceil(_ROWS_A_UNKNOWN * (m + p + 2) / 2)) + 2


def _pencil(pairs: TwoTokens, delta: np.ndarray, basis: np.ndarray, m: int) -> Sigmoids | None:
    p, total = len(basis), delta @ pairs.linear.projection_sum
    step = _STEP
    if pairs.noise:
        with np.errstate(divide="ignore"):
            loudness = pairs.value_noise * np.sqrt(len(total)) / np.linalg.norm(total)
        # fourth-order differences of a step h are off by h^4, and by the noise over h
        step = float(np.clip(2 * loudness**0.2, _STEP, _LONG_STEP))
        if not pairs.precision.repeatable:
            often = int(np.clip(np.ceil((loudness / _QUIET) ** 2), 1, -(-len(total) // _FEWER)))
            pairs = replace(pairs, repeats=pairs.repeats * often)
    x = np.concatenate(
        [(step * _POINTS[:, None, None] * basis).reshape(-1, len(delta)), np.zeros((1, len(delta)))]
    )
    here, there = pairs(x, delta)
    jacobians = [
        np.tensordot(_WEIGHTS / step, values[:-1].reshape(len(_POINTS), p, -1), 1) for values in (here, there)
    ]
    space = np.linalg.svd(np.concatenate([here, there]), full_matrices=False)[2][:m].T
    inside = [jacobian @ space for jacobian in jacobians]
    ratio = np.linalg.lstsq(inside[0], inside[1], rcond=None)[0]
    eigenvalues, vectors = np.linalg.eig(ratio)
    if np.any(np.abs(eigenvalues.imag) > 1e-9 * np.abs(eigenvalues).max()) or np.linalg.cond(vectors) > 1e10:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):  # the sum of the v_i may be zero
        dual = vectors.real / ((total @ space) @ vectors.real)
    if not np.isfinite(dual).all():
        return None
    # the heads' sigmoids at 0 and at -delta, and their slopes, as far as differences show them
    weights = [np.clip(values[-1] @ space @ dual, 0.01, 0.99) for values in (here, there)]
    slope = (inside[0] @ dual / (weights[0] * (1 - weights[0]))).T
    return Sigmoids(
        slope,
        scipy.special.logit(weights[0]),
        scipy.special.logit(weights[0]) - scipy.special.logit(weights[1]),
    )


def _separated(pairs: TwoTokens, plane: Plane, deltas: np.ndarray, start: Sigmoids) -> Separated:
    x = np.broadcast_to(plane.points, (len(deltas), *plane.points.shape))
    values = np.concatenate(pairs(x, deltas), axis=1)
    noise = (_ROUNDED if pairs.rounded else 1.0) * pairs.value_noise
    return separate(plane.y, values, deltas @ pairs.linear.projection_sum, start, noise=noise)


def follow_heads(
    pairs: TwoTokens, first: FirstHeads, scale: float, rng: np.random.Generator, *, batch: int = 64
) -> tuple[Float[np.ndarray, "m d d"], Float[np.ndarray, "d d"]] | None:
    """All projections W_i, and the orthonormal directions that were followed; None where heads fall together.

    From delta to delta + s q for each of d orthonormal q, heads change little and are fitted from where they were, so
    each keeps its name. s is halved where two end as one. About m + 4 queries a direction with p = m.
    """
    d, delta = pairs.oracle.d, first.delta
    q = np.linalg.qr(np.column_stack([delta, rng.standard_normal((d, d - 1))]))[0].T
    q[0] = delta / np.linalg.norm(delta)
    at_delta = first.values
    projected = np.empty((d, *at_delta.shape))
    projected[0] = at_delta / scale
    coarse = pairs.value_noise * np.sqrt(at_delta.size) > _TOO_COARSE * np.linalg.norm(at_delta)
    left, change = np.arange(1, d), (_LONG_CHANGE if coarse else _CHANGE) * scale
    for _ in range(_HALVINGS):
        failed = []
        for some in np.split(left, range(batch, len(left), batch)):
            heads = _separated(pairs, first.plane, delta + change * q[some], first.sigmoids)
            right = _fitted(heads) & _apart(heads, first.condition)
            projected[some[right]] = (_matched(heads.values[right], at_delta) - at_delta) / change
            failed.append(some[~right])
        left, change = np.concatenate(failed), change / 2
        if not len(left):
            return np.einsum("jp,jmd->mpd", q, projected), q
    return None


def read_heads(
    pairs: TwoTokens,
    plane: Plane,
    directions: Float[np.ndarray, "d d"],
    scale: float,
    known: Parameters,
    *,
    batch: int = 64,
) -> Float[np.ndarray, "m d d"]:
    """All projections W_i once more, from the differences r q_j themselves, with fits that start at known heads.

    The error is that of the values; `follow_heads` divides it by the change of delta. A fit that goes wrong leaves the
    known rows. About m + 4 queries a direction.
    """
    w = np.einsum("je,med->jmd", directions, known.w)
    for some in np.array_split(np.arange(len(w)), -(-len(w) // batch)):
        deltas = scale * directions[some]
        turned = np.einsum("mde,je->jmd", known.theta, deltas)  # u_i
        offset = np.einsum("me,je->jm", known.key_bias, deltas)
        if pairs.centre is not None:
            offset = offset + np.einsum("jmd,jd->jm", turned, pairs.centre(deltas[:, None]))
        k = pairs.oracle.k or 2
        offset = pairs.stretch * offset + np.log(((k + 1) // 2) / (k // 2))
        start = Sigmoids(turned @ plane.basis.T, offset, np.einsum("jmd,jd->jm", turned, deltas))
        heads = _separated(pairs, plane, deltas, start)
        before = scale * w[some]
        values = _matched(heads.values, before)
        off = np.linalg.norm(values - before, axis=2) / np.linalg.norm(before, axis=2)
        right = _fitted(heads) & np.isfinite(heads.condition).all(axis=1) & (off.max(axis=1) < _CHANGED)
        w[some[right]] = values[right] / scale
    return np.einsum("je,jmd->med", directions, w)


def _matched(
    values: Float[np.ndarray, "batch m d"], before: Float[np.ndarray, "*batch m d"]
) -> Float[np.ndarray, "batch m d"]:
    """The values in the order of the heads they have changed the least from: a fit may end with two heads exchanged."""
    distance = np.linalg.norm(values[:, None] - before[..., :, None, :], axis=-1)
    return np.array(
        [
            some[scipy.optimize.linear_sum_assignment(one)[1]]
            for some, one in zip(values, distance, strict=True)
        ]
    ).reshape(values.shape)
