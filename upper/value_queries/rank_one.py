"""Heads whose outputs have one direction, told apart by their steps: all that the function determines."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from attention import Recorder
from upper.value_queries.logits import Parameters
from upper.value_queries.queries import Tolerances, TwoTokens, orthonormal
from upper.value_queries.separation import Refusal
from upper.value_queries.step_following import follow_steps
from upper.value_queries.step_forms import Form, first_forms
from upper.value_queries.steps import Circle, OneDirection, Step, find_steps


@dataclass(frozen=True)
class Attempt:
    """What is taken for granted while heads of one output direction are looked for, and what giving it up repairs."""

    repairs: str
    swapped: bool = False  #: x and delta exchange their roles
    shared: bool = True  #: forms that are combinations of others at one delta are so at all
    low_rank: bool = True  #: slopes that lie in the span of those before show the rank of Theta


ATTEMPTS = (
    Attempt("nothing: with the fewest queries"),
    Attempt("steps of one place for every delta, as where Theta_i delta are parallel", swapped=True),
    Attempt("digits that the first delta lost, or steps that were too close on its circle"),
    Attempt("a wrong rank, where x and delta are exchanged", swapped=True, low_rank=False),
    Attempt("slopes that are combinations of others at the first delta alone", shared=False, low_rank=False),
)
"""Attempts in the order in which they are made, until one gives a layer that fresh queries confirm.

Of 45 instances of hard families that are read, 37 needed the first alone, 5 the second, and 1 the third; 2 of ternary
rounding gained digits by the fourth. The last alone reads layers with more heads than coordinates (8 of 8).
"""


@dataclass(frozen=True)
class RankOneHeads:
    """Heads with W_i = a_i w^T for one w, and one that attends to all tokens alike where W_i add up to less."""

    parameters: Parameters
    #: by how much rounding grows in the worst head's logits: the logits that cancel where it steps, times the share of
    #: its step in the sum of all
    condition: float


@dataclass(frozen=True)
class _Circles:
    """On which circles steps are looked for."""

    first: float = 2.0  #: the first has so many times the scale,
    growth: float = 1.5  #: and the next ones grow by this factor,
    most: int = 16  #: so often at most, until steps are apart;
    room: float = 1.4142135623730951  #: then once more, for room
    #: points at which steps are looked for, until two looks see as many
    looks: tuple[int, ...] = (96, 384, 768, 1536)


@dataclass(frozen=True)
class _Common:
    """How the vector that all rows share is measured, where x and delta are exchanged."""

    draws: int = 16  #: at up to so many times d delta,
    far: float = 8.0  #: so many times as far away as where it was first seen,
    alike: float = 1e-6  #: at those where it predicts the values to this share
    saturated: float = 1e-13  #: heads are saturated to this share there


_CIRCLES, _COMMON = _Circles(), _Common()
# Signs of so many heads are tried in all ways.
_ALL_WAYS = 13


def rank_one_heads(
    pairs: TwoTokens, rng: np.random.Generator, attempt: Attempt, recorder: Recorder
) -> RankOneHeads | Refusal:
    """All heads of a layer whose g(x; delta) has one direction, or why their steps are not told apart.

    1. On a half circle of points x each head makes one step; circles grow until steps are apart (`find_steps`).
    2. Near its step only one head changes, and its logit is read from one value: Theta_i delta_0 from d points.
    3. The same at d - 1 further delta, first nearby, then far away where the first estimate puts the step.
    4. Theta_i that are combinations of others at delta_0 are taken to be so at all delta, where `shared`.
       Where Theta_i delta are parallel for every delta, steps have one place; x and delta are exchanged then
       (`swapped`).
    5. The heads with (Theta, W) and (-Theta, -W) are told apart by numbers of copies of a token, or, as two tokens show
       the same function for both, chosen so that W_1 + ... + W_m is the known one.

    Only row 1 of an answer is read: at one delta the logit of row 2 is that of row 1 less delta . Theta delta, the same
    for all x.

    Three readings of some 2 r d queries for each Theta_i of rank r that is not a combination of others, d^2 at most.
    """
    d, scale = pairs.oracle.dim, pairs.scale
    random = 2 * scale * rng.standard_normal((8, d))
    seen = np.concatenate(pairs(random, scale * orthonormal(rng, 1, d)[0]))
    output = np.linalg.svd(seen)[2][0]
    tolerances = Tolerances.of(pairs.precision)
    rounding = tolerances.values * float(np.abs(seen @ output).max()) / scale
    total = pairs.linear.projection_sum @ output
    values = OneDirection(pairs, output, tolerances)
    if attempt.swapped:
        common = _common(values, rng) if pairs.copies == (1, 1) else None
        if common is None:
            return Refusal.NO_COMMON_ROW
        values = OneDirection(pairs, output, tolerances, common)
    steps = _first_steps(values, rounding, rng)
    if steps is None:
        return Refusal.NO_STEPS
    heads, radius = sum(len(step.shape.rate) for step in steps), float(np.linalg.norm(steps[0].line.delta))
    recorder.step("Steps found", steps=len(steps), heads=heads, radius=radius)
    signs = [_sign(values, step) for step in steps]
    if any(shift != 0 and len(step.shape.rate) > 1 for step, (_, shift) in zip(steps, signs, strict=True)):
        return Refusal.NO_SIGN
    forms = first_forms(values, steps, signs, rng, low_rank=attempt.low_rank)
    if forms is None:
        return Refusal.OUT_OF_REACH
    every = follow_steps(values, total, forms, rng, shared=attempt.shared, low_rank=attempt.low_rank)
    if every is None:
        return Refusal.LOST
    recorder.step("Steps followed", rank=max(len(form.span) for form in every if len(form.span)))
    return _assembled(values, every)


def _common(values: OneDirection, rng: np.random.Generator) -> Float[np.ndarray, " d"] | None:
    """The vector a with h(x; delta) proportional to a . delta where all heads are saturated."""
    d, scale = values.pairs.oracle.dim, values.pairs.scale
    for growth in range(_CIRCLES.most):
        radius = scale * _CIRCLES.first * _CIRCLES.growth**growth
        delta, x = radius * orthonormal(rng, 2, d)
        moved = delta + 1e-3 * radius * np.concatenate([orthonormal(rng, d, d), orthonormal(rng, 2, d)])
        value = values(np.tile(x, (len(moved), 1)), moved)
        common = np.linalg.lstsq(moved, value, rcond=None)[0]
        right = np.abs(moved @ common - value).max() < 1e-9 * np.abs(value).max()
        beside = np.abs(values(scale * orthonormal(rng, 2, d), delta)).max() if right else np.inf
        if right and np.linalg.norm(common) * scale > 1e-9 * beside:
            return _far_apart(values, _COMMON.far * x, _COMMON.far * radius, common, rng)
    return None


def _far_apart(
    values: OneDirection, x: np.ndarray, radius: float, common: np.ndarray, rng: np.random.Generator
) -> Float[np.ndarray, " d"]:
    """The vector a to the last digits, from delta far apart at which the same heads are saturated as at the first."""
    d = len(x)
    held: list[tuple[np.ndarray, float]] = []
    for _ in range(_COMMON.draws):
        moved = radius / np.sqrt(d) * rng.standard_normal((d, d))
        value, expected = values(np.tile(x, (d, 1)), moved), moved @ common
        alike = np.abs(value - expected) < _COMMON.alike * np.abs(expected)
        held += zip(moved[alike], value[alike], strict=True)
        if len(held) > d + 4:
            rows, value = (np.array(part) for part in zip(*held, strict=True))
            closer = np.linalg.lstsq(rows, value, rcond=None)[0]
            off = np.abs(rows @ closer - value)
            if off.max() < _COMMON.saturated * np.abs(value).max():
                common = closer
                break
            # a head is not quite saturated there
            del held[int(np.argmax(off))]
    return common / np.linalg.norm(common)


def _first_steps(values: OneDirection, rounding: float, rng: np.random.Generator) -> list[Step] | None:
    """The steps at a delta, on a circle a little larger than one on which they are apart.

    `rounding` is that of the values for tokens of unit length. Each circle has a delta and a plane of its own: in some
    planes two steps are close on all circles.
    """
    for growth in range(_CIRCLES.most):
        radius = values.pairs.scale * _CIRCLES.first * _CIRCLES.growth**growth
        delta, *plane = radius * orthonormal(rng, 3, values.pairs.oracle.dim)
        circle = Circle(delta, np.stack(plane))
        steps = find_steps(values, circle, _CIRCLES.looks[0], rounding * radius)
        circle = circle.larger(_CIRCLES.room)
        for look in _CIRCLES.looks[1:]:
            if steps is None:
                break
            seen = len(steps)
            steps = find_steps(values, circle, look, _CIRCLES.room * rounding * radius)
            if steps is not None and len(steps) == seen:
                return steps
    return None


def _sign(values: OneDirection, step: Step) -> tuple[float, float]:
    """The sign of a step's head, and ln(n_1 / n_2) of the queries, where its logit is more by that times the sign."""
    pairs, x, delta = values.pairs, step.line.base, step.line.delta
    first, k = pairs.copies[0], sum(pairs.copies)
    if k == 2:
        return 1.0, 0.0
    others = first - 1 if 2 * first > k else first + 1
    tokens = np.stack([x, x - delta]).repeat([others, k - others], axis=0)
    value = (
        pairs.oracle.ask(tokens[None])[0, 0] - pairs.linear.bias - (x - delta) @ pairs.linear.projection_sum
    ) @ values.output
    usual = values(x[None], delta)[0]
    less = (value - usual) * step.height * (others - first) < 0
    return (-1.0 if less else 1.0), float(np.log(first / (k - first)))


def _assembled(values: OneDirection, forms: Sequence[Form]) -> RankOneHeads:
    """The layer: the heads of each step, signs, and what is left of W_1 + ... + W_m."""
    rates = [
        (form, rate, share)
        for form in forms
        for share, rate in zip(form.step.shape.share, form.step.shape.rate, strict=True)
    ]
    sign = np.array([form.sign for form, _, _ in rates])
    theta = np.stack([rate * form.theta for form, rate, _ in rates])
    bias = np.stack([rate * form.bias for form, rate, _ in rates])
    amplitude = np.stack([share * form.amplitude for form, _, share in rates])
    height = np.array([abs(share * form.height) for form, _, share in rates])
    logits = np.array(
        [rate * np.linalg.norm(form.slope) * np.linalg.norm(form.step.line.base) for form, rate, _ in rates]
    )
    condition = float(np.max(np.maximum(1.0, logits) * height.sum() / height))
    linear, tolerance = values.pairs.linear, values.tolerances.sums
    total = linear.projection_sum
    if values.pairs.copies == (1, 1):
        sign = _signs(amplitude, total @ values.output, tolerance)
    theta, bias, amplitude = sign[:, None, None] * theta, sign[:, None] * bias, sign[:, None] * amplitude
    w = amplitude[:, :, None] * values.output
    rest = total - w.sum(axis=0)
    if np.abs(rest).max() > tolerance * np.abs(w).max():
        theta = np.concatenate([theta, np.zeros_like(theta[:1])])
        bias = np.concatenate([bias, np.zeros_like(bias[:1])])
        w = np.concatenate([w, rest[None]])
    theta = theta if values.common is None else np.swapaxes(theta, 1, 2)
    return RankOneHeads(Parameters(theta, w, bias, linear.bias), condition)


def _signs(
    amplitude: Float[np.ndarray, "m d"], total: Float[np.ndarray, " d"], tolerance: float
) -> Float[np.ndarray, " m"]:
    """Signs with which the amplitudes add up to the total, or all +1 where none are found.

    All ways for few heads; for more, one change of sign along the circle, as thresholds of one form have.
    """
    m = len(amplitude)
    if m <= _ALL_WAYS:
        ways = np.array(list(product([1.0, -1.0], repeat=m)))
    else:
        steps = np.where(np.arange(m) < np.arange(m + 1)[:, None], -1.0, 1.0)
        ways = np.concatenate([steps, -steps])
    error = np.abs(ways @ amplitude - total).max(axis=1)
    right = np.flatnonzero(error < tolerance * np.abs(amplitude).max())
    return ways[right[0]] if len(right) else np.ones(m)
