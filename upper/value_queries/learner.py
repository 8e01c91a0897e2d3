"""The learner from value queries: all heads of a layer, exactly, with no search and no descent.

Nothing is fitted to the fresh queries that judge its layer.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from attention import (
    AttentionLayer,
    Fit,
    Outcome,
    QueriesExhaustedError,
    Recorder,
    ValueOracle,
)
from attention.evaluation import Verdict, verdict
from attention.learning import Access, LearnerBase, apart
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, Real, checked
from upper.value_queries.dependent_heads import MOST_DEPENDENT, dependent_heads, free_signs
from upper.value_queries.logits import Parameters, read_logits
from upper.value_queries.noisy import (
    choose_step_length,
    fit_to_fresh,
    linear_part_from_noise,
    read_row_logits,
)
from upper.value_queries.queries import (
    LastRows,
    Tolerances,
    TwoTokens,
    find_scale_and_rank,
    linear_part,
    not_linear,
    precision_and_mask,
    rank_of_values,
)
from upper.value_queries.rank_one import ATTEMPTS, rank_one_heads
from upper.value_queries.separation import Refusal, separate_heads


@dataclass(frozen=True)
@checked
class ByQueries(LearnerBase):
    """Recovers all heads of a layer, with its biases, from the layer's outputs on token matrices of its own choice.

    Parameters
    ----------
    heads : int or "auto"
        Heads of the layer; "auto" finds how many, as the rank of values. Where outputs have one direction, it is the
        most heads that are accepted.
    examples : int, optional
        The most value queries; by default as many as it takes. Where they do not suffice, the outcome says so.
    noise : float, optional
        Standard deviation of the noise on an entry of an answer, as in `ValueOracle`; found if not given.
    accuracy : float, optional
        The relative rounding unit of the answers, such as 6e-8 where they are computed in float32; found if not given.
        All thresholds, the step length and the number of repetitions follow from the two. Answers that repeat are not
        averaged.
    step_length : float, optional
        Two tokens differ by so many times the usual length, at least 1, and are as many times shorter than usual. By
        default, coarse answers are asked with the length that they need, and then fitted to fresh ones.

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

    Nothing is assumed of the norms or coherence of the Theta_i. A step of the trace that separates heads has
    ``condition``: how much larger rounding gets for the worst head. Where heads are not separated, a step says why
    (`Refusal`). A layer whose biases are found to be rounding has none.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> fit = ByQueries().fit(ValueOracle(layer), rng=1)
    >>> fit.outcome.name, fit.layer.heads, fit.examples_used < 400
    ('EXACT', 2, True)
    """

    access: ClassVar[Access] = "value queries"

    heads: PositiveInt | Literal["auto"] = "auto"
    examples: NonNegativeInt | None = None
    noise: NonNegativeFloat | None = None
    accuracy: NonNegativeFloat | None = None
    step_length: Annotated[float, Real(least=1)] | None = None

    def minimum_examples(self, tokens: int | None, dim: int) -> int:
        """The queries of the linear part."""
        return dim + 1

    def _prepare(self, oracle: ValueOracle) -> None:
        if oracle.tokens == 1:
            raise ValueError(
                "Queries have one token: every layer is linear there; at least two tokens are needed."
            )
        if oracle.dim == 1:
            raise ValueError("Queries have one coordinate: at least two are needed, to tell heads apart.")
        k, d = oracle.tokens or 2, oracle.dim
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
        precision, known, signs = None, None, None
        layer: AttentionLayer | None = None
        try:
            precision, causal = precision_and_mask(
                within, recorder, random, noise=self.noise, accuracy=self.accuracy
            )
            asked = LastRows(within) if causal else within
            if not_linear(precision):
                verdict = Verdict(Outcome.NO_LAYER)
            else:
                linear = linear_part_from_noise(asked, precision) if precision.coarse else linear_part(asked)
                known = Parameters.alike(linear).layer()
                recorder.step("Equal tokens", predict=known)
                pairs = TwoTokens(asked, linear, precision, step_length=self.step_length or 1.0)
                layer, verdict = self._recovered(pairs, random, recorder)
            if causal and layer is not None:
                layer = replace(layer, causal=True)
                if verdict.outcome.succeeded and not masked_rightly(within, layer, random):
                    verdict = Verdict(Outcome.NOT_SEPARATED)
            if layer is not None and verdict.outcome.succeeded and oracle.tokens == 2:
                signs = free_signs(layer, Tolerances.of(precision).sums)
        except QueriesExhaustedError:
            layer, verdict = None, Verdict(Outcome.EXAMPLES_SPENT)
        predict = np.zeros_like if known is None else known
        return recorder.fit(
            verdict,
            layer=layer,
            predict=predict if layer is None else None,
            precision=precision,
            details=signs,
        )

    def _recovered(
        self, pairs: TwoTokens, random: np.random.Generator, recorder: Recorder
    ) -> tuple[AttentionLayer | None, Verdict]:
        if pairs.coarse and self.step_length is None:
            return self._from_noise(pairs, random, recorder)
        pairs, rank = find_scale_and_rank(pairs, random)
        parameters = self._independent(pairs, rank, random, recorder)
        layer, verdict = _NOT_SEPARATED
        if parameters is not None:
            layer = parameters.layer(pairs.tolerances.biases)
            verdict = judge(pairs, layer, random)
        if verdict.outcome is Outcome.EXACT or rank == 0 or pairs.step_length != 1:
            return layer, verdict
        if layer is None and rank > 1:  # at some delta all values are so small that rounding counts as heads
            rank = rank_of_values(pairs, random)
        if rank == 1:
            layer, verdict = self._of_one_direction(pairs, random, recorder)
            if np.linalg.matrix_rank(pairs.linear.projection_sum) <= 1:
                return layer, verdict
        # where tokens are bounded, shorter ones repair most of what fails, in seconds; the search would take minutes
        if verdict.outcome.succeeded or rank > MOST_DEPENDENT or pairs.oracle.longest is not None:
            return layer, verdict
        heads = None if self.heads == "auto" else self.heads
        parameters = dependent_heads(pairs, rank, heads, random, recorder)
        if parameters is None:
            return layer, verdict
        layer = parameters.layer(pairs.tolerances.biases)
        recorder.step("Heads assembled", layer=layer, heads=layer.heads)
        return layer, judge(pairs, layer, random, checks=_MANY_CHECKS)

    def _independent(
        self, pairs: TwoTokens, rank: int, random: np.random.Generator, recorder: Recorder
    ) -> Parameters | None:
        """Heads whose outputs are independent, as many as the rank of values."""
        if rank == 0:  # one head that attends to all tokens alike
            return Parameters.alike(pairs.linear)
        heads = rank if self.heads == "auto" else self.heads
        recorder.step(
            "Heads counted",
            heads=heads,
            rank=rank,
            scale=pairs.scale,
            step_length=pairs.step_length,
            repetitions=pairs.repeats,
        )
        separated = separate_heads(pairs, heads, rank, random, recorder)
        if isinstance(separated, Refusal):
            recorder.step(separated.value, heads=heads, rank=rank)
            return None
        read = read_logits if pairs.step_length == 1 else read_row_logits
        parameters = read(pairs, separated.w, separated.directions)
        recorder.step("Logits", layer=parameters.layer(pairs.tolerances.biases))
        return parameters

    def _from_noise(
        self, pairs: TwoTokens, random: np.random.Generator, recorder: Recorder
    ) -> tuple[AttentionLayer | None, Verdict]:
        """The same with longer differences, as noise asks for them, and then a fit to fresh answers."""
        steps = choose_step_length(pairs, random)
        rank = 0 if steps is None else rank_of_values(steps.pairs, random)
        parameters = self._independent(pairs if steps is None else steps.pairs, rank, random, recorder)
        if parameters is None:
            return _NOT_SEPARATED
        if steps is not None:
            parameters = fit_to_fresh(parameters, steps, random, recorder)
        layer = parameters.layer()
        verdict = judge(pairs, layer, random)
        recorder.step("Fresh queries", layer=layer, error_on_queries=verdict.held_out_error)
        return layer, verdict

    def _of_one_direction(
        self, pairs: TwoTokens, random: np.random.Generator, recorder: Recorder
    ) -> tuple[AttentionLayer | None, Verdict]:
        """The heads whose outputs have one direction, at most `heads` of them."""
        best = _NOT_SEPARATED
        for attempt in ATTEMPTS:
            heads = rank_one_heads(pairs, random, attempt, recorder)
            if isinstance(heads, Refusal):
                recorder.step(heads.value)
                continue
            layer = heads.parameters.layer(pairs.tolerances.biases)
            if self.heads != "auto" and layer.heads > self.heads:
                recorder.step(Refusal.MORE_HEADS.value, heads=layer.heads)
                continue
            recorder.step("Heads assembled", layer=layer, heads=layer.heads, condition=heads.condition)
            verdict = judge(pairs, layer, random, checks=_MANY_CHECKS)
            if verdict.outcome is Outcome.EXACT:
                return layer, verdict
            if verdict.outcome.succeeded:  # a second attempt may reach more digits
                again = best[0] is not None
                if not again or verdict.held_out_error < best[1].held_out_error:
                    best = layer, verdict
                if again:
                    break
        return best


_NOT_SEPARATED: tuple[AttentionLayer | None, Verdict] = (None, Verdict(Outcome.NOT_SEPARATED))


# Fresh queries, of as many tokens where the oracle leaves it open; more where heads may cancel on most of them.
_CHECKS, _MANY_CHECKS, _TOKENS = 8, 96, 4
# Noise moves the size of the error on a fresh answer by much less than this factor.
_NOISE = 3.0
# A layer that explains less than half of the answers, or whose rows are off by more than a tenth, is another layer.
_HALF, _MASKED = 0.5, 0.1


def judge(
    pairs: TwoTokens, layer: AttentionLayer, rng: np.random.Generator, *, checks: int = _CHECKS
) -> Verdict:
    """Whether fresh queries are answered as the oracle does, relative to the heads' values X W_i, which may cancel.

    A third of the tokens are Gaussian of unit variance, a third Boolean. A third have lengths from the scale down to
    one at which no head saturates, as far as errors of answers allow: every head then shows, also two that cancel where
    both are saturated.
    """
    x = _tokens(pairs.oracle, checks, rng)
    x[1::3] = np.sign(x[1::3])
    lengths = pairs.tolerances.shortest ** np.linspace(0, 1, len(x[::3]))
    x[::3] *= (2 * pairs.scale / np.sqrt(x.shape[2]) * lengths)[:, None, None]
    off = np.linalg.norm(pairs.oracle.ask(x) - layer(x), axis=(1, 2))
    values = np.linalg.norm(x[:, None] @ layer.w, axis=(2, 3)).sum(axis=1)
    bias = 0.0 if layer.bias is None else float(np.linalg.norm(layer.bias))
    values, rounding = np.maximum(values, np.finfo(float).tiny), pairs.tolerances.prediction
    if not pairs.coarse:
        return _verdict(float(np.max(off / (values + bias))), checks, rounding)
    # a large bias does not count for heads that coarse answers hide
    rounding *= float(np.max((values + bias) / values))
    noise = _NOISE * pairs.precision.noise * np.sqrt(x[0].size) / float(values.min())
    return _verdict(float(np.max(off / values)), checks, min(rounding, _HALF), min(noise, _HALF))


def _verdict(error: float, queries: int, rounding: float, noise: float = 0.0) -> Verdict:
    """Nothing is fitted to answers, so the error on fresh queries is all there is."""
    judged = verdict(
        fitted=error,
        held_out=error,
        evidence=queries,
        otherwise=Outcome.NOT_SEPARATED,
        tolerance=noise if rounding < noise else 0.0,
        rounding=rounding,
    )
    reached = judged.outcome is Outcome.REACHED_TOLERANCE
    return replace(judged, outcome=Outcome.NOISE_FLOOR) if reached else judged


def masked_rightly(oracle: ValueOracle, layer: AttentionLayer, rng: np.random.Generator) -> bool:
    """Whether all rows of a causal layer are as predicted, not the last ones alone."""
    x = _tokens(oracle, _CHECKS, rng)
    answers, predicted = oracle.ask(x), layer(x)
    return all(
        np.linalg.norm(answers[:, row] - predicted[:, row]) < _MASKED * np.linalg.norm(answers)
        for row in range(x.shape[1])
    )


def _tokens(oracle: ValueOracle, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, oracle.tokens or _TOKENS, oracle.dim))
