"""Heads whose outputs have one direction, told apart by their steps: all that the function determines."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float

from attention import Recorder
from upper.value_queries.step_following import follow_steps
from upper.value_queries.step_form import Form, first_forms
from upper.value_queries.step_shape import Scalar, Step
from upper.value_queries.steps import find_steps
from upper.value_queries.two_tokens import TwoTokens, orthonormal

__all__ = ["ATTEMPTS", "Attempt", "RankOneHeads", "rank_one_heads"]

# Circles grow by this factor from this multiple of the scale, at most so often; then once more, for room.
_GROWTH, _FIRST, _GROWN, _ROOM = 1.5, 2.0, 16, np.sqrt(2)
# Points of a circle at which steps are looked for, until two looks see as many.
_LOOKS = (96, 384, 768, 1536)
# The rows' common vector is measured at up to so many times d delta, so many times as far away as where it was first
# seen, at those where it predicts h to one share; heads are saturated to the other.
_DRAWS, _FAR, _ALIKE, _SATURATED = 16, 8.0, 1e-6, 1e-13
# Values grow with the tokens' lengths, and their rounding is this share of them.
_ROUNDING = 1e-14
# Heights add up to this share of them.
_ADDS_UP = 1e-7
# Signs of so many heads are tried in all ways.
_ALL_WAYS = 13


@dataclass(frozen=True)
class Attempt:
    """What is taken for granted while heads of one output direction are looked for."""

    swapped: bool = False  #: x and delta exchange their roles
    shared: bool = True  #: forms that are combinations of others at one delta are so at all
    low_rank: bool = True  #: slopes that lie in the span of those before show the rank of Theta


ATTEMPTS = (
    Attempt(),
    Attempt(swapped=True),
    Attempt(),
    Attempt(swapped=True, low_rank=False),
    Attempt(low_rank=False),
    Attempt(shared=False, low_rank=False),
    Attempt(shared=False, low_rank=False),
)
"""Attempts in the order in which they are made, until one gives a layer that fresh queries confirm."""


@dataclass(frozen=True)
class RankOneHeads:
    """Heads with W_i = a_i w^T for one w, and one that attends to all tokens alike where W_i add up to less."""

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]
    #: by how much rounding grows in a head's logits: the logits that cancel where it steps, times the share of its
    #: step in the sum of all
    condition: Float[np.ndarray, " m"]


def rank_one_heads(
    pairs: TwoTokens, scale: float, rng: np.random.Generator, attempt: Attempt, recorder: Recorder
) -> RankOneHeads | None:
    """All heads of a layer whose g(x; delta) has one direction, or None where their steps are not told apart.

    1. On a half circle of points x each head makes one step; circles grow until steps are apart (`find_steps`).
    2. Near its step only one head changes, and its logit is read from one value: Theta_i delta_0 from d points.
    3. The same at d - 1 further delta, first nearby, then far away where the first estimate puts the step.
    4. Theta_i that are combinations of others at delta_0 are taken to be so at all delta, where `shared`.
       Where Theta_i delta are parallel for every delta, steps have one place; x and delta are exchanged then
       (`swapped`), for two tokens and W_i that are multiples of one another: h(x; delta) / (a . delta) is a sum of
       sigmoids of delta, with a the rows' common vector.
    5. The heads with (Theta, W) and (-Theta, -W) are told apart by numbers of copies of a token, or, as two tokens show
       the same function for both, chosen so that W_1 + ... + W_m is the known one.

    Only row 1 of an answer is read: at one delta the logit of row 2 is that of row 1 less delta . Theta delta, the same
    for all x.

    Three readings of some 2 r d queries for each Theta_i of rank r that is not a combination of others, d^2 at most.
    """
    d = pairs.oracle.d
    some = 2 * scale * rng.standard_normal((8, d))
    seen = np.concatenate(pairs(some, scale * orthonormal(rng, 1, d)[0]))
    output = np.linalg.svd(seen)[2][0]
    rounding = _ROUNDING * float(np.abs(seen @ output).max()) / scale
    total = pairs.linear.projection_sum @ output

    def h(x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        if delta.ndim == 1:
            return pairs(x[None], delta[None])[0][0] @ output
        return pairs(x[:, None], delta)[0][:, 0] @ output

    def exchanged(x: np.ndarray, delta: np.ndarray) -> np.ndarray:
        other = np.broadcast_to(delta, x.shape)
        return h(other, x) * (other @ common) / (x @ common)

    common = None
    if attempt.swapped:
        common = _common(h, scale, d, rng) if (pairs.oracle.k or 2) == 2 else None
        if common is None:
            return None
    values = h if common is None else exchanged
    found = _first_steps(values, scale, rounding, d, rng)
    if found is None:
        return None
    delta, steps = found
    heads = sum(len(step.shape.rate) for step in steps)
    recorder.step("Steps found", steps=len(steps), heads=heads, radius=float(np.linalg.norm(delta)))
    signs = [_sign(pairs, values, delta, step, output) for step in steps]
    if any(shift != 0 and len(step.shape.rate) > 1 for step, (_, shift) in zip(steps, signs, strict=True)):
        return None
    forms = first_forms(values, delta, steps, signs, rng, low_rank=attempt.low_rank)
    if forms is None:
        return None
    everywhere = follow_steps(
        values, total, delta, forms, rng, shared=attempt.shared, low_rank=attempt.low_rank
    )
    if everywhere is None:
        return None
    recorder.step("Steps followed", rank=max(len(form.span) for form in everywhere if len(form.span)))
    return _assembled(pairs, everywhere, output, attempt.swapped)


def _common(h: Scalar, scale: float, d: int, rng: np.random.Generator) -> Float[np.ndarray, " d"] | None:
    """The vector a with h(x; delta) proportional to a . delta where all heads are saturated."""
    for growth in range(_GROWN):
        radius = scale * _FIRST * _GROWTH**growth
        delta, x = radius * orthonormal(rng, 2, d)
        moved = delta + 1e-3 * radius * np.concatenate([orthonormal(rng, d, d), orthonormal(rng, 2, d)])
        values = h(np.tile(x, (len(moved), 1)), moved)
        found = np.linalg.lstsq(moved, values, rcond=None)[0]
        size = np.linalg.norm(found)
        right = np.abs(moved @ found - values).max() < 1e-9 * np.abs(values).max()
        if right and size * scale > 1e-9 * np.abs(h(scale * orthonormal(rng, 2, d), delta)).max():
            return _far_apart(h, _FAR * x, _FAR * radius, found, rng)
    return None


def _far_apart(
    h: Scalar, x: np.ndarray, radius: float, common: np.ndarray, rng: np.random.Generator
) -> Float[np.ndarray, " d"]:
    """The vector a to the last digits, from delta far apart at which the same heads are saturated as at the first."""
    d = len(x)
    kept: list[tuple[np.ndarray, float]] = []
    for _ in range(_DRAWS):
        moved = radius / np.sqrt(d) * rng.standard_normal((d, d))
        values, expected = h(np.tile(x, (d, 1)), moved), moved @ common
        alike = np.abs(values - expected) < _ALIKE * np.abs(expected)
        kept += zip(moved[alike], values[alike], strict=True)
        if len(kept) > d + 4:
            rows, values = (np.array(part) for part in zip(*kept, strict=True))
            found = np.linalg.lstsq(rows, values, rcond=None)[0]
            off = np.abs(rows @ found - values)
            if off.max() < _SATURATED * np.abs(values).max():
                common = found
                break
            # a head is not quite saturated there
            del kept[int(np.argmax(off))]
    return common / np.linalg.norm(common)


def _first_steps(
    h: Scalar, scale: float, rounding: float, d: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[Step]] | None:
    """A delta and the steps there, on a circle a little larger than one on which they are apart.

    `rounding` is that of h for tokens of unit length. Each circle has a delta and a plane of its own: in some planes
    two steps are close on all circles.
    """
    for growth in range(_GROWN):
        radius = scale * _FIRST * _GROWTH**growth
        delta, *plane = radius * orthonormal(rng, 3, d)
        steps = find_steps(h, delta, np.stack(plane), _LOOKS[0], rounding * radius)
        delta, plane = _ROOM * delta, [_ROOM * one for one in plane]
        for look in _LOOKS[1:]:
            if steps is None:
                break
            seen = len(steps)
            steps = find_steps(h, delta, np.stack(plane), look, _ROOM * rounding * radius)
            if steps is not None and len(steps) == seen:
                return delta, steps
    return None


def _sign(
    pairs: TwoTokens, h: Scalar, delta: np.ndarray, step: Step, output: np.ndarray
) -> tuple[float, float]:
    """The sign of a step's head, and ln(n_1 / n_2) of the queries, where its logit is more by that times the sign."""
    k = pairs.oracle.k or 2
    first = (k + 1) // 2
    if k == 2:
        return 1.0, 0.0
    others = first - 1 if 2 * first > k else first + 1
    x = step.centre
    tokens = np.stack([x, x - delta]).repeat([others, k - others], axis=0)
    value = (
        pairs.oracle.ask(tokens[None])[0, 0] - pairs.linear.bias - (x - delta) @ pairs.linear.projection_sum
    ) @ output
    usual = h(x[None], delta)[0]
    less = (value - usual) * step.height * (others - first) < 0
    return (-1.0 if less else 1.0), float(np.log(first / (k - first)))


def _assembled(pairs: TwoTokens, forms: Sequence[Form], output: np.ndarray, swapped: bool) -> RankOneHeads:
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
        [rate * np.linalg.norm(form.slope) * np.linalg.norm(form.step.centre) for form, rate, _ in rates]
    )
    condition = np.maximum(1.0, logits) * height.sum() / height
    total = pairs.linear.projection_sum
    if (pairs.oracle.k or 2) == 2:
        sign = _signs(amplitude, total @ output)
    theta, bias, amplitude = sign[:, None, None] * theta, sign[:, None] * bias, sign[:, None] * amplitude
    w = amplitude[:, :, None] * output
    rest = total - w.sum(axis=0)
    if np.abs(rest).max() > _ADDS_UP * np.abs(w).max():
        theta = np.concatenate([theta, np.zeros_like(theta[:1])])
        bias = np.concatenate([bias, np.zeros_like(bias[:1])])
        w = np.concatenate([w, rest[None]])
        condition = np.append(condition, 1.0)
    return RankOneHeads(np.swapaxes(theta, 1, 2) if swapped else theta, w, bias, condition)


def _signs(amplitude: Float[np.ndarray, "m d"], total: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
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
    right = np.flatnonzero(error < _ADDS_UP * np.abs(amplitude).max())
    return ways[right[0]] if len(right) else np.ones(m)
