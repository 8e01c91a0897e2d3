"""The learner of layers with rotary positions from value queries."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from attention import Fit, Outcome, QueriesExhaustedError, Recorder, RotaryLayer, ValueOracle
from attention.evaluation import Verdict, norm_ratio, verdict
from attention.learning import Access, LearnerBase, apart
from attention.memory import require_memory
from attention.validation import NonNegativeFloat, NonNegativeInt, checked
from upper.rotary.heads import separate_heads
from upper.rotary.keys import MORE, Keys, read_keys
from upper.rotary.movable import Movable, movable_tokens
from upper.rotary.moved_token import Counted, EqualTokens, count_heads, positions_show
from upper.rotary.projections import read_projections
from upper.rotary.queries_side import Scores, read_queries
from upper.value_queries.logits import Parameters
from upper.value_queries.queries import (
    Tolerances,
    linear_part,
    not_linear,
    precision_and_mask,
)

# Moves of each token give the start of a head: with 4, 2 of 2 layers of 16 heads take a second attempt. More than 8
# heads, and further attempts, take 8.
_FEW, _MANY = 4, 8
# Every other attempt has tokens of half the length, at which weights are less saturated.
_ATTEMPTS = 4
# Fresh sequences.
_LENGTHS = (8, 8, 64, 64, 512, 512)
# Coarse answers are predicted to so many times what counts as equal in them, and to one per cent: in float32 to 1e-4 to
# 2e-3.
_AMPLIFIED, _LARGEST = 3e3, 0.01


class Refusal(Enum):
    """Why there is no layer; the details of a fit that ends without one."""

    NO_POSITIONS = "Tokens that change places change nothing: there are no positions; take ByQueries."
    MANY_HEADS = "There are too many heads: fewer than half the coordinates can be read."
    NO_PENCIL = "Heads are not told apart: their projections are dependent, or their weights are saturated."
    PROJECTIONS = "The projections do not fit their answers: the function is no layer with rotary positions."
    SATURATED = "Weights of movable tokens are not read: some are too small, or a projection has rank one."
    FREQUENCIES = "The frequencies of the layer are not the given ones: leave them out, and they are found."

    @property
    def explanation(self) -> str:
        """The sentence, for a `Fit` whose details this is."""
        return str(self.value)


@dataclass(frozen=True)
@checked
class RotaryByQueries(LearnerBase):
    """Recovers a layer with rotary positions, with its biases, from outputs on sequences of its own choice.

    Parameters
    ----------
    frequencies : tuple of float, optional
        The frequencies in radians a position, such as those of `rotary_frequencies`; found if not given.
    examples : int, optional
        The most value queries; by default as many as it takes. Where they do not suffice, the outcome says so.

    Notes
    -----
    Derived here. The number of heads, their dimension, the mask, shared keys, frequencies and coordinates that are not
    rotated are found. Coordinates that turn together are f and f + p / 2, as other pairings give the same functions.

    1. Equal tokens give b and the sum of the W_i (`linear_part`).
    2. Equal tokens but one have answers of the rank of the heads (`count_heads`).
    3. A matrix pencil of two rows separates the heads at one token (`separate_heads`).
    4. With those weights, answers are linear in all W_i (`read_projections`).
    5. With all W_i, answers show the scores of movable tokens. A pencil in the distance gives frequencies and keys
       (`read_keys`).
    6. Queries and biases are linear in the same scores (`read_queries`).

    There is no search, and heads are never matched. The layer is judged by fresh sequences of 8, 64 and 512 tokens;
    those asked before have at most 129. Where there is no layer, the details say why (`Refusal`).

    Needs m < d / 2, heads whose weights differ at equal tokens, and generic W_i.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_rotary_layer
    >>> layer = make_nice_rotary_layer(2, 16, 8, rng=0)
    >>> fit = RotaryByQueries().fit(ValueOracle(layer), rng=1)
    >>> fit.outcome.name, fit.layer.heads, fit.examples_used < 250
    ('EXACT', 2, True)
    >>> fit.layer.frequencies.round(9).tolist()
    [1.0, 0.1, 0.01, 0.001]
    """

    access: ClassVar[Access] = "value queries"
    any_length: ClassVar[bool] = True

    frequencies: tuple[NonNegativeFloat, ...] | None = None
    examples: NonNegativeInt | None = None

    def minimum_examples(self, tokens: int | None, dim: int) -> int:
        """The queries of the linear part."""
        return dim + 1

    def _prepare(self, oracle: ValueOracle) -> None:
        if oracle.tokens is not None:
            raise ValueError(
                f"Queries have {oracle.tokens} tokens: sequences of 1 to 512 tokens are needed, from an oracle "
                "without the argument tokens."
            )
        if oracle.dim < 4:
            raise ValueError(f"Queries have {oracle.dim} coordinates: at least 4 are needed.")
        require_memory(
            f"Sequences along each of {oracle.dim} dimensions",
            24 * 200 * oracle.dim**2,
            advice="take fewer dimensions",
        )

    def _learn(
        self, oracle: ValueOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        random = apart(rng)
        within = oracle if budget is None else oracle.limited(budget)
        found: RotaryLayer | Refusal | None = None
        precision, known = None, None
        ended = Verdict(Outcome.NOT_SEPARATED)
        try:
            precision, causal = precision_and_mask(within, recorder, random)
            if not_linear(precision):
                ended = Verdict(Outcome.NO_LAYER)
            else:
                linear = linear_part(within)
                known = Parameters.alike(linear).layer()
                recorder.step("Equal tokens", predict=known)
                equal = EqualTokens(within, linear, precision, causal)
                try:
                    found = self._recovered(equal, random, recorder)
                except np.linalg.LinAlgError:  # where the function is no such layer, a matrix may be singular
                    found = Refusal.PROJECTIONS
                if isinstance(found, RotaryLayer):
                    ended = judge(equal, found, random)
                    recorder.step("Fresh sequences", layer=found, error=ended.held_out_error)
                else:
                    recorder.step(found.value)
        except QueriesExhaustedError:
            found, ended = None, Verdict(Outcome.EXAMPLES_SPENT)
        layer = found if isinstance(found, RotaryLayer) else None
        predict = np.zeros_like if known is None else known
        return recorder.fit(
            ended,
            layer=layer,
            predict=predict if layer is None else None,
            precision=precision,
            details=found if layer is None else None,
        )

    def _recovered(
        self, equal: EqualTokens, rng: np.random.Generator, recorder: Recorder
    ) -> RotaryLayer | Refusal:
        if not positions_show(equal, rng):
            return Refusal.NO_POSITIONS
        counted = count_heads(equal, rng)
        if counted is None:
            return Refusal.NO_PENCIL
        recorder.step("Heads counted", heads=counted.heads, length=counted.length, smallest=counted.smallest)
        if 2 * counted.heads >= equal.oracle.dim:  # two movable tokens have 2 m weights in a row
            return Refusal.MANY_HEADS
        w = _projections(equal, counted, rng, recorder)
        if isinstance(w, Refusal):
            return w
        movable = movable_tokens(equal, w, counted.length, rng)
        if movable is None:
            return Refusal.SATURATED
        given = None if self.frequencies is None else np.array(self.frequencies)
        logs = _weights_of_enough(movable, 8 if given is None else 2 * len(given))
        if isinstance(logs, Refusal):
            return logs
        keys = read_keys(movable, movable.differences_of(logs), given)
        if keys is None:
            return Refusal.FREQUENCIES
        recorder.step(
            "Keys", frequencies=keys.frequencies, key_heads=int(keys.group.max()) + 1, fillers=logs.shape[1]
        )
        scores = read_queries(movable, keys, logs)
        if scores is None:
            return Refusal.SATURATED
        layer = _layer(equal, w, keys, scores)
        recorder.step("Queries", layer=layer)
        return layer


def _projections(
    equal: EqualTokens, counted: Counted, rng: np.random.Generator, recorder: Recorder
) -> np.ndarray | Refusal:
    """All W_i, from the first attempt whose heads and projections fit their answers."""
    refusal = Refusal.NO_PENCIL
    for attempt in range(_ATTEMPTS):
        moves = _MANY if attempt or counted.heads > _MANY else _FEW
        length = counted.length / (1 + attempt % 2)
        heads = separate_heads(equal, counted.heads, length, moves, rng)
        if heads is None:
            continue
        recorder.step("Heads separated", residual=heads.residual, length=length)
        w = read_projections(equal, heads, length, rng)
        if w is not None:
            recorder.step("Projections")
            return w
        refusal = Refusal.PROJECTIONS
    return refusal


def _weights_of_enough(movable: Movable, coordinates: int) -> np.ndarray | Refusal:
    """Log weights around as many fillers as show the rank of the scores, twice as many each time."""
    tolerance = np.sqrt(movable.equal.tolerance)
    logs, most = None, len(movable.fillers)
    number = min(coordinates + MORE, most)
    while True:
        new = movable.log_weights(movable.fillers[0 if logs is None else logs.shape[1] : number])
        logs = new if logs is None else np.concatenate([logs, new], axis=1)
        if not np.isfinite(logs).all():
            return Refusal.SATURATED
        scores = movable.differences_of(logs)
        size = np.linalg.svd(scores.reshape(*scores.shape[:2], -1), compute_uv=False)
        # all fillers there are show every rank
        if number == most or np.all(np.sum(size > tolerance * size[:, :1], axis=1) <= number - MORE):
            return logs
        number = min(2 * number, most)


def _layer(equal: EqualTokens, w: np.ndarray, keys: Keys, scores: Scores) -> RotaryLayer:
    """The layer with heads in the order of their keys, and without biases that are rounding."""
    order = np.argsort(keys.group, kind="stable")
    sizes = np.bincount(keys.group)
    first = order[:: sizes[0]] if (sizes == sizes[0]).all() else order
    rounding = Tolerances.of(equal.precision).biases
    biases = {
        "query_bias": (scores.query_bias[order], scores.queries),
        "key_bias": (scores.key_bias[first], keys.maps),
        "bias": (equal.linear.bias, w),
    }
    return RotaryLayer(
        scores.queries[order],
        keys.maps[first],
        w[order],
        keys.frequencies,
        causal=equal.causal,
        **{
            name: bias
            for name, (bias, beside) in biases.items()
            if np.abs(bias).max() > rounding * np.abs(beside).max()
        },
    )


def judge(equal: EqualTokens, layer: RotaryLayer, rng: np.random.Generator) -> Verdict:
    """Whether fresh sequences of tokens of unit variance, also longer ones than those asked, are answered alike."""
    errors = []
    for length in _LENGTHS:
        x = rng.standard_normal((1, length, equal.oracle.dim))
        answers = equal.oracle.ask(x) - equal.linear.bias
        errors.append(norm_ratio(layer(x) - equal.linear.bias - answers, answers))
    rounding = Tolerances.of(equal.precision).prediction
    if equal.precision.coarse:
        rounding = max(rounding, min(_AMPLIFIED * equal.tolerance, _LARGEST))
    return verdict(
        fitted=max(errors),
        held_out=max(errors),
        evidence=len(_LENGTHS),
        otherwise=Outcome.NOT_SEPARATED,
        rounding=rounding,
    )
