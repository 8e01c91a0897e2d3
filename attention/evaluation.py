"""Holding examples out, and what a fit amounts to on them: the one standard of evidence of every learner."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from attention.learning import Outcome
from attention.metrics import relative_error

__all__ = [
    "ENOUGH",
    "ENOUGH_IN_SPAN",
    "EXACT_ERROR",
    "HELD_OUT_SHARE",
    "HeldOut",
    "hold_out",
    "orbits",
    "verdict",
    "which_held_out",
]

EXACT_ERROR = 1e-10
"""An error this small on held-out examples is rounding: nothing but the target itself explains them."""
HELD_OUT_SHARE = 20
"""One example in so many is held out."""
ENOUGH = 2
"""So many held-out inputs that no fitted one determines are evidence of a layer that is exact."""
ENOUGH_IN_SPAN = 8
"""So many are needed of a linear class whose features the fitted inputs do not span: others may be outside, too."""

# The conditioning of a fit with extra heads has cost up to three digits on held-out examples.
_NEARLY_EXACT = 1e-6
# Where inputs repeat themselves, at most one orbit in so many is held out: the others determine more.
_ORBIT_SHARE = 8
# Fitted examples with less than this share of the held-out error were memorised.
_MEMORISED = 0.1
# The table's word for so large an error is "nothing", too. In standard errors, how far below that of zero it must be.
_NOTHING, _SIGNIFICANT = 0.9, 2.0
# Sums of coordinates that differ by less, relative to the largest, are equal.
_SAME = 1e-9
# Endings of learners that converged: an error of 1 says more about them.
_CONVERGED = (Outcome.LOCAL_MINIMUM, Outcome.RESIDUAL_FLOOR, Outcome.BEST_OF_CLASS)

Predictor = Callable[[Any], Any]


def orbits(x: Float[np.ndarray, "n k d"]) -> Int[np.ndarray, " n"]:
    """One number for all inputs that every layer maps alike: the tokens in any order, all with the other sign, copies.

    Parameters
    ----------
    x : array (n, k, d)
        Token matrices.

    Returns
    -------
    array (n,)
        Equal for X, P X and -X with a permutation P, and else different.

    Notes
    -----
    A layer has F(P X) = P F(X) and F(-X) = -F(X). The tokens are sorted along a fixed direction, and the sign is that
    of the larger of the two sorted lists. The number is the hash of what results. O(n k d).

    References
    ----------
    Derived here.
    """
    along = np.random.default_rng(0).standard_normal(x.shape[2])
    with np.errstate(over="ignore", invalid="ignore"):
        sums = x @ along
        order = np.argsort(sums, axis=1)
        sums = np.take_along_axis(sums, order, axis=1)
        # the sorted list against that of -X
        larger = sums + sums[:, ::-1]
        larger[np.abs(larger) <= _SAME * np.abs(sums).max(axis=1, keepdims=True, initial=0.0)] = 0.0
    first = np.take_along_axis(larger, np.argmax(larger != 0, axis=1)[:, None], axis=1)
    tokens = np.take_along_axis(x, order[:, :, None], axis=1)
    tokens = np.where(first[:, :, None] < 0, -tokens[:, ::-1], tokens) + 0.0  # no zero has a sign
    return np.array([_digest(one.tobytes()) for one in tokens], dtype=np.int64)


def which_held_out(
    x: Float[np.ndarray, "n k d"],
    *,
    least: int = 1,
    before: tuple[np.ndarray, np.ndarray] | None = None,
) -> Bool[np.ndarray, " n"]:
    """Which examples are held out: a twentieth, at least two, and all that follow from them by a symmetry.

    Parameters
    ----------
    x : array (n, k, d)
        Inputs, in the order in which they were drawn: the first are held out.
    least : int
        How many are needed to fit, with those of before.
    before : tuple of array, optional
        Inputs that are fitted and inputs that are held out already.

    Notes
    -----
    Where the domain is so small that too few would be left to fit, copies of held-out inputs are fitted after all;
    `HeldOut.evidence` does not count them.
    """
    names = orbits(x)
    fitted, held = (set(), set()) if before is None else (set(orbits(part).tolist()) for part in before)
    left_over = len(x) + (0 if before is None else len(before[0])) - least
    share = max(0, min(max(ENOUGH, len(x) // HELD_OUT_SHARE), left_over))
    distinct = len(set(names.tolist()) | fitted | held)
    repeated = distinct < len(x) + len(fitted) + len(held)
    wanted = min(share, max(1, distinct // _ORBIT_SHARE)) if repeated else share
    trivial = _trivial(x)
    for name in names[~trivial] if not trivial.all() else names:
        if wanted <= 0:
            break
        if name not in fitted and name not in held:
            held.add(int(name))
            wanted -= 1
    mask = np.isin(names, list(held))
    return mask if mask.sum() <= left_over else np.arange(len(x)) < share


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Examples that are not fitted, and how much they say.

    Attributes
    ----------
    x, y : array (n, k, d)
        Held-out inputs and their labels.
    fitted : array (m, k, d)
        The inputs that are fitted.
    """

    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    fitted: Float[np.ndarray, "m k d"]

    @cached_property
    def evidence(self) -> int:
        """How many inputs, up to symmetry, are held out whose labels do not follow from those of fitted ones.

        Where all tokens are equal, as where there is one, every layer is linear, F(X) = X (W_1 + ... + W_m). Such
        inputs count with one token only, and if the fitted ones span all tokens.
        """
        k, d = self.x.shape[1:]
        trivial = _trivial(self.x)
        if k == 1 and len(self.fitted) and np.linalg.matrix_rank(self.fitted[:, 0]) == d:
            trivial[:] = False
        new = set(orbits(self.x[~trivial]).tolist())
        return len(new - set(orbits(self.fitted).tolist())) if new else 0

    def error(self, predict: Predictor) -> float:
        """The relative error there; the absolute one on labels that are all zero, and infinity if it is not finite."""
        return _error(self._predicted(predict), self.y)

    def verdict(
        self,
        predict: Predictor,
        *,
        fitted: float,
        otherwise: Outcome,
        evidence: Callable[[], int] | None = None,
        **standard: Any,
    ) -> tuple[Outcome, float]:
        """What a fit amounts to on these examples, and its relative error; see `verdict`, which takes the standard."""
        predicted = self._predicted(predict)
        error = _error(predicted, self.y)
        if otherwise in _CONVERGED and _no_better_than_zero(predicted, self.y, error):
            otherwise = Outcome.NOTHING_LEARNED
        outcome = verdict(
            fitted=fitted,
            held_out=error,
            evidence=(lambda: self.evidence) if evidence is None else evidence,
            otherwise=otherwise,
            **standard,
        )
        return outcome, error

    def _predicted(self, predict: Predictor) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(predict(self.x), dtype=np.float64)


def hold_out(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"], *, least: int = 1
) -> tuple[tuple[np.ndarray, np.ndarray], HeldOut]:
    """The examples to fit, and those to hold out; see `which_held_out`."""
    held = which_held_out(x, least=least)
    return (x[~held], y[~held]), HeldOut(x[held], y[held], x[~held])


def verdict(
    *,
    fitted: float,
    held_out: float,
    evidence: Callable[[], int],
    otherwise: Outcome,
    tolerance: float = 0.0,
    rounding: float = EXACT_ERROR,
    enough: int = ENOUGH,
) -> Outcome:
    """What a fit amounts to.

    Parameters
    ----------
    fitted, held_out : float
        Relative errors on examples that were learned from and on others.
    evidence : callable
        Says how much the others say, as `HeldOut.evidence` counts it; asked where the errors are small.
    enough : int
        How much of it a success needs.
    otherwise : Outcome
        How the learner ended, if that is no success.
    tolerance : float
        The relative error that was asked for.
    rounding : float
        The relative error at which fitted examples are reproduced, as far as the arithmetic goes.

    Notes
    -----
    A success is EXACT, REACHED_TOLERANCE or PRECISION_FLOOR. It needs small errors on both, and evidence: without it
    the outcome is UNCONFIRMED. Where the fitted examples are exact and the others nearly so, the conditioning of the
    fit has taken the last digits.
    """
    success = None
    if held_out < EXACT_ERROR and fitted < _NEARLY_EXACT:
        success = Outcome.EXACT
    elif max(fitted, held_out) <= tolerance:
        success = Outcome.REACHED_TOLERANCE
    elif fitted < rounding and held_out < _NEARLY_EXACT:
        success = Outcome.PRECISION_FLOOR
    if success is not None:
        return success if evidence() >= enough else Outcome.UNCONFIRMED
    return Outcome.OVERFITTED if fitted < _MEMORISED * held_out else otherwise


def _error(predicted: np.ndarray, y: np.ndarray) -> float:
    if not np.isfinite(predicted).all():
        return math.inf
    return relative_error(predicted, y) if np.any(y) else float(np.linalg.norm(predicted))


def _no_better_than_zero(predicted: np.ndarray, y: np.ndarray, error: float) -> bool:
    """Whether the squared error is 1 of that of zero, up to two standard errors over rows."""
    if not _NOTHING <= error < 1 or not np.any(y):
        return error >= 1 and bool(np.any(y))
    unit = float(np.abs(y).max())
    missed, energy = (np.sum((part / unit) ** 2, axis=2).ravel() for part in (predicted - y, y))
    off = missed - error**2 * energy
    spread = float(off.std(ddof=1)) / math.sqrt(len(off)) / float(energy.mean()) if len(off) > 1 else 0.0
    return error**2 >= 1 - _SIGNIFICANT * spread


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)


def _trivial(x: np.ndarray) -> np.ndarray:
    """Where all tokens are equal."""
    return (x == x[:, :1]).all(axis=(1, 2))
