"""The learner: cubic regression on the examples of an oracle, with every row as a query."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention import ExampleOracle, Fit, Outcome, Recorder
from attention.evaluation import HELD_OUT_SHARE
from attention.learning import LearnerBase, draw_and_hold_out
from attention.validation import NonNegativeInt, checked
from upper.linear_attention.features import (
    as_tokens,
    blocks,
    feature_count,
    predicted,
    softmax_feature_count,
    softmax_features,
    tensor_from_features,
)
from upper.linear_attention.least_squares import (
    Block,
    FeatureRegression,
    require_feature_memory,
)
from upper.linear_attention.regression import regress_blocks

_Features = Literal["plain", "aug", "cent"]
_EQUATIONS = 4  # equations per unknown of one output, by default
_LEAST_HELD_OUT = 16


@dataclass(frozen=True, eq=False)
class LinearAttentionPredictor:
    """The learned linear attention, with every row of X as a query.

    Attributes
    ----------
    features : {"plain", "aug", "cent"}
        The set of features, as in `softmax_features`.
    regression : FeatureRegression
        The coefficients (F, d) on them, with their rank, condition and residual.
    """

    features: _Features
    regression: FeatureRegression

    @property
    def coefficients(self) -> Float[np.ndarray, "F d"]:
        """The coefficients on the features: the cubic ones, then those of the query and of the row mean."""
        return self.regression.coefficients

    @property
    def dim(self) -> int:
        """Dimension d of the tokens."""
        return int(self.coefficients.shape[1])

    @property
    def tensor(self) -> Float[np.ndarray, "d d d d"]:
        """M_abce on G_bc z_e, symmetric in b and c; heads are computed from it. For "cent", G is centred."""
        return tensor_from_features(self.coefficients[: feature_count(self.dim)], self.dim)

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The predicted labels, in the array type of `x`; whole numbers count as their floats."""
        x = as_tokens(x, self.dim)
        return predicted(lambda part: softmax_features(part, self.features), x, self.coefficients)

    def __repr__(self) -> str:
        return f"<LinearAttentionPredictor: {self.features}, {self.regression}>"


@dataclass(frozen=True)
@checked
class LinearAttentionLearner(LearnerBase):
    """Linear attention learned exactly, by regression of the labels of every row on cubic features.

    Parameters
    ----------
    features : {"plain", "aug", "cent"}
        "plain" is linear attention itself, with G = X^T X and every row as the query in turn. For softmax targets "aug"
        adds the row mean, and "cent" centres G and adds the query too; see `softmax_features`.
    examples : int, optional
        Budget in examples. The default is four times as many equations as features, or all examples if they are given.
        A twentieth is held out.
    least_norm : bool
        Whether fewer equations than features are allowed; the fit is then the one of least norm.

    Raises
    ------
    ValueError
        If a parameter is out of range; on `fit`, before an example is drawn, if the budget is below `minimum_examples`
        or a matrix of features by features does not fit 2 GiB; and for malformed examples.

    Notes
    -----
    O(n k F^2 + F^3) time and F^2 numbers, F about d^3/2; r < F rows take O(r^2 F). On linear attention it is exact as
    soon as the features of the examples have the rank that they have on the domain; min(k, d) rows of an example are
    independent. On softmax attention it is the best predictor of its class.

    The outcome is EXACT if fitted and held-out labels are reproduced to 1e-10 (PRECISION_FLOOR: to 1e-6), and two
    held-out inputs at least do not follow from fitted ones by a symmetry; otherwise it is UNCONFIRMED. This is
    evidence, not proof: `Fit.error_rate_bound` says how much.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2, for "plain" with one query an example, agnostically;
    the rest is derived here.

    Examples
    --------
    >>> from attention import GaussianInputs
    >>> from upper.linear_attention import make_linear_attention
    >>> target = make_linear_attention(heads=2, dim=3, rng=0)
    >>> oracle = ExampleOracle(lambda x: target.at_queries(x, x), GaussianInputs(tokens=4, dim=3), rng=1)
    >>> fit = LinearAttentionLearner().fit(oracle)
    >>> fit.outcome.name, fit.predict.tensor.shape, fit.predict.regression.rank
    ('EXACT', (3, 3, 3, 3), 18)
    """

    features: _Features = "plain"
    examples: NonNegativeInt | None = None
    least_norm: bool = False

    def minimum_examples(self, tokens: int, dim: int) -> int:
        """As many equations as features, min(k, d) an example, and one to hold out; 2 for the least norm."""
        return 2 if self.least_norm else -(-softmax_feature_count(self.features, dim) // min(tokens, dim)) + 1

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        n, k, d = budget, oracle.tokens, oracle.dim
        features = softmax_feature_count(self.features, d)
        if n is None:
            equations = -(-_EQUATIONS * features // min(k, d))
            n = equations + max(_LEAST_HELD_OUT, -(-equations // (HELD_OUT_SHARE - 1)))
        # r rows of F features hold no more than a matrix of sqrt(r F)
        require_feature_memory(min(math.isqrt(n * k * features), features))
        least = None if self.least_norm else self.minimum_examples(k, d) - 1
        (x, y), held = draw_and_hold_out(oracle, n, least=least)

        def stream() -> Iterator[Block]:
            for part in blocks(len(x), k * features):
                phi = softmax_features(x[part], self.features)
                yield phi.reshape(-1, features), y[part].reshape(-1, d)

        regression = regress_blocks(stream, len(x) * k, features, d)
        predict = LinearAttentionPredictor(self.features, regression)
        verdict = held.verdict(predict, fitted=regression.residual, otherwise=Outcome.BEST_OF_CLASS)
        recorder.step(
            "Cubic regression",
            predict=predict,
            residual=regression.residual,
            held_out_error=verdict.held_out_error,
            features=features,
            rank=regression.rank,
        )
        return recorder.fit(verdict, predict=predict)
