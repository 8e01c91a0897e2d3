"""Queries of one token and of two: what their answers are worth, and the network of sigmoids that they show."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float

from attention import AnswerPrecision, Recorder, ValueOracle
from attention.value_oracle import DerivedOracle


@dataclass(frozen=True)
class Tolerances:
    """What counts as equal: what the learner's own arithmetic in float64 makes unequal, or a multiple of the accuracy.

    The defaults are for exact answers, and were measured on the layers of the benchmarks. A larger one merges what
    differs, such as two heads. A smaller one takes rounding for a difference.
    """

    #: a change of values along a circle, relative to the largest value
    change: float = 3e-12
    #: a step and its shape, relative to its height and to the logits that cancel in it
    shape: float = 1e-11
    #: values of heads in one direction, relative to their size at tokens of unit length
    values: float = 1e-14
    #: sums of projections and of slopes, relative to the largest
    sums: float = 1e-7
    #: slopes that lie in the span of others: slopes read near one point have half of the digits
    span: float = 1e-6
    #: heads fitted together: the residual of a right fit, relative to the values
    residual: float = 1e-11
    #: biases that are taken for zero, relative to the other parameters
    biases: float = 1e-9
    #: predictions of a layer on fresh queries, for a success: heads that nearly cancel lose eight digits
    prediction: float = 1e-8
    #: the shortest tokens of these, relative to ordinary ones: heads that cancel where they are saturated show there.
    #: Errors that do not shrink with the tokens hide shorter ones
    shortest: float = 2.0**-16

    @classmethod
    def of(cls, precision: AnswerPrecision) -> "Tolerances":
        """The tolerances for answers that are as exact as this."""
        # rounding grows from answers to logits, up to 33 times on 40 modules in float32. A prediction that is off by
        # more than a twentieth is no success, however coarse the answers are
        exact, amplified = cls(), min(100 * precision.accuracy, 0.05)
        return replace(
            cls(**{name: max(least, amplified) for name, least in asdict(exact).items()}),
            values=max(exact.values, 10 * precision.accuracy),
            shortest=min(max(exact.shortest, amplified / exact.prediction), 1.0),
        )


@dataclass(frozen=True)
class _Measured:
    """How the precision of answers is measured."""

    entries: int = 48  #: entries of answers on which an error is measured, for an error of a tenth
    #: tokens grow by this factor, so often: longer ones only where noise hides the rounding of shorter ones, because
    #: logits in float16 overflow
    factor: float = 16.0
    lengths: int = 4
    noise: float = 3.0  #: an error is noise where it is so many times what rounding makes it
    #: short tokens, down to this power of the factor, show heads that saturate; an answer counts from so many errors on
    short: int = 8
    shortest: float = 3.0
    seen: float = 100.0
    #: row 1 depends on a later token where it changes by so many errors of an answer, or by this share of it. Long
    #: tokens saturate heads, and the outputs of short ones may vanish in noise, so lengths differ
    dependent: float = 8.0
    rounding: float = 1e-12
    #: blocks are off from linear by .04 to .11, answers in bfloat16 by .004
    not_linear: float = 0.02
    mask_lengths: tuple[float, ...] = (1.0, 2.0**-4, 2.0**-16)


_MEASURED = _Measured()


def measure_precision(
    oracle: ValueOracle, rng: np.random.Generator, *, noise: float | None, accuracy: float | None
) -> AnswerPrecision:
    """The noise and the accuracy of the answers; what is given is not measured.

    Equal tokens get answers that are affine in them, F(x) + F(y) = F(x + y) + F(0), whatever the layer is. What is left
    has twice the standard deviation of the error of an answer, with all rounding of intermediate numbers. Error that
    grows with the tokens is rounding; error that does not is noise, or rounding to decimals. About 30 queries, or
    300 / d.
    """
    d, k, by = oracle.dim, oracle.tokens or 2, _MEASURED
    draws = -(-by.entries // d)
    query = rng.standard_normal((1, k, d))
    first = oracle.ask(query)
    repeatable = bool(np.array_equal(first, oracle.ask(query)))
    if noise is not None and accuracy is not None:
        return AnswerPrecision(noise, accuracy, repeatable)
    zero = oracle.ask(np.zeros((1, k, d)))[0, -1]
    errors: list[float] = []
    sizes: list[float] = []
    for power in range(by.lengths):
        x, y = by.factor**power * rng.standard_normal((2, draws, d))
        rows = np.concatenate([x, y, x + y])
        answers = oracle.ask(np.repeat(rows[:, None], k, axis=1))[:, -1]
        # the tokens of a layer whose heads cancel on equal ones are told apart
        other = oracle.ask(by.factor**power * rng.standard_normal((1, k, d)))[0]
        sizes.append(float(np.sqrt(max(np.mean(answers**2), np.mean(other**2)))))
        left = answers[:draws] + answers[draws : 2 * draws] - answers[2 * draws :] - zero
        errors.append(float(np.sqrt(np.mean(left**2))) / 2)
        if power and errors[-1] > by.noise * errors[-2]:
            break
    # where heads cancel, their outputs show on tokens too short to saturate them, and the rounding is that of the heads
    lengths = by.factor ** -np.linspace(0.0, by.shortest, by.short)
    moved = oracle.ask(lengths[:, None, None] * rng.standard_normal((by.short, k, d)))[:, -1] - zero
    moved = np.sqrt(np.mean(moved**2, axis=1))
    heads = float(np.max(moved / lengths, where=moved > by.seen * errors[0], initial=0.0))
    sizes = [max(size, heads * by.factor**power) for power, size in enumerate(sizes)]
    if accuracy is None:
        least = float(np.finfo(float).tiny)
        accuracy = min(error / max(size, least) for error, size in zip(errors, sizes, strict=True))
    if noise is None:
        noise = errors[0] if errors[0] > by.noise * accuracy * sizes[0] else 0.0
    return AnswerPrecision(noise, accuracy, repeatable, sizes[0])


def not_linear(precision: AnswerPrecision) -> bool:
    """Whether equal tokens are answered so far from a linear map, though answers repeat, that no layer answers."""
    linear_to = precision.error(precision.size) / precision.size if precision.size else 0.0
    return precision.coarse and precision.repeatable and linear_to > _MEASURED.not_linear


def is_causal(oracle: ValueOracle, precision: AnswerPrecision, rng: np.random.Generator) -> bool:
    """Whether row 1 depends on no later token, while the last row depends on the first token. At most 9 queries."""
    k, d = oracle.tokens or 2, oracle.dim
    last_depends = False
    for length in _MEASURED.mask_lengths:
        x = length * rng.standard_normal((3, k, d))
        x[1, 0], x[2, 1:] = x[0, 0], x[0, 1:]  # other later tokens; another first token
        answers = oracle.ask(x)
        size = float(np.sqrt(np.mean(answers**2)))
        least = max(_MEASURED.dependent * precision.error(size), _MEASURED.rounding * size)
        if np.abs(answers[1, 0] - answers[0, 0]).max() > least:
            return False
        last_depends |= bool(np.abs(answers[2, -1] - answers[0, -1]).max() > least)
    return last_depends


def precision_and_mask(
    oracle: ValueOracle,
    recorder: Recorder,
    rng: np.random.Generator,
    *,
    noise: float | None = None,
    accuracy: float | None = None,
) -> tuple[AnswerPrecision, bool]:
    """How exact the answers are, and whether they are those of a causal layer; the first step of a trace."""
    precision = measure_precision(oracle, rng.spawn(1)[0], noise=noise, accuracy=accuracy)
    causal = is_causal(oracle, precision, rng.spawn(1)[0])
    recorder.step(
        "Precision of the answers",
        noise=precision.noise,
        accuracy=precision.accuracy,
        repeatable=precision.repeatable,
        causal=causal,
    )
    return precision, causal


class LastRows(DerivedOracle):
    """The layer without its mask: row a of an answer is the last row of a query in which token a comes last.

    Equal neighbours share one query, so that two different tokens take two.
    """

    each = 2

    def _derived(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        k = x.shape[1]
        differ = np.any(x[:, 1:] != x[:, :-1], axis=(0, 2))
        first = np.concatenate([[0], np.flatnonzero(differ) + 1])  # of each run of equal tokens
        orders = [np.append(np.delete(np.arange(k), a), a) for a in first]
        rows = self._oracle.ask(np.concatenate([x[:, order] for order in orders]))[:, -1]
        rows = rows.reshape(len(first), len(x), -1).swapaxes(0, 1)
        return rows.repeat(np.diff(np.append(first, k)), axis=1)


@dataclass(frozen=True)
class LinearPart:
    """What queries of equal tokens determine: F = b + x (W_1 + ... + W_m)."""

    bias: Float[np.ndarray, " d"]  #: b
    projection_sum: Float[np.ndarray, "d d"]  #: W_1 + ... + W_m


def linear_part(oracle: ValueOracle) -> LinearPart:
    """The bias and the sum of the projections, from d + 1 queries: equal tokens get equal weights in every head."""
    tokens = np.concatenate([np.zeros((1, oracle.dim)), np.eye(oracle.dim)])
    answers = oracle.ask(np.repeat(tokens[:, None], oracle.tokens or 1, axis=1)).mean(axis=1)
    return LinearPart(answers[0], answers[1:] - answers[0])


def ask_often(oracle: ValueOracle, x: Float[np.ndarray, "n k d"], repeats: int) -> Float[np.ndarray, "n k d"]:
    """The means of so many answers to each query."""
    answers = oracle.ask(x)
    for _ in range(repeats - 1):
        answers = answers + oracle.ask(x)
    return answers / repeats


@dataclass(frozen=True)
class TwoTokens:
    """The two-layer network g(x; delta) = sum_i sigmoid(u_i . x + beta_i) v_i, from queries of the tokens x, x - delta.

    Here u_i = Theta_i delta, v_i = delta W_i, and beta_i = c_i . delta + ln(n_1 / n_2). A query has n_1 copies of x and
    n_2 of x - delta. Each query gives two values of g: row 1 at x and row 2 at x - delta.

    Two things lower noise. A difference that is L times as long, at tokens x / L, has the same logits u_i . x and L
    times the outputs v_i, so the noise counts 1 / L. The bias c_i counts L times; a shift of the tokens takes it off
    once c_i and Theta_i are roughly known. A row then shows one value, so queries double. And answers are averaged.
    With L below 1 tokens are long and differ little, and errors are counted relative to what that adds to an answer.
    """

    oracle: ValueOracle
    linear: LinearPart
    precision: AnswerPrecision
    scale: float = 1.0  #: the length of tokens at which sigmoids begin to bend
    size: float = 0.0  #: the size of the answers over L, which rounding is a share of
    step_length: float = 1.0  #: L
    repeats: int = 1  #: how often each query is asked
    #: maps s differences to the token from which x is counted
    centre: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def tolerances(self) -> Tolerances:
        """What counts as equal in answers like these."""
        return Tolerances.of(self.precision)

    @property
    def coarse(self) -> bool:
        """Whether errors of answers need care: longer differences, repetitions, and a fit to fresh ones."""
        return self.precision.coarse

    @property
    def value_noise(self) -> float:
        """The noise level: the standard deviation of the error of an entry of g."""
        error = self.precision.error(self.step_length * self.size)
        return error / (self.step_length * float(np.sqrt(self.repeats)))

    @property
    def rounded(self) -> bool:
        """Whether rounding is most of the error; that of logits, which may be large, then adds to it."""
        return self.precision.accuracy * self.step_length * self.size > self.precision.noise

    @property
    def copies(self) -> tuple[int, int]:
        """How many copies of x and of x - delta a query has."""
        k = self.oracle.tokens or 2
        return (k + 1) // 2, k // 2

    def at_scale(self, scale: float, values: float = 0.0) -> "TwoTokens":
        """The same with its scale, and the size of answers there, for values of this root mean square.

        Rounding of logits adds to that of answers: together they are up to three times as large as on equal tokens.
        """
        slope, bias = self.linear.projection_sum, self.linear.bias
        equal = (2 * scale) ** 2 * np.mean(slope**2)
        if self.step_length >= 1:
            equal += np.mean(bias**2) / self.step_length**2
        return replace(self, scale=scale, size=3.0 * float(np.sqrt(values**2 + equal)))

    def ask(self, tokens: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The means of the answers to queries of any tokens."""
        return ask_often(self.oracle, tokens, self.repeats)

    def __call__(
        self, x: Float[np.ndarray, "*batch n d"], delta: Float[np.ndarray, "*batch d"]
    ) -> tuple[Float[np.ndarray, "*batch n d"], Float[np.ndarray, "*batch n d"]]:
        """g(x; delta) and g(x - delta; delta) at n points for every delta; n queries a delta, or 2 n if L is not 1.

        With L below 1 all second values are those at x less the first delta, so that queries share their first tokens.
        """
        if self.step_length == 1 and self.centre is None:
            return self._rows(x, delta[..., None, :])
        centre = 0.0 if self.centre is None else self.centre(delta[..., None, :])[..., None, :]
        beside = (
            delta if self.step_length > 1 else np.broadcast_to(delta.reshape(-1, x.shape[-1])[0], delta.shape)
        )
        x = np.concatenate([x, x - beside[..., None, :]], axis=-2) / self.step_length + centre
        values, _ = self._rows(x, self.step_length * delta[..., None, :])
        at_x, at_other = np.split(values / self.step_length, 2, axis=-2)
        return at_x, at_other

    def _rows(self, x: np.ndarray, delta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        other = x - delta
        first, k = self.copies[0], sum(self.copies)
        tokens = np.stack([x, other], axis=-2).repeat(self.copies, axis=-2)
        answers = self.ask(tokens.reshape(-1, k, x.shape[-1])).reshape(*x.shape[:-1], k, x.shape[-1])
        rest = self.linear.bias + other @ self.linear.projection_sum
        return answers[..., :first, :].mean(axis=-2) - rest, answers[..., first:, :].mean(axis=-2) - rest


@dataclass(frozen=True)
class _Search:
    """How a scale is looked for, and what counts in it."""

    rays: int = 3  #: random rays, because one may miss a head
    scales: int = 4  #: times that rays are drawn, and points at which heads are counted
    #: distances double or halve at most so often: from 1e-12 to 1e12
    doublings: int = 40
    #: sigmoids bend between a distance and twice that if the odd part grows by less than twice this
    bent: float = 0.75
    #: the odd part is rounding of float64 below this share of the answers, and noise below so many times its error
    rounding: float = 1e-12
    noise: float = 8.0
    #: rounding, but no answer of a layer, differs where tokens are longer by this share
    move: float = 1e-9
    #: a singular value of values counts above this share of the largest, and so many times the noise; the measured
    #: gaps of nice layers are .1 against 3e-15
    gap: float = 1e-10
    counted: float = 2.0
    #: tokens have this many times the scale at most, in all steps that follow
    tokens: float = 4.5


_SEARCH = _Search()


def find_scale(pairs: TwoTokens, rng: np.random.Generator) -> float | None:
    """The length r of tokens at which sigmoids begin to bend.

    There logits are of the order of 1, and little is lost to rounding. The length comes from the odd part of g along
    random rays, at distances that double or halve, by some 40 queries. It starts at the distance nearest to 1 at which
    there is an odd part: heads that cancel show none where all are saturated. None if there is none anywhere: the
    weights then do not depend on the tokens.
    """
    d, by = pairs.oracle.dim, _SEARCH
    directions = orthonormal(rng, min(by.rays + 1, d), d)
    # what is asked of bounded tokens is asked of the longest; a logit is of the order of distance times difference
    most = None if pairs.oracle.longest is None else pairs.oracle.longest / by.tokens
    unit = 1.0 if most is None else most
    delta, rays = unit * directions[0], directions[-by.rays :]
    entries = float(np.sqrt(2 * len(rays) * d))

    def odd(distance: float) -> tuple[float, np.ndarray]:
        """The size of the odd part, or 0 where it is noise or rounding, and itself."""
        x = distance * np.concatenate([rays, -rays])
        values, _ = pairs(x, delta)
        rest = pairs.linear.bias + (x - delta) @ pairs.linear.projection_sum
        part = values[: len(rays)] - values[len(rays) :]
        size = float(np.linalg.norm(part))
        answers = float(np.linalg.norm(values) + np.linalg.norm(rest))
        # differences that noise alone makes, several times over
        noise = by.noise * entries * replace(pairs, size=answers / entries).value_noise
        return (size if size > max(noise, by.rounding * answers) else 0.0), part

    def smooth(distance: float) -> float:
        """The same, also 0 where a tiny move changes all: heads that cancel may leave rounding alone."""
        size, part = odd(distance)
        if size and not pairs.coarse:
            moved = odd((1 + by.move) * distance)[1]
            if np.linalg.norm(moved - part) > size / 2:
                return 0.0
        return size

    powers = [sign * power for power in range(by.doublings) for sign in (1, -1)][1:]
    distances = [unit * 2.0**power for power in powers if most is None or power <= 0]
    distance, here = next(((at, size) for at in distances if (size := smooth(at))), (unit, 0.0))
    if not here:
        return None
    factor = 0.5 if odd(2 * distance)[0] < 2 * by.bent * here else 2.0
    for _ in range(by.doublings):
        if most is not None and distance * factor > most:
            return most
        there, _ = odd(distance * factor)
        near, far = (there, here) if factor < 1 else (here, there)
        # beyond where heads saturate, those that cancel leave less than nearer by
        if not there or (far < 2 * by.bent * near) != (factor < 1):
            return float(np.sqrt(unit * (distance if factor > 1 else distance * factor)))
        distance, here = distance * factor, there
    return None


def find_scale_and_rank(pairs: TwoTokens, rng: np.random.Generator) -> tuple[TwoTokens, int]:
    """The same pairs at their scale, and the rank of values there; 0 where the weights do not depend on the tokens.

    Other rays and points repair those that miss where heads bend that cancel elsewhere.
    """
    for _ in range(_SEARCH.scales):
        scale = find_scale(pairs, rng)
        at_scale = pairs if scale is None else pairs.at_scale(scale)
        rank = 0 if scale is None else rank_of_values(at_scale, rng)
        if rank > 0:
            break
    return at_scale, rank


def rank_of_values(pairs: TwoTokens, rng: np.random.Generator) -> int:
    """The rank of values of g at random points: the number of heads, if their v_i are independent.

    Values of g are combinations of v_1, ..., v_m, so at most d heads can be told apart. Values are added until there
    are at least four more than the rank, or more than 2 d + 8. A singular value counts if it is above 1e-10 times the
    largest, and above the noise.
    """
    d = pairs.oracle.dim
    delta = pairs.scale * orthonormal(rng, 1, d)[0]
    values = np.empty((0, d))
    while True:
        x = 2 * pairs.scale / np.sqrt(d) * rng.standard_normal((max(6, len(values) // 2), d))
        values = np.concatenate([values, *pairs(x, delta)])
        singular = np.linalg.svd(values, compute_uv=False)
        noise = _SEARCH.counted * pairs.value_noise * (np.sqrt(len(values)) + np.sqrt(d))
        rank = int(np.sum(singular > max(_SEARCH.gap * singular[0], noise)))
        if rank <= len(values) - 4 or len(values) > 2 * d + 8:
            return rank


def orthonormal(rng: np.random.Generator, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """`n` random orthonormal directions."""
    return np.linalg.qr(rng.standard_normal((d, n)))[0].T
