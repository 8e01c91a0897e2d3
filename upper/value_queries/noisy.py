"""What answers with errors need: longer differences, logits read from single rows, and a fit to fresh answers."""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float

from attention import AnswerPrecision, Recorder, ValueOracle
from upper.newton.full_heads import FullHeads
from upper.newton.loop import gauss_newton
from upper.newton.low_rank import LowRankHeads
from upper.value_queries.logits import READING, Parameters
from upper.value_queries.queries import (
    LinearPart,
    TwoTokens,
    ask_often,
    find_scale,
    orthonormal,
)


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
    #: the fit is to so many times as many numbers as there are parameters: the noise on these falls with its root
    numbers: float = 8.0
    averaged: int = 8  #: or so many times as many, where queries are repeated
    #: but at most so many products a pass, as far as a quarter of the numbers is left
    products: float = 2e7
    iterates: int = 100  #: where tokens are counted from a centre, many are needed
    #: an iterate is the last if its residual is at most so many times that of the answers' errors (the second where
    #: logits are rounded too), and more than this share of the one before
    near: float = 1.1
    near_rounded: float = 2.0
    last: float = 0.99


_BY = _Lengths()


def linear_part_from_noise(oracle: ValueOracle, precision: AnswerPrecision, repeats: int = 1) -> LinearPart:
    """The linear part from tokens as long as rounding allows, each with its opposite: noise counts least there."""
    linear = _from_opposite(oracle, _BY.equal, repeats)
    longest = _longest_allowed(linear, precision)
    return _from_opposite(oracle, _BY.equal * longest, repeats) if longest > 1 else linear


def _from_opposite(oracle: ValueOracle, length: float, repeats: int) -> LinearPart:
    axes = length * np.eye(oracle.dim)
    tokens = np.repeat(np.concatenate([axes, -axes])[:, None], oracle.tokens or 1, axis=1)
    answers = ask_often(oracle, tokens, repeats).mean(axis=1)
    return LinearPart(answers.mean(axis=0), (answers[: oracle.dim] - answers[oracle.dim :]) / (2 * length))


def read_row_logits(
    pairs: TwoTokens, w: Float[np.ndarray, "m d d"], directions: Float[np.ndarray, "d d"]
) -> Parameters:
    """Theta and c from noisy answers: one row of each, between a short token and a group of others far from it.

    The tokens x and x - L t_b show the logits -L (x Theta_i + c_i) . t_b of row 1, with the step length L of `pairs`
    and t_b along the orthonormal directions. For each group, x is the centre, and then the centre plus a short token
    along each direction. Where a weight is small, that token gets shorter. About (d + 8) d / s queries for groups of
    s = .4 d / m.

    Notes
    -----
    O(m d^3) operations a group.
    """
    m, d = len(w), pairs.oracle.dim
    most = max(1, int(READING.coarse_share * d / m))
    size = most if pairs.oracle.tokens is None else min(most, pairs.oracle.tokens - 1)
    theta, common, centres = np.empty((m, d, d)), np.empty((m, d)), np.zeros((d, d))
    for group in np.array_split(np.arange(d), -(-d // size)):
        far = pairs.scale * directions[group]
        for _ in range(READING.halvings):
            centre = np.zeros(d) if pairs.centre is None else pairs.centre(far)
            at_centre, small = _row_logits(pairs, w, centre[None], far)
            if not small.any():
                break
            far = far / 2
        length = np.full(d, pairs.scale)
        logits, left = np.empty((d, m, len(group))), np.arange(d)
        for _ in range(READING.halvings):
            tokens = centre + length[left, None] * directions[left] / pairs.step_length
            logits[left], small = _row_logits(pairs, w, tokens, far)
            left = left[small]
            if not len(left):
                break
            length[left] /= 2
        shared, far_length = at_centre[0], float(np.linalg.norm(far[0]))
        theta[:, :, group] = np.moveaxis(shared - logits, 0, 1) / (length[:, None] * far_length)
        common[:, group] = -shared / (pairs.step_length * far_length)
        centres[group] = centre
    theta = directions.T @ theta @ directions
    # what is common to a group is (centre Theta_i + c_i) . t_b
    key_bias = common - np.einsum("bd,mde,be->mb", centres, theta, directions, optimize=True)
    return Parameters(theta, w, key_bias @ directions, pairs.linear.bias)


def _row_logits(
    pairs: TwoTokens,
    w: Float[np.ndarray, "m d d"],
    x: Float[np.ndarray, "n d"],
    far: Float[np.ndarray, "s d"],
) -> tuple[Float[np.ndarray, "n m s"], Bool[np.ndarray, " n"]]:
    """The logits of the tokens x on x - L t_b less those on x itself, and whether a weight is small."""
    apart = pairs.step_length * far
    tokens = np.concatenate([x[:, None], x[:, None] - apart], axis=1)
    copies = (pairs.oracle.tokens or tokens.shape[1]) - len(far)  # of the first token
    tokens = np.concatenate([tokens[:, :1].repeat(copies - 1, axis=1), tokens], axis=1)
    answers = pairs.ask(tokens)[:, :copies].mean(axis=1)
    rest = answers - pairs.linear.bias - x @ pairs.linear.projection_sum
    columns = (-apart @ w).reshape(-1, x.shape[1])
    weights = np.linalg.lstsq(columns.T, rest.T, rcond=None)[0].T
    weights = weights.reshape(len(x), len(w), len(far))
    first = 1 - weights.sum(axis=2, keepdims=True)
    small = np.minimum(weights.min(axis=(1, 2)), first.min(axis=(1, 2))) < READING.small
    logits = np.log(np.maximum(weights, READING.least) * copies / np.maximum(first, READING.least))
    return logits, small


def fit_to_fresh(
    parameters: Parameters, steps: "StepLength", rng: np.random.Generator, recorder: Recorder
) -> Parameters:
    """The parameters fitted to fresh answers, again with longer differences where biases limited these.

    Where biases are no larger than noise makes them, there are none.
    """
    while True:
        parameters = _fitted(steps.pairs, _without_noise(parameters, steps), rng)
        parameters = _without_noise(parameters, steps)
        recorder.step("Fitted", layer=parameters.layer(), step_length=steps.pairs.step_length)
        longer = _lengthened(steps, Centre(parameters.theta, parameters.key_bias))
        if longer is None:
            return parameters
        steps = longer


def _fitted(pairs: TwoTokens, known: Parameters, rng: np.random.Generator) -> Parameters:
    """The parameters fitted to fresh answers, from known ones; biases only where some are known.

    A query is a token x / L and others at x / L - L t, as those of two tokens are: the row of the first one alone is
    fitted, since the logits of the others are large. Where the step length L is 1, all rows count.
    """
    (m, d), length, k = known.key_bias.shape, pairs.step_length, pairs.oracle.tokens
    k = k or max(3, 1 + int(0.4 * d / m))
    n = int(_BY.numbers * 2 * m * d) + 4
    n = min(n, max(n // 4, int(_BY.products / (k * m * d * (d + 2 * k)))))
    if not pairs.precision.repeatable:
        n *= min(pairs.repeats, _BY.averaged)
    if pairs.oracle.remaining is not None:
        n = min(n, pairs.oracle.remaining // 2)
    size = 2 * pairs.scale / np.sqrt(d)
    x = size * rng.standard_normal((n, k, d)) / length
    weights = np.ones((n, k))
    if length > 1:
        far = rng.standard_normal((n, k - 1, d))
        far *= pairs.scale / np.linalg.norm(far, axis=-1, keepdims=True)
        if pairs.centre is not None:
            x[:, 0] += pairs.centre(far)
        x[:, 1:] = x[:, :1] - length * far
        weights[:, 1:] = 0.0
    y = pairs.oracle.ask(x) - known.bias
    # in units in which the first tokens are as large as the one that biases stand for
    unit = float(np.sqrt(np.mean(x[:, 0] ** 2)))
    theta = unit**2 * known.theta
    biased = np.any(known.key_bias) or np.any(known.bias)
    if biased:
        theta = np.concatenate([theta, unit * known.key_bias[:, None]], axis=1)
    near = _BY.near_rounded if pairs.rounded else _BY.near
    tolerance = pairs.precision.error(length * pairs.size) / float(np.sqrt(np.mean(y[:, 0] ** 2)))
    heads = WeightedHeads(theta)
    heads.weights = weights.ravel()
    iterates = gauss_newton(x / unit, weights[..., None] * y, heads, tolerance=tolerance, rng=rng)
    best = next(iterates)
    for iterate in islice(iterates, _BY.iterates):
        if not iterate.residual < best.residual:
            continue
        small, last = iterate.residual < near * tolerance, iterate.residual > _BY.last * best.residual
        best = iterate
        if small and last:
            break
    key_bias = known.key_bias if best.layer.key_bias is None else best.layer.key_bias / unit
    bias = known.bias if best.layer.bias is None else known.bias + best.layer.bias
    return Parameters(best.layer.theta / unit**2, best.layer.w / unit, key_bias, bias)


class _RowWeights:
    """Heads whose rows count by weights, (rows,), which the labels have already."""

    weights: Float[np.ndarray, " rows"]

    def reads(self, parameters: np.ndarray) -> np.ndarray:
        """The weighted reads."""
        return self._weighted(super().reads(parameters))  # type: ignore[misc]

    def times(self, direction: np.ndarray) -> np.ndarray:
        """The weighted change along a direction."""
        return self._weighted(super().times(direction))  # type: ignore[misc]

    def transpose_times(self, residual: np.ndarray) -> np.ndarray:
        """The derivative of <F, R> over weighted rows."""
        transposed: np.ndarray = super().transpose_times(self._weighted(residual))  # type: ignore[misc]
        return transposed

    def _weighted(self, rows: np.ndarray) -> np.ndarray:
        return rows * self.weights.astype(rows.dtype)[:, None]


class WeightedHeads(_RowWeights, FullHeads):
    """Heads with weights of rows."""


class WeightedLowRankHeads(_RowWeights, LowRankHeads):
    """Heads of low rank with weights of rows."""


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


def choose_step_length(pairs: TwoTokens, rng: np.random.Generator) -> StepLength | None:
    """The scale, and as long differences as noise asks for and biases allow; the rest is left to repetitions.

    A difference that is L times as long makes logits of L c_i . delta even at a zero token, so L is limited until c_i
    is known. None where the weights do not depend on the tokens.
    """
    oracle, precision, d = pairs.oracle, pairs.precision, pairs.oracle.dim
    longest = _longest_allowed(pairs.linear, precision)
    budget = None if oracle.remaining is None else max(1, oracle.remaining // (8 * d))
    length = _even(pairs, longest, rng)
    pairs = replace(pairs, step_length=max(1.0, min(length, longest)))
    scale = find_scale(pairs, rng)
    if scale is None:
        return None
    x = 2 * scale / np.sqrt(d) * rng.standard_normal((8, d))
    values = float(np.sqrt(np.mean(np.concatenate(pairs(x, scale * orthonormal(rng, 1, d)[0])) ** 2)))
    # values of one step length are as large as those of any other
    wanted = float(np.clip(precision.noise / (values * _BY.wanted), min(_BY.least, longest), longest))
    pairs = replace(pairs, step_length=max(1.0, min(wanted, length / scale))).at_scale(scale, values)
    steps = StepLength(pairs, values, wanted)
    repeats = int(np.clip(np.ceil((steps.noise_level / _BY.borne) ** 2), 1, _BY.repeats))
    repeats = min(repeats, budget or repeats)
    if precision.repeatable or repeats == 1:
        return steps
    # the linear part counts in every value
    linear = linear_part_from_noise(oracle, precision, repeats)
    return replace(steps, pairs=replace(pairs, linear=linear, repeats=repeats))


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


def _lengthened(steps: StepLength, centre: Centre) -> StepLength | None:
    """The next step length, with tokens counted from where the weights are even; None where it is as long as wanted.

    The centre is known as well as the parameters are, to some ten times the noise relative to g.
    """
    pairs = steps.pairs
    growth = min(_BY.growth, _BY.off / (10 * steps.noise_level))
    if pairs.step_length >= steps.wanted or growth < 2:
        return None
    step_length = min(steps.wanted, pairs.step_length * growth)
    return replace(steps, pairs=replace(pairs, step_length=step_length, repeats=1, centre=centre))
