"""The learner from value queries: all heads of a layer, exactly, with no search and no descent."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from attention import (
    AnswerPrecision,
    AttentionLayer,
    Fit,
    Outcome,
    QueriesExhaustedError,
    Recorder,
    ValueOracle,
)
from attention.evaluation import EXACT_ERROR, Verdict, error_rate_bound, relative_error
from attention.learning import Access, LearnerBase, apart
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, checked
from upper.value_queries.causal import LastRows, is_causal
from upper.value_queries.logits import read_logits
from upper.value_queries.noisy import recover_from_noise
from upper.value_queries.polish import KeptAnswers, Parameters
from upper.value_queries.precision import measure_precision
from upper.value_queries.rank_one import ATTEMPTS, rank_one_heads
from upper.value_queries.separation import separate_heads
from upper.value_queries.two_tokens import TwoTokens, find_scale, linear_part, rank_of_values

__all__ = ["ByQueries"]

# Fresh queries on which the result is checked, of as many tokens where the oracle leaves it open.
_CHECKS, _CHECKED_TOKENS = 8, 4
# Heads that are hard to separate, or nearly cancel, are read with fewer digits: an error below this share of their
# outputs is the floor.
_FLOOR = 1e-8
# A prediction is off by so many times the noise at most, or so many times the rounding, which logits amplify if there
# are some, but by no more than this share. Measured on 40 modules in float32: up to 33 times.
_LOUD, _AMPLIFIED, _PLAIN, _AT_MOST = 3.0, 100.0, 5.0, 0.05
# Answers with a larger error at unit length are coarse. Where equal tokens have answers that are less linear than this
# share, though they repeat, it is no layer that answers.
_COARSE, _NOT_LINEAR = 1e-10, 0.1
# Rows of another mask than the causal one are off by a larger share.
_MASKED = 0.1
# The shortest tokens of a check, in units of the scale.
_SHORTEST = 2.0**-16
# Times that rays are drawn along which a scale is looked for, and points at which heads are counted.
_SCALES = 4


@dataclass(frozen=True)
@checked
class ByQueries(LearnerBase):
    """Recovers all heads of a layer, with its biases, from the layer's outputs on token matrices of its own choice.

    Parameters
    ----------
    m : int or "auto"
        Heads of the layer; "auto" finds how many, as the rank of values. Where outputs have one direction, it is the
        most heads that are accepted.
    examples : int, optional
        The most value queries; by default as many as it takes. Where they do not suffice, the outcome says so.
    noise : float, optional
        Standard deviation of the noise on an entry of an answer, as in `ValueOracle`; found if not given.
    accuracy : float, optional
        The relative rounding unit of the answers, such as 6e-8 where they are computed in float32; found if not given.
        The thresholds, the step length and the number of repetitions follow from the two. Answers that repeat are not
        averaged.

    Raises
    ------
    ValueError
        On `fit`, if the oracle answers no value queries, a query has one token or one coordinate, or answers are
        malformed.

    Notes
    -----
    Derived here. Where m <= d and, for generic delta, the m vectors delta W_i are independent, and so are the
    Theta_i delta, all parameters follow by arithmetic, up to the order of the heads:

    1. equal tokens give b and the sum of the W_i (`linear_part`);
    2. two tokens show a two-layer network of sigmoids, whose rank is the number of heads (`rank_of_values`);
    3. a matrix pencil separates the heads for one difference of the tokens (`first_heads`);
    4. they are followed to d differences, which gives all W_i (`follow_heads`);
    5. with those known, the weights of any tokens are linear in an answer, and their log ratios are logits: Theta_i and
       c_i (`read_logits`).

    A causal layer is found to be one, and only the last rows of its answers are used.

    Nothing is assumed of the norms or coherence of the Theta_i. Each step of the trace that separates heads has
    ``condition``: for each head, how much larger rounding gets for it. A layer whose biases are found to be
    rounding has none.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> fit = ByQueries().fit(ValueOracle(layer), rng=1)
    >>> fit.outcome.name, fit.layer.heads, fit.examples_used < 400
    ('EXACT', 2, True)
    """

    access: ClassVar[Access] = "value queries"

    m: PositiveInt | Literal["auto"] = "auto"
    examples: NonNegativeInt | None = None
    noise: NonNegativeFloat | None = None
    accuracy: NonNegativeFloat | None = None

    def minimum_examples(self, k: int | None, d: int) -> int:
        """The queries of the linear part."""
        return d + 1

    def _prepare(self, oracle: ValueOracle) -> None:
        if oracle.k == 1:
            raise ValueError(
                "Queries have one token: every layer is linear there; at least two tokens are needed."
            )
        if oracle.d == 1:
            raise ValueError("Queries have one coordinate: at least two are needed, to tell heads apart.")
        k, d = oracle.k or 2, oracle.d
        require_memory(
            f"Queries of {k} tokens along each of {d} dimensions",
            24 * k * d**2,
            advice="take fewer dimensions",
        )

    def _learn(
        self, oracle: ValueOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        random = apart(rng)
        within = oracle if budget is None else oracle.limited(budget)
        precision, linear = None, None
        try:
            precision = measure_precision(
                within, random.spawn(1)[0], noise=self.noise, accuracy=self.accuracy
            )
            causal = is_causal(within, precision, random.spawn(1)[0])
            asked = LastRows(within) if causal else within
            recorder.step(
                "Precision of the answers",
                noise=precision.noise,
                accuracy=precision.accuracy,
                repeatable=precision.repeatable,
                causal=causal,
            )
            coarse = precision.error(1.0) > _COARSE
            if (
                coarse
                and precision.repeatable
                and 0 < _NOT_LINEAR * precision.size < precision.error(precision.size)
            ):
                found, verdict = None, Verdict(Outcome.NO_LAYER)
            elif coarse:
                found, verdict = self._learn_noisy(KeptAnswers(asked), precision, random, recorder)
            else:
                linear = linear_part(asked)
                recorder.step("Equal tokens", predict=linear.layer)
                found, verdict = self._found(TwoTokens(asked, linear), random, recorder)
            if causal and found is not None:
                found = replace(found, causal=True)
                if verdict.outcome.succeeded and not _masked_rightly(within, found, random):
                    verdict = Verdict(Outcome.NOT_SEPARATED)
        except QueriesExhaustedError:
            found, verdict = None, Verdict(Outcome.EXAMPLES_SPENT)
        predict = np.zeros_like if linear is None else linear.layer
        return recorder.fit(
            verdict, layer=found, predict=predict if found is None else None, precision=precision
        )

    def _found(
        self, pairs: TwoTokens, random: np.random.Generator, recorder: Recorder
    ) -> tuple[AttentionLayer | None, Verdict]:
        linear = pairs.linear
        # rays and points may miss where heads bend that cancel elsewhere
        for _ in range(_SCALES):
            scale = find_scale(pairs, random)
            rank = 0 if scale is None else rank_of_values(pairs, scale, random)
            if rank > 0:
                break
        if scale is None:  # one head that attends to all tokens alike
            return linear.layer, _verdict(pairs.oracle, linear.layer, random)
        m = rank if self.m == "auto" else self.m
        recorder.step("Heads counted", heads=m, rank=rank, scale=scale)
        separated = separate_heads(pairs, m, rank, scale, random, recorder)
        found = None
        if separated is not None:
            w, directions, _ = separated
            logits = read_logits(pairs, w, directions, scale)
            found = Parameters(logits.theta, w, logits.key_bias, linear.bias).layer
            recorder.step("Logits", layer=found)
        if found is not None:
            verdict = _verdict(pairs.oracle, found, random)
            if verdict.outcome is Outcome.EXACT or rank > 1:
                return found, verdict
        if rank > 1:  # at some delta all values are so small that rounding counts as heads
            rank = rank_of_values(pairs, scale, random)
        # heads whose outputs have one direction, at most m of them; a second attempt may reach more digits
        floor = None
        for attempt in ATTEMPTS if rank == 1 else ():
            heads = rank_one_heads(pairs, scale, random, attempt, recorder)
            if heads is None or (self.m != "auto" and len(heads.w) > self.m):
                continue
            found = Parameters(heads.theta, heads.w, heads.key_bias, linear.bias).layer
            recorder.step("Heads assembled", layer=found, heads=len(heads.w), condition=heads.condition)
            verdict = _agreement(pairs.oracle, found, scale, random)
            if verdict.outcome is Outcome.EXACT or (verdict.outcome.succeeded and floor is not None):
                return found, verdict
            floor = (found, verdict) if verdict.outcome.succeeded else floor
        return (None, Verdict(Outcome.NOT_SEPARATED)) if floor is None else floor

    def _learn_noisy(
        self, kept: KeptAnswers, precision: AnswerPrecision, random: np.random.Generator, recorder: Recorder
    ) -> tuple[AttentionLayer | None, Verdict]:
        m = None if self.m == "auto" else self.m
        found = recover_from_noise(kept, precision, m=m, rng=random, recorder=recorder)
        if found is None:
            return None, Verdict(Outcome.NOT_SEPARATED)
        return found, _noisy_verdict(kept, found, precision, random, recorder)


def _verdict(oracle: ValueOracle, found: AttentionLayer, random: np.random.Generator) -> Verdict:
    """Whether fresh queries are answered as the oracle does.

    Half of them have shorter and shorter tokens. Heads that cancel where they are saturated show there.
    """
    x = random.standard_normal((_CHECKS, oracle.k or _CHECKED_TOKENS, oracle.d))
    half = _CHECKS // 2
    x[half:] *= _SHORTEST ** (np.arange(1, half + 1) / half)[:, None, None]
    answers, predicted = oracle.ask(x), found(x)
    parts = [slice(half), *(slice(one, one + 1) for one in range(half, _CHECKS))]
    return _judged(
        max(
            relative_error(predicted[part], answers[part])
            if np.any(answers[part])
            else float(np.abs(predicted[part]).max())
            for part in parts
        ),
        len(x),
    )


def _masked_rightly(oracle: ValueOracle, found: AttentionLayer, random: np.random.Generator) -> bool:
    """Whether all rows of a causal layer are as predicted, not the last ones alone."""
    x = random.standard_normal((_CHECKS, oracle.k or _CHECKED_TOKENS, oracle.d))
    answers, predicted = oracle.ask(x), found(x)
    return all(
        np.linalg.norm(answers[:, row] - predicted[:, row]) < _MASKED * np.linalg.norm(answers)
        for row in range(x.shape[1])
    )


def _judged(error: float, checks: int) -> Verdict:
    if error >= _FLOOR:
        return Verdict(Outcome.NOT_SEPARATED, error)
    outcome = Outcome.EXACT if error < EXACT_ERROR else Outcome.PRECISION_FLOOR
    return Verdict(outcome, error, error_rate_bound(checks))


def _noisy_verdict(
    oracle: ValueOracle,
    found: AttentionLayer,
    precision: AnswerPrecision,
    random: np.random.Generator,
    recorder: Recorder,
) -> Verdict:
    """Whether fresh answers differ from the prediction by little more than their error, and by less than from zero."""
    x = random.standard_normal((_CHECKS, oracle.k or _CHECKED_TOKENS, oracle.d))
    answers = oracle.ask(x)
    moving = answers if found.bias is None else answers - found.bias
    off, size = (float(np.sqrt(np.mean(part**2))) for part in (answers - found(x), moving))
    error = off / (size or 1.0)
    recorder.step("Fresh queries", layer=found, error_on_queries=error)
    amplified = _AMPLIFIED if np.any(found.theta) else _PLAIN
    rounding = min(amplified * precision.accuracy, _AT_MOST) * float(np.sqrt(np.mean(answers**2)))
    if off >= max(_LOUD * precision.noise, rounding, EXACT_ERROR * size) or off >= size / 2:
        return Verdict(Outcome.NOT_SEPARATED, error)
    outcome = Outcome.NOISE_FLOOR if _LOUD * precision.noise > rounding else Outcome.PRECISION_FLOOR
    return Verdict(outcome, error, error_rate_bound(len(x)))


def _agreement(
    oracle: ValueOracle, found: AttentionLayer, scale: float, random: np.random.Generator
) -> Verdict:
    """How closely fresh answers are as predicted, relative to the heads' values X W_i, which may cancel.

    A third of the tokens are Gaussian of unit variance, a third Boolean. A third have lengths from the scale down to
    one at which no head saturates: every head then shows, also two that cancel where both are saturated.
    """
    x = random.standard_normal((12 * _CHECKS, oracle.k or _CHECKED_TOKENS, oracle.d))
    x[1::3] = np.sign(x[1::3])
    x[::3] *= 2 * scale / np.sqrt(oracle.d) * _SHORTEST ** np.linspace(0, 1, 4 * _CHECKS)[:, None, None]
    difference = np.linalg.norm(oracle.ask(x) - found(x), axis=(1, 2))
    values = 0 if found.bias is None else np.linalg.norm(found.bias)
    values = values + np.linalg.norm(x[:, None] @ found.w, axis=(2, 3)).sum(axis=1)
    return _judged(float(np.max(difference / values)), len(x))
