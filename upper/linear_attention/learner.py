"""The learner: cubic regression on the examples of an oracle, with every row as a query."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Shaped

from attention import ExampleOracle, Fit, Outcome, Recorder, draw_examples
from attention.evaluation import ENOUGH_IN_SPAN, HELD_OUT_SHARE, HeldOut, orbits
from attention.learning import LearnerBase
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
from upper.linear_attention.regression import regress_blocks, regress_features

__all__ = ["LinearAttentionLearner", "LinearAttentionPredictor"]

_Features = Literal["plain", "aug", "cent"]
_EQUATIONS = 4  # equations per unknown of one output, by default
_MOST_HELD_OUT = 4096
_LEAST_HELD_OUT = 16  # unless that is more than a quarter
_EXTRA = 2  # if the queries of this many extra examples beyond the rank fit too, the fit is no accident
_DEPENDENT = 1e-9  # singular values of an example's tokens below this share of the largest count as zero


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

    The outcome is EXACT if fitted and held-out labels are reproduced to 1e-10 (PRECISION_FLOOR: to 1e-6) and there is
    enough evidence. Evidence is the number of independent rows beyond the rank; it must be at least 2 min(k, d), and at
    least three. Copies of an example, in any order of the tokens, count once. If features are dependent, eight held-out
    inputs are needed that do not follow from fitted ones by a symmetry. Otherwise the outcome is UNCONFIRMED. This is
    evidence, not proof.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1 and Theorem 2.2, for "plain" with one query an example, agnostically;
    the rest is derived here.

    Examples
    --------
    >>> from attention import GaussianInputs
    >>> from upper.linear_attention import make_linear_attention
    >>> target = make_linear_attention(heads=2, dim=3, rng=0)
    >>> oracle = ExampleOracle(lambda x: target.at_queries(x, x), GaussianInputs(k=4, d=3), rng=1)
    >>> fit = LinearAttentionLearner().fit(oracle)
    >>> fit.outcome.name, fit.predict.tensor.shape, fit.predict.regression.rank
    ('EXACT', (3, 3, 3, 3), 18)
    """

    features: _Features = "plain"
    examples: NonNegativeInt | None = None
    least_norm: bool = False

    def minimum_examples(self, k: int, d: int) -> int:
        """As many equations as features, min(k, d) an example, and one to hold out; 2 for the least norm."""
        return 2 if self.least_norm else -(-softmax_feature_count(self.features, d) // min(k, d)) + 1

    def _learn(
        self, oracle: ExampleOracle, recorder: Recorder, budget: int | None, rng: np.random.Generator
    ) -> Fit:
        n, k, d = budget, oracle.k, oracle.d
        features = softmax_feature_count(self.features, d)
        if n is None:
            equations = -(-_EQUATIONS * features // min(k, d))
            n = equations + max(_LEAST_HELD_OUT, -(-equations // (HELD_OUT_SHARE - 1)))
        held_out = max(1, min(_LEAST_HELD_OUT, n // 4), min(_MOST_HELD_OUT, n // HELD_OUT_SHARE))
        if not self.least_norm:
            held_out = min(held_out, n - self.minimum_examples(k, d) + 1)
        rows = (n - held_out) * k
        few = rows < features  # and welcome
        # r rows of F features hold no more than a matrix of sqrt(r F)
        require_feature_memory(math.isqrt(rows * features) if few else features)

        x_held, y_held = draw_examples(oracle, held_out)
        extra = max(3, _EXTRA * min(k, d))
        seen = _IndependentRows(self.features, features + extra)
        new = set(seen.add(x_held))
        x, y = draw_examples(oracle, n - held_out)
        new.difference_update(seen.add(x))

        def stream() -> Iterator[Block]:
            for part in blocks(len(x), k * features):
                phi = softmax_features(x[part], self.features)
                yield phi.reshape(-1, features), y[part].reshape(-1, d)

        if few:
            phi, labels = (np.concatenate(parts) for parts in zip(*stream(), strict=True))
            regression = regress_features(phi, labels, least_norm=True)
        else:
            regression = regress_blocks(stream, features, d)
        predict = LinearAttentionPredictor(self.features, regression)
        # of a linear class what counts is how many rows of all were not needed for the rank of the features
        spanned = regression.unique or len(new) >= ENOUGH_IN_SPAN
        verdict = HeldOut(x_held, y_held, x_held).verdict(
            predict,
            fitted=regression.residual,
            otherwise=Outcome.BEST_OF_CLASS,
            evidence=lambda: seen.count - regression.rank if spanned else 0,
            enough=extra,
        )
        recorder.step(
            "Cubic regression",
            predict=predict,
            residual=regression.residual,
            held_out_error=verdict.held_out_error,
            features=features,
            rank=regression.rank,
        )
        return recorder.fit(verdict, predict=predict)


class _IndependentRows:
    """Counts the linearly independent rows of all examples; copies up to order and sign of the tokens count once.

    Within one example, the features are linear in the query, so only independent queries add information. Counting
    stops at `enough`.
    """

    def __init__(self, kind: _Features, enough: int) -> None:
        self.kind, self.enough = kind, enough
        self.count = 0
        self.orbits: set[int] = set()

    def add(self, x: Float[np.ndarray, "n k d"]) -> list[int]:
        """Count the rows of more examples, until there are enough; gives the examples' orbits."""
        names, first = np.unique(orbits(x), return_index=True)
        if self.count < self.enough:
            fresh = x[first[~np.isin(names, list(self.orbits))][: self.enough]]
            if self.kind != "plain":  # the features of the row mean are alike in all rows of an example
                mean = np.linalg.norm(fresh.mean(axis=1), axis=1)[:, None, None]
                fresh = np.concatenate([fresh, np.broadcast_to(mean, (*fresh.shape[:2], 1))], axis=2)
            self.count += int(np.linalg.matrix_rank(fresh, rtol=_DEPENDENT).sum())
            self.orbits.update(names.tolist())
        return names.tolist()
