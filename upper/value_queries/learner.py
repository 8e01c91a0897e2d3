"""The learner from value queries: all heads of a layer, exactly, with no search and no descent."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, Fit, GroundTruth, Outcome, Recorder
from attention.evaluation import relative_error, verdict
from attention.inputs import Rng
from attention.learning import Progress
from attention.validation import PositiveInt, checked, random_generator
from attention.value_oracle import ValueOracle
from upper.value_queries.logits import read_logits
from upper.value_queries.separation import first_heads, follow_heads
from upper.value_queries.two_tokens import TwoTokens, count_heads, find_scale, linear_part

__all__ = ["ByQueries", "RecoveredLayer"]

# Fresh queries on which the result is checked, of as many tokens where the oracle leaves it open.
_CHECKS, _CHECKED_TOKENS = 8, 4
# Biases below this share of the other parameters are rounding.
_NO_BIAS = 1e-9


@dataclass(frozen=True, eq=False)
class RecoveredLayer:
    """A layer with biases, F(X) = 1 b^T + sum_i softmax(X Theta_i X^T + 1 (X c_i)^T) X W_i."""

    theta: Float[np.ndarray, "m d d"]
    w: Float[np.ndarray, "m d d"]
    key_bias: Float[np.ndarray, "m d"]  #: c
    bias: Float[np.ndarray, " d"]  #: b
    #: for each head |delta W_i| over its distance to the span of the other heads' at the first delta: the digits that
    #: separating it costs
    condition: Float[np.ndarray, " m"]

    def __call__(self, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k d"]:
        """The outputs on the token matrices `x`."""
        layer = AttentionLayer(self.theta, self.w)
        patterns = np.exp(_shifted(layer.logits(x) + np.einsum("nkd,md->nmk", x, self.key_bias)[:, :, None]))
        patterns /= patterns.sum(axis=-1, keepdims=True)
        read = np.swapaxes(patterns @ x[:, None], 1, 2).reshape(*x.shape[:2], -1)
        return self.bias + read @ self.w.reshape(-1, x.shape[2])

    @property
    def biased(self) -> bool:
        """Whether the biases are more than rounding."""
        return bool(
            np.abs(self.bias).max() > _NO_BIAS * np.abs(self.w).max()
            or np.abs(self.key_bias).max() > _NO_BIAS * np.abs(self.theta).max()
        )


@dataclass(frozen=True)
@checked
class ByQueries:
    """Recovers all heads of a layer, with its biases, from the layer's outputs on token matrices of its own choice.

    Parameters
    ----------
    m : int or "auto"
        Heads of the layer; "auto" finds how many, as the rank of values.
    examples : int, optional
        The most value queries; by default as many as it takes.

    Notes
    -----
    Derived here. Where m <= d, the m vectors delta W_i are independent and the Theta_i delta differ for generic delta,
    all parameters follow in about d (m + 4) + 3 m^2 queries of arithmetic, up to the order of the heads:

    1. equal tokens give b and the sum of the W_i (`linear_part`);
    2. two tokens show a two-layer network of sigmoids, whose rank is the number of heads (`count_heads`);
    3. a matrix pencil separates the heads for one difference of the tokens (`first_heads`);
    4. they are followed to d differences, which gives all W_i (`follow_heads`);
    5. with those known, the weights of any tokens are linear in an answer, and their log ratios are logits: Theta_i and
       c_i (`read_logits`).

    Nothing is assumed of the norms, ranks or coherence of the Theta_i.

    Examples
    --------
    >>> from attention import ValueOracle, make_nice_layer
    >>> layer = make_nice_layer(heads=2, dim=16, rng=0)
    >>> fit = ByQueries().fit(ValueOracle(layer), rng=1)
    >>> fit.outcome.name, fit.layer.heads, fit.examples_used < 400
    ('EXACT', 2, True)
    """

    access: ClassVar[str] = "value queries"

    m: PositiveInt | Literal["auto"] = "auto"
    examples: PositiveInt | None = None

    def minimum_examples(self, k: int, d: int) -> int:
        """The queries of the linear part."""
        return d + 1

    def fit(
        self,
        oracle: ValueOracle,
        *,
        rng: Rng = None,
        truth: GroundTruth | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Recover the layer that answers the queries.

        Raises
        ------
        ValueError
            If the oracle answers no value queries, has one token, or its answers are malformed.
        """
        recorder = Recorder(oracle, truth=truth, progress=progress)
        random = np.random.default_rng([int(random_generator(rng).integers(2**63)), 2])
        linear = linear_part(oracle)
        recorder.step("Equal tokens", predict=lambda x: _linear(linear, x))
        pairs = TwoTokens(oracle, linear)
        scale = find_scale(pairs, random)
        rank, _ = count_heads(pairs, scale, random)
        m = rank if self.m == "auto" else self.m
        recorder.step("Heads counted", heads=m, rank=rank, scale=scale)
        found = None
        if 0 < m <= rank:
            found = self._recovered(pairs, m, scale, random, recorder)
        if found is None:
            return recorder.fit(Outcome.NOT_SEPARATED, predict=lambda x: _linear(linear, x))
        return recorder.fit(
            self._judged(oracle, found, scale, random),
            layer=None if found.biased else AttentionLayer(found.theta, found.w),
            predict=found,
        )
