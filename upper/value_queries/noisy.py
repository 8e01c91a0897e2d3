"""Recovery from coarse answers: step length and number of repetitions, and what tokens are counted from."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, AttentionLayer, Recorder
from upper.value_queries.answers import RecordedAnswers
from upper.value_queries.logits import Parameters, read_logits, read_noisy_logits
from upper.value_queries.polish import polish
from upper.value_queries.separation import Refusal, SeparatedHeads, read_heads, separate_heads
from upper.value_queries.two_tokens import (
    LinearPart,
    TwoTokens,
    find_scale,
    linear_part,
    orthonormal,
    rank_of_values,
)

__all__ = ["recover_from_noise"]


@dataclass(frozen=True)
class _Lengths:
    """How long differences are, and how often a query is asked."""

    #: the noise level of g that is wanted, relative to its entries, and the most that a separation bears
    wanted: float = 1e-6
    borne: float = 2e-3
    #: differences are at least so many times as long, if they may be: that outgrows all answers
    least: float = 32.0
    longest: float = 1000.0  #: and at most; logits of longer tokens lose digits
    equal: float = 16.0  #: equal tokens are so many times as long as others may be: they saturate no head
    repeats: int = 4096  #: a query is asked so often at most
    #: biases may move the weights of a zero token so far from one half, relative to what heads put out, along so many
    #: directions
    moved: float = 0.6
    directions: int = 4
    #: errors of the centre count this share of a logit at the next step length, which is so many times as long at most
    off: float = 0.1
    growth: float = 8.0
    #: logits of biases are noise where they are below so many times the noise level
    bias: float = 30.0
    #: where answers repeat, further readings along other directions, whose rounding differs
    readings: int = 2
    #: the fit to all answers gains a factor of 3 where they are rounded and 100 where they are noisy; rounded answers
    #: times heads times d^2 are fitted up to this number, which is some 10 seconds
    fitted: float = 1e7


_BY = _Lengths()


def recover_from_noise(
    record: RecordedAnswers,
    precision: AnswerPrecision,
    *,
    heads: int | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> AttentionLayer | Refusal:
    """All heads from answers with errors, or why they are not separated.

    Heads are separated and followed as without errors. They are then read once more at the differences themselves, and
    all parameters are fitted to all answers. Noise is outgrown by longer differences, as far as rounding, which grows
    with them, and biases allow. Where biases limited the step length, the last two steps are repeated with a longer
    one.

    Parameters
    ----------
    heads : int or None
        Heads; None counts them.
    """
    before = len(record.record)
    linear = linear_part(record, opposite=True, length=_BY.equal)
    longest = _longest_allowed(linear, precision)
    if longest > 1:
        linear = linear_part(record, opposite=True, length=_BY.equal * longest)
    recorder.step("Equal tokens")
    budget = None if record.remaining is None else record.remaining // (8 * record.dim)
    steps = choose_step_length(TwoTokens(record, linear, precision), longest, budget, rng)
    # the fit takes answers of one step length
    record.record[:] = record.record[before : before + 1 + (longest > 1)][-1:]
    if steps is None:
        return Parameters.alike(linear).layer
    if steps.pairs.repeats > 1:  # the linear part counts in every value
        repeats = steps.pairs.repeats
        linear = linear_part(record, opposite=True, length=_BY.equal * longest, repeats=repeats)
        steps = replace(steps, pairs=replace(steps.pairs, linear=linear))
    pairs = steps.pairs
    rank = rank_of_values(pairs, rng)
    count = rank if heads is None else heads
    recorder.step(
        "Heads counted",
        heads=count,
        rank=rank,
        scale=pairs.scale,
        step_length=pairs.step_length,
        repetitions=pairs.repeats,
    )
    separated = separate_heads(pairs, count, rank, rng, recorder)
    if isinstance(separated, Refusal):
        return separated
    known = _with_logits(pairs, separated.w, separated.directions)
    while True:
        known = _read_again(steps.pairs, separated, known, rng)
        step_length = steps.pairs.step_length
        recorder.step("Read again", layer=_without_noise(known, steps).layer, step_length=step_length)
        if precision.noise or record.drawn * count * record.dim**2 < _BY.fitted:
            known = polish(known, record.record, precision)
            recorder.step("Fitted", layer=_without_noise(known, steps).layer, step_length=step_length)
        layer = _without_noise(known, steps).layer
        longer = lengthened(steps, Centre(known.theta, known.key_bias))
        if longer is None:
            return layer
        steps = longer


def _read_again(
    pairs: TwoTokens, heads: SeparatedHeads, known: Parameters, rng: np.random.Generator
) -> Parameters:
    """W at the differences themselves, and logits; the mean of several readings where noise does not differ."""
    w, d = read_heads(pairs, heads, known), pairs.oracle.dim
    reading = _with_logits(pairs, w, heads.directions)
    if pairs.precision.noise:
        return reading
    others = [_with_logits(pairs, w, orthonormal(rng, d, d)) for _ in range(_BY.readings)]
    theta, key_bias = (
        np.mean([getattr(one, name) for one in (reading, *others)], axis=0) for name in ("theta", "key_bias")
    )
    return replace(reading, theta=theta, key_bias=key_bias)


def _longest_allowed(linear: LinearPart, precision: AnswerPrecision) -> float:
    """The longest step length: at tokens of that length, rounding is as large as noise."""
    slope = float(np.sqrt(np.mean(linear.projection_sum**2)))
    if not precision.noise:
        return 1.0
    with np.errstate(divide="ignore"):
        return float(np.clip(precision.noise / np.float64(precision.accuracy * slope), 1.0, _BY.longest))


def _without_noise(known: Parameters, steps: "StepLength") -> Parameters:
    """The same without biases that are no larger than noise makes them."""
    far = steps.pairs.scale * steps.pairs.step_length
    error = steps.pairs.precision.error(steps.pairs.step_length * steps.pairs.size)
    if np.abs(known.bias).max() > error or np.abs(known.key_bias).max() * far > _BY.bias * steps.noise_level:
        return known
    return replace(known, key_bias=np.zeros_like(known.key_bias), bias=np.zeros_like(known.bias))


def _with_logits(pairs: TwoTokens, w: np.ndarray, directions: np.ndarray) -> Parameters:
    # the sum is known best, from the longest tokens
    w = w + (pairs.linear.projection_sum - w.sum(axis=0)) / len(w)
    return (read_logits if pairs.step_length == 1 else read_noisy_logits)(pairs, w, directions)


@dataclass(frozen=True)
class StepLength:
    """Two tokens with their step length and number of repetitions, and what noise asks for."""

    pairs: TwoTokens
    values: float  #: the root mean square of the entries of g
    wanted: float  #: the step length that makes noise small enough

    @property
    def noise_level(self) -> float:
        """The error of an entry of g over the root mean square of the entries."""
        return self.pairs.value_noise / self.values


def choose_step_length(
    pairs: TwoTokens, longest: float, budget: int | None, rng: np.random.Generator
) -> StepLength | None:
    """The scale, and as long differences as noise asks for and biases allow; the rest is left to repetitions.

    A difference that is L times as long makes logits of L c_i . delta even at a zero token, so L is limited until c_i
    is known. None where the weights do not depend on the tokens.
    """
    length = _even(pairs, longest, rng)
    pairs = replace(pairs, step_length=max(1.0, min(length, longest)))
    scale = find_scale(pairs, rng)
    if scale is None:
        return None
    d = pairs.oracle.dim
    x = 2 * scale / np.sqrt(d) * rng.standard_normal((8, d))
    values = float(np.sqrt(np.mean(np.concatenate(pairs(x, scale * orthonormal(rng, 1, d)[0])) ** 2)))
    # values of one step length are as large as those of any other
    wanted = float(np.clip(pairs.precision.noise / (values * _BY.wanted), min(_BY.least, longest), longest))
    pairs = replace(pairs, step_length=max(1.0, min(wanted, length / scale))).at_scale(scale, values)
    steps = StepLength(pairs, values, wanted)
    if pairs.precision.repeatable:
        return steps
    repeats = int(np.clip(np.ceil((steps.noise_level / _BY.borne) ** 2), 1, _BY.repeats))
    if budget is not None:
        repeats = max(1, min(repeats, budget))
    return replace(steps, pairs=replace(pairs, repeats=repeats))


def _even(pairs: TwoTokens, longest: float, rng: np.random.Generator) -> float:
    """The longest difference at which a zero token's weights are near one half in every head."""
    d = pairs.oracle.dim
    directions = orthonormal(rng, min(_BY.directions, d), d)
    half = directions @ pairs.linear.projection_sum / 2
    if pairs.oracle.tokens is not None:  # unequal numbers of the two tokens
        half = half * 2 * pairs.copies[0] / sum(pairs.copies)
    length = longest * float(np.sqrt(d)) if longest > 1 else 1.0
    while length > 1:
        longer = replace(pairs, step_length=length)
        values = np.stack([longer(np.zeros((1, d)), delta)[0][0] for delta in directions])
        noise = 3 * pairs.precision.noise / length * np.sqrt(values.size)
        if np.linalg.norm(values - half) < _BY.moved * np.linalg.norm(half) + noise:
            break
        length /= 2
    return length


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


def lengthened(steps: StepLength, centre: Centre) -> StepLength | None:
    """The next step length, with tokens counted from where the weights are even; None where it is as long as wanted.

    The centre is known as well as the parameters are, to some ten times the noise relative to g.
    """
    pairs = steps.pairs
    growth = min(_BY.growth, _BY.off / (10 * steps.noise_level))
    if pairs.step_length >= steps.wanted or growth < 2:
        return None
    step_length = min(steps.wanted, pairs.step_length * growth)
    return replace(steps, pairs=replace(pairs, step_length=step_length, repeats=1, centre=centre))
