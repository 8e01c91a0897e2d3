"""A step read at points far apart, which show its slope to the last digits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from upper.value_queries.step_form import Form, clear_of
from upper.value_queries.step_reading import Span
from upper.value_queries.step_shape import Scalar
from upper.value_queries.two_tokens import orthonormal

__all__ = ["AllSteps", "polished", "polished_slope"]

# Points more than there are unknowns, how often points are drawn, and delta where heads meet.
_MORE, _DRAWS, _OTHER_DELTAS = 5, 12, 6
# Tokens have this share of their length on the circle, or twice it and so on where other heads are not saturated: a
# logit is a small difference of large numbers, so its rounding grows with the square of the length.
_SHORTEST, _LONGEST = 1 / 16, 8.0
# Logits of a single head are read up to this size.
_WIDE = 4.0
# Delta with all of a slope, more than the rank of Theta.
_MORE_DELTAS = 3


@dataclass(frozen=True)
class AllSteps:
    """h, as far as it is known before it is read again."""

    h: Scalar
    total: Float[np.ndarray, " d"]  #: the sum of the amplitudes of all heads
    every: Sequence[Form]

    def others(
        self, form: Form, x: Float[np.ndarray, "n d"], delta: Float[np.ndarray, " d"]
    ) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
        """The sum of all steps but this one, and whether they are over, on either side."""
        clear = np.ones(len(x), bool)
        low = np.full(len(x), delta @ (self.total - sum(one.amplitude for one in self.every)) / 2)
        for other in self.every:
            if other is not form:
                logits = x @ (other.theta @ delta) + other.bias @ delta + other.shift
                clear &= clear_of(other, logits)
                low += np.where(logits > 0, other.amplitude @ delta, 0.0)
        return low, clear


def polished(
    known: AllSteps,
    form: Form,
    deltas: Float[np.ndarray, "d d"],
    rng: np.random.Generator,
) -> Form:
    """The form read again at d orthogonal delta.

    Where Theta has rank r < d, slopes are read whole at r + 3 delta, C = Theta D, and at all others in the r directions
    U^T of the span. Then Theta delta = C (U^T C)^+ U^T Theta delta, whatever the error of the span. About
    2 (r + 5) d queries, or d (d + 5).
    """
    d, r = len(deltas), len(form.span)
    enough = min(d, r + _MORE_DELTAS) if r < d else d
    used, slopes, inside, bases, constants = [], [], [], [], []
    length = _SHORTEST
    for j, delta in enumerate(deltas):
        tried, span = delta, np.eye(d) if j < enough else form.span
        for _ in range(_OTHER_DELTAS):
            found, length = _read_shortest(known, form, tried, span, length, rng)
            if found is not None:
                break
            # heads meet there, as where delta is orthogonal to what tells them apart: beside another delta they do not
            tried = (delta + np.linalg.norm(delta) * orthonormal(rng, 1, d)[0]) / np.sqrt(2)
        if found is None:
            return form
        base, inner, constant = found
        used.append(length * tried)
        bases.append(base)
        constants.append(constant)
        if j < enough:
            slopes.append(inner)
            inner = form.span @ inner
        inside.append(inner)
    at_first, coordinates = np.array(slopes), np.array(inside)
    rest = coordinates[enough:] @ np.linalg.pinv(coordinates[:enough]) @ at_first
    every_slope = np.concatenate([at_first, rest])
    offsets = np.array(constants) - np.einsum("nd,nd->n", np.array(bases), every_slope)
    theta = np.linalg.solve(np.array(used), every_slope).T
    bias = np.linalg.solve(np.array(used), offsets)
    return replace(form, theta=theta, bias=bias, slope=theta @ deltas[0], offset=float(bias @ deltas[0]))


def polished_slope(
    known: AllSteps,
    form: Form,
    delta: Float[np.ndarray, " d"],
    span: Span,
    rng: np.random.Generator,
) -> Form:
    """The form with its slope at the first delta read again, in a span that holds it; p + 5 queries."""
    found, length = _read_shortest(known, form, delta, span, _SHORTEST, rng)
    if found is None:
        return form
    base, inner, constant = found
    slope = inner @ span
    return replace(form, slope=slope / length, offset=float(constant - base @ slope) / length)


def _read_shortest(
    known: AllSteps,
    form: Form,
    delta: Float[np.ndarray, " d"],
    span: Span,
    length: float,
    rng: np.random.Generator,
) -> tuple[tuple[np.ndarray, np.ndarray, float] | None, float]:
    """What `_read_far` finds at the delta times the least length, from the given one, and that length."""
    while True:
        found = _read_far(known, form, length * delta, span, rng)
        if found is not None or length >= _LONGEST:
            return found, length
        length *= 2


def _read_far(
    known: AllSteps,
    form: Form,
    delta: Float[np.ndarray, " d"],
    span: Span,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """The logit at the points base + y . span, as base, the slope by y, and the logit at the base.

    All other heads are saturated at the points; None where too few such points are found.
    """
    p, d = span.shape
    shape, radius = form.step.shape, float(np.linalg.norm(delta))
    if len(shape.rate) == 1:
        shape = replace(shape, reach=_WIDE)
    slope = form.theta @ delta
    offset = float(form.bias @ delta) + form.shift
    inner = span @ slope
    size = float(np.linalg.norm(inner))
    base = np.zeros(d)
    if p < d:
        base = rng.standard_normal((1, d))[0]
        base = base - span.T @ (span @ base)
        base = base * (radius / float(np.linalg.norm(base)))
    constant = float(base @ slope) + offset
    more = min(p, _MORE)
    y = radius * np.concatenate([orthonormal(rng, p, p), orthonormal(rng, more, p)])
    if more < _MORE:
        y = np.concatenate([y, radius * rng.standard_normal((_MORE - more, p)) / np.sqrt(p)])
    wanted = np.zeros(len(y))
    wanted[p:] = shape.reach * np.linspace(-0.8, 0.8, len(y) - p)
    for _ in range(_DRAWS):
        y += (((wanted - constant) - y @ inner) / size**2)[:, None] * inner
        x = base + y @ span
        low, clear = known.others(form, x, delta)
        if clear.all():
            break
        fresh = rng.standard_normal((int(np.sum(~clear)), p))
        y[~clear] = radius * fresh / np.linalg.norm(fresh, axis=1, keepdims=True)
    if clear.sum() < p + 2:
        return None
    x, y = x[clear], y[clear]
    values = known.h(x, np.tile(delta, (len(x), 1)))
    with np.errstate(invalid="ignore"):
        z = shape.inverse((values - low[clear]) / (form.amplitude @ delta))
    read = np.isfinite(z)
    if read.sum() < p + 2:
        return None
    rows = np.concatenate([y / radius, np.ones((len(y), 1))], axis=1)
    off = z - y @ inner - constant
    change = np.linalg.lstsq(rows[read], off[read], rcond=None)[0]
    return base, inner + change[:-1] / radius, constant + float(change[-1]) - form.shift
