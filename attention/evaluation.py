"""Held-out examples, and the outcome of a fit that they confirm."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from attention.outcome import Outcome

EXACT_ERROR = 1e-10
"""A smaller error on held-out examples is rounding: only the target itself predicts them so well."""
CONFIDENCE = 0.95
"""The confidence of `error_rate_bound`."""
HELD_OUT_SHARE = 20
"""One example in this many is held out, and more of those that a fit can spare."""
ENOUGH = 2
"""A success needs this many held-out inputs whose labels no fitted input determines."""

# Extra heads make a fit ill-conditioned, which has cost up to three digits on held-out examples.
_NEARLY_EXACT = 1e-6
# Where inputs repeat or have equal tokens, at most one in this many of the others is held out: the fit needs them.
_ORBIT_SHARE = 8
# Of the examples beyond twice what is needed to fit, one in _SPARE_SHARE is held out, but no more than bound the error
# rate by 5 %. Newton's successes at four counting floors stay as they are (measured).
_SPARE_SHARE, _USEFUL = 4, 59
# A fitted error below this share of the held-out error means that the examples were memorised.
_MEMORISED = 0.1
# Predicting zero has the relative error 1. An error from _NOTHING to 1 counts as no better if its square is less than
# _SIGNIFICANT standard errors below 1.
_NOTHING, _SIGNIFICANT = 0.9, 2.0
# Two sums of coordinates are equal if they differ by less than this, relative to the largest.
_SAME = 1e-9

Predictor = Callable[[Any], Any]


# Outcomes of learners that converged; if the error is about 1, NOTHING_LEARNED replaces them.
_CONVERGED = (Outcome.LOCAL_MINIMUM, Outcome.RESIDUAL_FLOOR, Outcome.BEST_OF_CLASS)


def orbits(x: Float[np.ndarray, "n k d"]) -> Int[np.ndarray, " n"]:
    """A number for each input X, the same for all inputs whose outputs follow from F(X) by symmetry, for any layer F.

    X, P X with a permutation P, and -X have the same number, since F(P X) = P F(X) and F(-X) = -F(X); with biases, only
    the first of these holds, and -X is then evidence that is not used. Other inputs
    have different numbers. The tokens of X and of -X are sorted along a fixed direction, the larger of the two sorted
    lists is kept, and the number is its hash. O(n k d).
    """
    along = np.random.default_rng(0).standard_normal(x.shape[2])
    with np.errstate(over="ignore", invalid="ignore"):
        sums = x @ along
        order = np.argsort(sums, axis=1)
        sums = np.take_along_axis(sums, order, axis=1)
        # compare the sorted list with that of -X
        larger = sums + sums[:, ::-1]
        larger[np.abs(larger) <= _SAME * np.abs(sums).max(axis=1, keepdims=True, initial=0.0)] = 0.0
    first = np.take_along_axis(larger, np.argmax(larger != 0, axis=1)[:, None], axis=1)
    tokens = np.take_along_axis(x, order[:, :, None], axis=1)
    tokens = np.where(first[:, :, None] < 0, -tokens[:, ::-1], tokens) + 0.0  # makes -0.0 into 0.0
    digests = (blake2b(one.tobytes(), digest_size=8).digest() for one in tokens)
    return np.array([int.from_bytes(digest, signed=True) for digest in digests], dtype=np.int64)


def one_of_each_orbit(x: Float[np.ndarray, "n k d"]) -> Int[np.ndarray, " q"]:
    """The place of the first input with each number of `orbits`, in order."""
    return np.sort(np.unique(orbits(x), return_index=True)[1])


def which_held_out(
    x: Float[np.ndarray, "n k d"],
    *,
    least: int | None = None,
    before: tuple[np.ndarray, np.ndarray] | None = None,
) -> Bool[np.ndarray, " n"]:
    """Which examples are held out: a twentieth, at least two, and all others with the same inputs up to symmetry.

    If there are more than twice the `least`, up to 59 are held out, but no more than a quarter of the surplus.
    On a very small domain this would leave too few examples to fit. Then copies of held-out inputs are fitted, and
    `HeldOut.evidence` does not count them.

    Parameters
    ----------
    x : array (n, k, d)
        Inputs, in the order in which they were drawn. The first ones are held out.
    least : int, optional
        How many fitted examples are needed, including the fitted ones in `before`; one, if it is not known.
    before : tuple of array, optional
        Inputs that are fitted already, and inputs that are held out already.
    """
    names = orbits(x)
    fitted, held = (set(), set()) if before is None else (set(orbits(part).tolist()) for part in before)
    left_over = len(x) + (0 if before is None else len(before[0])) - (least or 1)
    spare = min(_USEFUL - len(held), (left_over - least) // _SPARE_SHARE) if least else 0
    share = max(0, min(max(ENOUGH, len(x) // HELD_OUT_SHARE, spare), left_over))
    trivial = _trivial(x)
    telling = names if trivial.all() else names[~trivial]
    distinct = len(set(telling.tolist()) | fitted | held)
    few = distinct < len(x) + len(fitted) + len(held)
    wanted = min(share, max(1, distinct // _ORBIT_SHARE)) if few else share
    for name in telling:
        if wanted <= 0:
            break
        if name not in fitted and name not in held:
            held.add(int(name))
            wanted -= 1
    mask = np.isin(names, list(held))
    return mask if mask.sum() <= left_over else np.arange(len(x)) < share


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Examples that are not fitted, and how much evidence they give."""

    x: Float[np.ndarray, "n k d"]  #: held-out inputs
    y: Float[np.ndarray, "n k d"]  #: their labels
    fitted: Float[np.ndarray, "m k d"]  #: the inputs that are fitted

    @cached_property
    def evidence(self) -> int:
        """How many held-out inputs, up to symmetry, have labels that do not follow from those of fitted inputs.

        On inputs with equal tokens, every layer is linear: F(X) = X (W_1 + ... + W_m). Such inputs count only if k = 1
        and the fitted inputs span all tokens.
        """
        k, d = self.x.shape[1:]
        trivial = _trivial(self.x)
        if k == 1 and len(self.fitted) and np.linalg.matrix_rank(self.fitted[:, 0]) == d:
            trivial[:] = False
        new = set(orbits(self.x[~trivial]).tolist())
        return len(new - set(orbits(self.fitted).tolist())) if new else 0

    def error(self, predict: Predictor) -> float:
        """The relative error on these examples; absolute if all labels are zero, infinite if a prediction is."""
        return _error(self._predicted(predict), self.y)

    def verdict(
        self,
        predict: Predictor,
        *,
        fitted: float,
        otherwise: Outcome,
        **standard: Any,
    ) -> "Verdict":
        """The verdict on a fit by these examples; `standard` goes to the function `verdict`."""
        predicted = self._predicted(predict)
        error = _error(predicted, self.y)
        if otherwise in _CONVERGED and _no_better_than_zero(predicted, self.y, error):
            otherwise = Outcome.NOTHING_LEARNED
        return verdict(
            fitted=fitted,
            held_out=error,
            evidence=self.evidence,
            otherwise=otherwise,
            **standard,
        )

    def _predicted(self, predict: Predictor) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(predict(self.x), dtype=np.float64)


def hold_out(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"], *, least: int | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], HeldOut]:
    """Divide the examples into those to fit and those to hold out; see `which_held_out`."""
    held = which_held_out(x, least=least)
    return (x[~held], y[~held]), HeldOut(x[held], y[held], x[~held])


def error_rate_bound(evidence: int) -> float:
    """The upper confidence bound on the error rate from `evidence` held-out inputs: 1 - .05^(1/n) at confidence .95.

    An error is an input on which a fit is worse than on all of the held-out ones. If its probability is above q, all n
    held-out inputs are no error with probability below (1 - q)^n (Wilks 1941; proved for independent inputs).
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / evidence)) if evidence else 1.0


def percent(bound: float) -> str:
    """An upper bound on a share in per cent, rounded up to two digits.

    Examples
    --------
    >>> [percent(error_rate_bound(n)) for n in (2, 17, 59, 5000)]
    ['78%', '17%', '5%', '0.06%']
    """
    size = math.floor(math.log10(100 * bound)) - 1
    return f"{math.ceil(100 * bound / 10.0**size) * 10.0**size:.3g}%"


@dataclass(frozen=True)
class Verdict:
    """How a fit ended, as the held-out examples tell."""

    outcome: Outcome
    held_out_error: float = math.nan  #: the relative error on the held-out examples; NaN without any
    #: of a success: with confidence .95, the fit is wrong on at most this share of inputs, as in `Fit`
    error_rate_bound: float | None = None


def verdict(
    *,
    fitted: float,
    held_out: float,
    evidence: int,
    otherwise: Outcome,
    tolerance: float = 0.0,
    rounding: float = EXACT_ERROR,
    converged: bool = True,
) -> Verdict:
    """The verdict on a fit, from its errors on fitted and on held-out examples.

    A success is EXACT, REACHED_TOLERANCE or PRECISION_FLOOR. It needs small errors on both kinds of
    examples, and enough evidence; without the evidence, the outcome is UNCONFIRMED. If the fitted examples are exact
    and the held-out ones nearly exact, an ill-conditioned fit has lost the last digits: PRECISION_FLOOR.

    Parameters
    ----------
    fitted, held_out : float
        Relative errors on the fitted and on the held-out examples.
    evidence : int
        The number of held-out inputs that are evidence, as `HeldOut.evidence` counts them.
    otherwise : Outcome
        The outcome if the fit is neither a success nor overfitted.
    tolerance : float
        The requested relative error.
    rounding : float
        Below this relative error, fitted examples are reproduced to the precision of the arithmetic.
    converged : bool
        Whether more work no longer lowers the held-out error. If it does, the fit is not overfitted; it ends with
        `otherwise`, such as WORK_SPENT. A fit that reproduces the fitted examples to `rounding` has converged.
    """
    success = None
    if held_out < EXACT_ERROR and fitted < _NEARLY_EXACT:
        success = Outcome.EXACT
    elif max(fitted, held_out) <= tolerance:
        success = Outcome.REACHED_TOLERANCE
    elif fitted < rounding and held_out < max(rounding, _NEARLY_EXACT):
        success = Outcome.PRECISION_FLOOR
    if success is not None:
        if evidence < ENOUGH:
            return Verdict(Outcome.UNCONFIRMED, held_out)
        return Verdict(success, held_out, error_rate_bound(evidence))
    overfitted = fitted < _MEMORISED * held_out and (converged or fitted < rounding)
    return Verdict(Outcome.OVERFITTED if overfitted else otherwise, held_out)


def norm_ratio(missed: np.ndarray, whole: np.ndarray) -> float:
    """|missed| / |whole|; each is divided by its own largest entry, so that no square over- or underflows."""
    missed_unit, unit = (float(np.max(np.abs(part))) for part in (missed, whole))
    if missed_unit == 0 or not np.isfinite(missed_unit):
        return missed_unit
    error = float(np.sum((missed / missed_unit) ** 2))
    energy = float(np.sum((whole / unit) ** 2))
    return missed_unit / unit * float(np.sqrt(error / energy))


def _error(predicted: np.ndarray, y: np.ndarray) -> float:
    if not np.isfinite(predicted).all():
        return math.inf
    return norm_ratio(predicted - y, y) if np.any(y) else float(np.linalg.norm(predicted))


def _no_better_than_zero(predicted: np.ndarray, y: np.ndarray, error: float) -> bool:
    """Whether the squared relative error is 1, that of predicting zero, up to two standard errors over rows."""
    if not _NOTHING <= error < 1 or not np.any(y):
        return error >= 1 and bool(np.any(y))
    unit = float(np.abs(y).max())
    missed, energy = (np.sum((part / unit) ** 2, axis=2).ravel() for part in (predicted - y, y))
    off = missed - error**2 * energy
    spread = float(off.std(ddof=1)) / math.sqrt(len(off)) / float(energy.mean()) if len(off) > 1 else 0.0
    return error**2 >= 1 - _SIGNIFICANT * spread


def _trivial(x: np.ndarray) -> np.ndarray:
    """Which inputs have only equal tokens."""
    return (x == x[:, :1]).all(axis=(1, 2))
