"""How good a fit is: error measures, held-out examples, and the outcome that the held-out examples confirm."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from attention._arrays import namespace, to_numpy
from attention.layer import AttentionLayer
from attention.validation import checked, require_array

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


class Outcome(Enum):
    """How a fit ended; the value tells the user what happened and what to do."""

    EXACT = "Exact: the held-out {examples} are reproduced to the precision of the arithmetic."
    REACHED_TOLERANCE = "Reached: the error on fresh {examples} is below the requested tolerance."
    PRECISION_FLOOR = (
        "Floor: the error stopped falling at the floor of the arithmetic; use a wider dtype for more."
    )
    NOISE_FLOOR = (
        "Learned to the noise: fresh labels are predicted as well as their noise allows; allow more {examples}, "
        "average more answers, or allow longer tokens, for more."
    )
    UNCONFIRMED = (
        "Unconfirmed: the held-out {examples} are reproduced, but others may not be: too few of them do not follow "
        "from fitted ones, or another layer has the same outputs on all {examples}; give more {examples}, of more "
        "different inputs."
    )
    NOTHING_LEARNED = (
        "Nothing learned: held-out {examples} are predicted no better than by zero; allow more {examples}, or take it "
        "as evidence that the labels are random or the target is hard for this learner."
    )
    BEST_OF_CLASS = (
        "Best of its class: no better predictor of this kind exists on the {examples}, but the {examples} are not "
        "reproduced; a richer class is needed."
    )
    LOCAL_MINIMUM = (
        "Stuck: every start ended in a local minimum; allow more restarts or {examples}, another number of heads, a "
        "higher rank or biases, or take it as evidence that the target is hard for this learner."
    )
    OVERFITTED = (
        "Overfitted: the {examples} are reproduced but held-out ones are not; allow more {examples}, or take it as "
        "evidence that the target is hard for this learner."
    )
    RESIDUAL_FLOOR = (
        "Too small or stuck: independent starts end at the same error, on held-out {examples} too, and what is left of "
        "the labels is not noise, for it depends on the tokens; allow more heads, a higher rank, biases or a mask."
    )
    WORK_SPENT = (
        "Out of work: the budget of passes over the data was spent before convergence; allow more work."
    )
    ONE_PASS = (
        "One pass done: this learner estimates once and promises no error; one that iterates may go further."
    )
    EXAMPLES_SPENT = (
        "Out of {examples}: the budget of {examples} was spent before convergence; allow more {examples}."
    )
    EXAMPLES_RAN_OUT = (
        "Out of {examples}: the given {examples} ran out before convergence; give more of them."
    )
    DIVERGED = (
        "Diverged: the parameters left the finite numbers; lower the learning rate or rescale the target."
    )
    NO_PROJECTION_SUM = (
        "Phase 1 failed: the estimate of the sum of the projections does not stand out from its statistical error; "
        "allow more {examples}, or take it that the projections cancel."
    )
    NO_AGREEMENT = (
        "Too few rows were found on which all heads have the same attention pattern; allow more "
        "{examples}: agreement within eps has probability of order eps^((m-1)(k-1))."
    )
    CONTRADICTION = (
        "Phase 2 or 4 failed: no attention matrix satisfies what the certified rows say; the certificates are false, "
        "as they are where the projections are not in general position."
    )
    NO_LARGE_MARGIN = (
        "Phase 3 failed: too few rows were found on which every head attends to one token; the asymptotics have not "
        "set in at this number of coordinates, or the heads attend too weakly."
    )
    NOT_REFINED = (
        "Phase 4 failed: with the refined sum of the projections the rows agree no better, or no longer; allow more "
        "{examples} to phase 3."
    )
    NO_SPECTRAL_GAP = (
        "Phase 5 failed: the body has no m - 1 directions that are clearly wider than the others; allow more "
        "{examples}, or check the number of heads."
    )
    NET_TOO_COARSE = (
        "Phase 6 failed: no tuple of the net reaches the tolerance on held-out {examples}; allow more work or more "
        "{examples}, or a larger tolerance."
    )
    NOT_SEPARATED = (
        "Heads not separated: the queries do not tell the heads apart, as where their outputs lie in one "
        "direction, where there are more heads than coordinates, or where answers are too coarse."
    )
    NO_LAYER = (
        "No attention layer: equal tokens are not answered by a bias and a linear map, as every layer answers them; "
        "leave out norms and activations."
    )
    NOT_APPLICABLE = (
        "Not of this kind: the {examples} contradict what this attack assumes; use a general learner."
    )

    @property
    def succeeded(self) -> bool:
        """Whether held-out examples confirm a small error; BEST_OF_CLASS may have a large one, so it is no success."""
        return self in _SUCCESSES

    def sentence(self, counted: Literal["example", "query"] = "example") -> str:
        """The sentence for a learner that counts examples or value queries."""
        return str(self.value).format(examples={"example": "examples", "query": "queries"}[counted])

    def __str__(self) -> str:
        return self.sentence()


_SUCCESSES = frozenset(
    {Outcome.EXACT, Outcome.REACHED_TOLERANCE, Outcome.PRECISION_FLOOR, Outcome.NOISE_FLOOR}
)
# Outcomes of learners that converged; if the error is about 1, NOTHING_LEARNED replaces them.
_CONVERGED = (Outcome.LOCAL_MINIMUM, Outcome.RESIDUAL_FLOOR, Outcome.BEST_OF_CLASS)


def relative_error(predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"]) -> float:
    """sqrt(E||F^ - F||^2 / E||F||^2) over the given outputs; predicting zero gives 1.0.

    A ValueError if the shapes differ, or the target is not finite, or it is zero everywhere.
    """
    return unknown_part_error(predicted, target, None)


def unknown_part_error(
    predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"], known: Shaped[Any, "*n k d"] | None
) -> float:
    """sqrt(E||F^ - F||^2 / E||F - K||^2) with K the known part (zero if None).

    1.0 means "learned nothing beyond what is known in advance"; above 1.0 is worse. It is computed in float64 for
    every dtype. If the predictions are not finite, the error is infinite or NaN. A ValueError if the shapes differ, or
    the target is not finite, or it equals its known part everywhere.
    """
    given = {"predicted": predicted, "target": target, "known": known}
    given = {name: array for name, array in given.items() if name != "known" or array is not None}
    xp = namespace(*given.values())
    for name, array in given.items():
        if tuple(array.shape) != tuple(target.shape) or not all(array.shape):
            raise ValueError(
                f"{name} has shape {tuple(array.shape)}: one shape of all outputs is needed, not empty."
            )
        if not xp.isdtype(array.dtype, ("real floating", "integral")):
            raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")
    parts = {name: np.asarray(to_numpy(array), dtype=np.float64) for name, array in given.items()}
    for name in given.keys() - {"predicted"}:
        require_array(name, parts[name])
    missed, unknown = parts["predicted"] - parts["target"], parts["target"] - parts.get("known", 0.0)
    missed_unit, unit = (float(np.max(np.abs(part))) for part in (missed, unknown))
    if unit == 0:
        raise ValueError(
            "The target has no unknown part on these examples: an error relative to it has no meaning."
        )
    if missed_unit == 0 or not np.isfinite(missed_unit):
        return missed_unit
    # divide each by its own largest entry, so that no square over- or underflows
    error = float(np.sum((missed / missed_unit) ** 2))
    energy = float(np.sum((unknown / unit) ** 2))
    return missed_unit / unit * float(np.sqrt(error / energy))


@dataclass(frozen=True)
class ParameterErrors:
    """Relative Frobenius errors of matched heads."""

    #: |Theta^_i - Theta_i| / |Theta_i| and the same for W, in the order of the true heads
    theta: Float[np.ndarray, " m"]
    w: Float[np.ndarray, " m"]
    matching: Int[np.ndarray, " m"]  #: which fitted head was matched to each true one
    #: the same for the c_i, and for b; zero if neither layer has biases
    key_bias: Float[np.ndarray, " m"]
    bias: float


@checked
def parameter_errors(fitted: AttentionLayer, truth: AttentionLayer) -> ParameterErrors:
    """Match the heads of two layers of one shape (Hungarian algorithm) and give each head's relative errors.

    Heads are identified up to permutation only. Where a head is not identifiable at all (W_i = 0, equal
    heads), look at the error of the function instead. For a zero head, the error is absolute. O(m^2 d^2 + m^3).
    """
    from scipy.optimize import linear_sum_assignment

    if (fitted.heads, fitted.dim) != (truth.heads, truth.dim):
        raise ValueError(
            f"The layers have {fitted.heads} and {truth.heads} heads in {fitted.dim} and {truth.dim} dimensions: "
            "parameters compare only when both agree; compare the functions instead."
        )
    theta, w = (
        _pairwise_relative(to_numpy(getattr(fitted, name)), to_numpy(getattr(truth, name)))
        for name in ("theta", "w")
    )
    _, matching = linear_sum_assignment(theta + w)
    heads = np.arange(truth.heads)
    return ParameterErrors(
        theta=theta[heads, matching],
        w=w[heads, matching],
        matching=matching,
        key_bias=_pairwise_relative(_biases(fitted, "key_bias"), _biases(truth, "key_bias"))[heads, matching],
        bias=float(_pairwise_relative(_biases(fitted, "bias"), _biases(truth, "bias"))[0, 0]),
    )


def _biases(layer: AttentionLayer, name: str) -> np.ndarray:
    """The c_i or b as matrices of one row, (m, 1, d) or (1, 1, d); zero if the layer has none."""
    shape = (layer.heads if name == "key_bias" else 1, 1, layer.dim)
    array = getattr(layer, name)
    return np.zeros(shape) if array is None else to_numpy(array).reshape(shape)


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
    nearly_exact: float = _NEARLY_EXACT,
    noise: float = 0.0,
    enough: int = ENOUGH,
    converged: bool = True,
) -> Verdict:
    """The verdict on a fit, from its errors on fitted and on held-out examples.

    A success is EXACT, REACHED_TOLERANCE, PRECISION_FLOOR or NOISE_FLOOR. It needs small errors on both kinds of
    examples, and enough evidence; without the evidence, the outcome is UNCONFIRMED. If the fitted examples are exact
    and the held-out ones nearly exact, an ill-conditioned fit has lost the last digits: PRECISION_FLOOR.

    Parameters
    ----------
    fitted, held_out : float
        Relative errors on the fitted and on the held-out examples.
    evidence : int
        The number of held-out inputs that are evidence, as `HeldOut.evidence` counts them.
    enough : int
        How much evidence a success needs.
    otherwise : Outcome
        The outcome if the fit is neither a success nor overfitted.
    tolerance : float
        The requested relative error.
    rounding : float
        Below this relative error, fitted examples are reproduced to the precision of the arithmetic.
    nearly_exact : float
        Below this relative error, held-out examples are reproduced but for the last digits.
    noise : float
        The relative error that known noise on the labels makes at most; it counts where it is larger than `rounding`.
    converged : bool
        Whether more work no longer lowers the held-out error. If it does, the fit is not overfitted; it ends with
        `otherwise`, such as WORK_SPENT. A fit that reproduces the fitted examples to `rounding` has converged.
    """
    success = None
    if held_out < EXACT_ERROR and fitted < _NEARLY_EXACT:
        success = Outcome.EXACT
    elif max(fitted, held_out) <= tolerance:
        success = Outcome.REACHED_TOLERANCE
    elif rounding < noise and held_out < noise:
        success = Outcome.NOISE_FLOOR
    elif fitted < rounding and held_out < nearly_exact:
        success = Outcome.PRECISION_FLOOR
    if success is not None:
        if evidence < enough:
            return Verdict(Outcome.UNCONFIRMED, held_out)
        return Verdict(success, held_out, error_rate_bound(evidence))
    overfitted = fitted < _MEMORISED * held_out and (converged or fitted < rounding)
    return Verdict(Outcome.OVERFITTED if overfitted else otherwise, held_out)


def _error(predicted: np.ndarray, y: np.ndarray) -> float:
    if not np.isfinite(predicted).all():
        return math.inf
    return relative_error(predicted, y) if np.any(y) else float(np.linalg.norm(predicted))


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


def _pairwise_relative(fitted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The relative errors of all fitted heads (columns) on all true ones (rows)."""
    fitted, truth = (np.asarray(array, dtype=np.float64) for array in (fitted, truth))
    relative = np.empty((len(truth), len(fitted)))
    with np.errstate(over="ignore", invalid="ignore"):
        for row, head in zip(relative, truth, strict=True):
            # divide by the head's own largest entry, so that it counts even if another head is 1e200 times as large
            unit = float(np.abs(head).max()) or 1.0
            # differences, not expanded squares: those lose half the digits when heads agree
            gaps = np.linalg.norm(fitted / unit - head / unit, axis=(1, 2))
            row[:] = gaps / (np.linalg.norm(head / unit) or 1.0)
    return np.minimum(relative, np.finfo(float).max / 4)  # the matching adds two of them
