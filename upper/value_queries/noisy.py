"""Recovery from answers with errors: step length, number of repetitions, and what tokens are counted from."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, Recorder
from upper.value_queries.logits import read_logits, read_noisy_logits
from upper.value_queries.polish import KeptAnswers, Parameters, polish
from upper.value_queries.separation import read_heads, separate_heads
from upper.value_queries.two_tokens import (
    LinearPart,
    TwoTokens,
    find_scale,
    linear_part,
    orthonormal,
    rank_of_values,
)

# The noise that is wanted on g, relative to its entries, and the most that the separation bears.
_QUIET, _BORNE = 1e-6, 2e-3
# Differences are at least so many times as long, if they may be: the prediction is then better than an answer.
_LEAST_STRETCH = 32.0
# The longest difference, relative to one without noise. Equal tokens are so many times as long as others may be.
_LONGEST, _LONGER = 1000.0, 16.0
# Polish gains a factor of 3 where answers are rounded, 100 where they are noisy; queries times heads times d^2 are then
# fewer than this, which is some 10 seconds.
_POLISHED = 1e7
# Readings of the logits of rounded answers after the first.
_READINGS = 2
# Rounding of logits adds to that of values: the error of an answer is so many times that on equal tokens at most.
_LOGITS = 3.0
# A query is asked so often at most.
_REPEATS = 4096
# Biases may move the weights of a zero token so far from one half, relative to what heads put out.
_MOVED, _DIRECTIONS = 0.6, 4
# Errors of the centre count this share of a logit after the next stretch, which is so many times as long at most.
_OFF, _GROWTH = 0.1, 8.0
# Logits of biases are noise where they are below so many times the noise on g.
_LOUD = 30.0


def recover_from_noise(
    kept: KeptAnswers,
    precision: AnswerPrecision,
    *,
    m: int | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> AttentionLayer | None:
    """All heads from answers with errors, or None where they are not separated.

    Heads are separated and followed as without errors. They are then read once more at the differences themselves, and
    all parameters are fitted to all answers. Noise is outgrown by longer differences, as far as rounding, which grows
    with them, and biases allow. Where biases limited the stretch, the last two steps are repeated further out.

    Parameters
    ----------
    m : int or None
        Heads; None counts them.
    """
    before = len(kept.kept)
    linear = linear_part(kept, opposite=True, length=_LONGER)
    most = _longest_allowed(linear, precision)
    if most > 1:
        linear = linear_part(kept, opposite=True, length=_LONGER * most)
    recorder.step("Equal tokens")
    remaining = kept.remaining
    budget = None if remaining is None else remaining // (8 * kept.d)
    loud = choose_stretch(TwoTokens(kept, linear, precision), most, budget, rng)
    # polish takes answers of one stretch
    kept.kept[:] = kept.kept[before : before + 1 + (most > 1)][-1:]
    if loud is not None and loud.pairs.repeats > 1:  # the linear part counts in every value
        linear = linear_part(kept, opposite=True, length=_LONGER * most, repeats=loud.pairs.repeats)
        loud = replace(loud, pairs=replace(loud.pairs, linear=linear))
    if loud is None:
        return linear.layer
    pairs, scale = loud.pairs, loud.scale
    rank = rank_of_values(pairs, scale, rng)
    heads = rank if m is None else m
    recorder.step(
        "Heads counted",
        heads=heads,
        rank=rank,
        scale=scale,
        stretch=pairs.stretch,
        answers=pairs.repeats,
    )
    separated = separate_heads(pairs, heads, rank, scale, rng, recorder)
    if separated is None:
        return None
    w, directions, plane = separated
    found = _with_logits(loud, w, directions)
    while True:
        w = read_heads(loud.pairs, plane, directions, scale, found)
        found = _with_logits(loud, w, directions)
        if not precision.noise:  # rounding repeats, but differs along other directions
            others = (orthonormal(rng, kept.d, kept.d) for _ in range(_READINGS))
            found = _mean([found, *(_with_logits(loud, w, other) for other in others)])
        recorder.step("Read again", layer=_without_noise(found, loud).layer, stretch=loud.pairs.stretch)
        if precision.noise or kept.drawn * heads * kept.d**2 < _POLISHED:
            found = polish(found, kept.kept, precision)
            recorder.step("Polished", layer=_without_noise(found, loud).layer, stretch=loud.pairs.stretch)
        layer = _without_noise(found, loud).layer
        further = stretched_further(loud, Centre(found.theta, found.key_bias))
        if further is None:
            return layer
        loud = further


def _mean(readings: list[Parameters]) -> Parameters:
    return readings[0].like(np.mean([reading.flat() for reading in readings], axis=0))


def _longest_allowed(linear: LinearPart, precision: AnswerPrecision) -> float:
    """The longest stretch: at tokens of that length, rounding is as large as noise."""
    slope = float(np.sqrt(np.mean(linear.projection_sum**2)))
    if not precision.noise:
        return 1.0
    with np.errstate(divide="ignore"):
        return float(np.clip(precision.noise / np.float64(precision.accuracy * slope), 1.0, _LONGEST))


def _without_noise(found: Parameters, loud: "Loudness") -> Parameters:
    """The same without biases that are no larger than noise makes them."""
    far = loud.scale * loud.pairs.stretch
    if (
        np.abs(found.bias).max() > loud.pairs.noise
        or np.abs(found.key_bias).max() * far > _LOUD * loud.relative
    ):
        return found
    return replace(found, key_bias=np.zeros_like(found.key_bias), bias=np.zeros_like(found.bias))


def _with_logits(loud: "Loudness", w: np.ndarray, directions: np.ndarray) -> Parameters:
    # the sum is known best, from the longest tokens
    w = w + (loud.pairs.linear.projection_sum - w.sum(axis=0)) / len(w)
    read = read_logits if loud.pairs.stretch == 1 else read_noisy_logits
    logits = read(loud.pairs, w, directions, loud.scale)
    return Parameters(logits.theta, w, logits.key_bias, loud.pairs.linear.bias)


@dataclass(frozen=True)
class Loudness:
    """Two tokens with their scale, and how the error of their values compares with them."""

    pairs: TwoTokens
    scale: float
    values: float  #: the root mean square of the entries of g
    wanted: float  #: the stretch that makes noise small enough

    @property
    def relative(self) -> float:
        """The error of an entry of g over the root mean square of the entries."""
        return self.pairs.value_noise / self.values


def choose_stretch(
    pairs: TwoTokens, most: float, budget: int | None, rng: np.random.Generator
) -> Loudness | None:
    """The scale, and as long a stretch as noise asks for and biases allow; the rest is left to averages.

    A difference that is L times as long makes logits of L c_i . delta even at a zero token, so L is limited until c_i
    is known. None where the weights do not depend on the tokens.
    """
    length = _longest(pairs, most, rng)
    pairs = replace(pairs, stretch=max(1.0, min(length, most)))
    scale = find_scale(pairs, rng)
    if scale is None:
        return None
    values = _size(pairs, scale, rng)
    # values of a stretch are as large as those of any other
    wanted = float(np.clip(pairs.precision.noise / (values * _QUIET), min(_LEAST_STRETCH, most), most))
    stretch = max(1.0, min(wanted, length / scale))
    slope, bias = pairs.linear.projection_sum, pairs.linear.bias
    size = np.sqrt(values**2 + (2 * scale) ** 2 * np.mean(slope**2) + np.mean(bias**2) / stretch**2)
    loud = Loudness(replace(pairs, stretch=stretch, size=_LOGITS * float(size)), scale, values, wanted)
    if pairs.precision.repeatable:
        return loud
    repeats = int(np.clip(np.ceil((loud.relative / _BORNE) ** 2), 1, _REPEATS))
    if budget is not None:
        repeats = max(1, min(repeats, budget))
    return replace(loud, pairs=replace(loud.pairs, repeats=repeats))


def _longest(pairs: TwoTokens, most: float, rng: np.random.Generator) -> float:
    """The longest difference at which a zero token's weights are near one half in every head."""
    d = pairs.oracle.d
    directions = orthonormal(rng, min(_DIRECTIONS, d), d)
    length = most * float(np.sqrt(d)) if most > 1 else 1.0
    while length > 1:
        stretched = replace(pairs, stretch=length)
        values = np.stack([stretched(np.zeros((1, d)), delta)[0][0] for delta in directions])
        half = directions @ pairs.linear.projection_sum / 2
        if pairs.oracle.k is not None:  # unequal numbers of the two tokens
            half = half * 2 * ((pairs.oracle.k + 1) // 2) / pairs.oracle.k
        if np.linalg.norm(values - half) < _MOVED * np.linalg.norm(
            half
        ) + 3 * pairs.precision.noise / length * np.sqrt(values.size):
            break
        length /= 2
    return length


def _size(pairs: TwoTokens, scale: float, rng: np.random.Generator) -> float:
    """The root mean square of the entries of g at the scale."""
    d = pairs.oracle.d
    x = 2 * scale / np.sqrt(d) * rng.standard_normal((8, d))
    values = np.concatenate(pairs(x, scale * orthonormal(rng, 1, d)[0]))
    return float(np.sqrt(np.mean(values**2)))


@dataclass(frozen=True)
class Centre:
    """The shortest token whose logits on all others far from it are zero, in every head: where the weights are even."""

    theta: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]

    def __call__(self, far: Float[np.ndarray, "*batch s d"]) -> Float[np.ndarray, "*batch d"]:
        """The x with (x Theta_i + c_i) . t = 0 for every head and every t of `far`, in the sense of least squares."""
        *batch, _, d = far.shape
        far = far / np.linalg.norm(far, axis=-1, keepdims=True)
        slopes = np.einsum("mde,...se->...msd", self.theta, far).reshape(*batch, -1, d)
        offsets = np.einsum("me,...se->...ms", self.key_bias, far).reshape(*batch, -1, 1)
        return -(np.linalg.pinv(slopes) @ offsets)[..., 0]


def stretched_further(loud: Loudness, centre: Centre) -> Loudness | None:
    """The next stretch, with tokens counted from where the weights are even; None where it is as long as wanted.

    The centre is known as well as the parameters are, to some ten times the noise relative to g.
    """
    pairs = loud.pairs
    if pairs.stretch >= loud.wanted:
        return None
    growth = min(_GROWTH, _OFF / (10 * loud.relative))
    stretch = min(loud.wanted, pairs.stretch * growth)
    if growth < 2:
        return None
    return replace(loud, pairs=replace(pairs, stretch=stretch, repeats=1, centre=centre))
