"""Softmax attention by cubic features: how much of it linear attention explains."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention.inputs import BooleanInputs
from runs import Scale
from studies.intervals import mean_interval
from studies.line_figure import Panel, line_figure
from studies.rows import chosen, curve, grouped, table
from studies.study import Parameters, Row, Study, Table
from upper.linear_attention import FeatureMoments, regress_moments, softmax_features
from upper.linear_attention.features import SoftmaxKind, blocks, softmax_feature_count

__all__ = ["STUDY"]

_ALL_SIGNS = 17  # up to this many signs are enumerated, more are sampled
_NORMS = (0.03, 0.1, 1.0, 10.0)
_KINDS: dict[SoftmaxKind, str] = {
    "plain": "plain",
    "aug": "with row mean",
    "cent": "centred",
    "tokens": "no attention",
}


def _cells(scale: Scale) -> Sequence[Parameters]:
    draws, samples = (8, 6000) if scale is Scale.QUICK else (20, 40_000)
    return [{"k": k, "d": 8, "draws": draws, "samples": samples} for k in (2, 4)]


def _measure(*, k: int, d: int, draws: int, samples: int, rng: Generator) -> list[dict[str, Any]]:
    """Means of 1 - R^2 over draws of (Theta, W), with 95 % intervals, by norm of Theta and set of features.

    The head is softmax(x_q^T Theta X^T) X W with the query the last row of X, uniform in {-1, 1}^(k x d). It is odd in
    X, so that its mean is 0. The draws share the inputs. Where k d <= 17 all inputs are enumerated, otherwise the
    errors are those on as many fresh inputs, above the population's by a factor of about N / (N - rank) (measured).
    """
    exact, inputs = k * d <= _ALL_SIGNS, BooleanInputs(k, d)
    x = _half_of_all_signs(k, d) if exact else inputs.sample(samples, rng=rng)
    fresh = x if exact else inputs.sample(samples, rng=rng)
    theta = rng.standard_normal((len(_NORMS), draws, d, d))
    theta *= np.asarray(_NORMS)[:, None, None, None] / np.linalg.norm(theta, axis=(2, 3), keepdims=True)
    w = rng.standard_normal((len(_NORMS), draws, d, d)) / np.sqrt(d)
    heads = (theta.reshape(-1, d, d), w.reshape(-1, d, d))
    y = _last_row(x, *heads)
    y_fresh = y if exact else _last_row(fresh, *heads)
    rows = []
    for kind, features in _KINDS.items():
        missed = _missed(kind, x, y, fresh, y_fresh).reshape(len(_NORMS), draws)
        for norm, each in zip(_NORMS, missed, strict=True):
            mean = mean_interval(each, confidence=0.95)
            rows.append(
                {
                    "norm": norm,
                    "features": features,
                    "missed": mean.estimate,
                    "low": mean.low,
                    "high": mean.high,
                }
            )
    return rows


def _half_of_all_signs(k: int, d: int) -> np.ndarray:
    """One of X and -X for all 2^(k d) matrices of signs; targets and features are odd, so the other adds nothing."""
    bits = np.arange(1 << k * d - 1)[:, None] >> np.arange(k * d) & 1
    return (2.0 * bits - 1).reshape(-1, k, d)


def _last_row(x: np.ndarray, theta: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Outputs (N, r d) of r heads at the last row of x (N, k, d), one head after the other."""
    outputs = np.empty((len(x), theta.shape[0], x.shape[-1]))
    for head in range(len(theta)):
        logits = np.einsum("nd,nkd->nk", x[:, -1] @ theta[head], x)
        pattern = np.exp(logits - logits.max(axis=1, keepdims=True))
        pattern /= pattern.sum(axis=1, keepdims=True)
        outputs[:, head] = np.matmul(pattern[:, None, :], x)[:, 0] @ w[head]
    return outputs.reshape(len(x), -1)


def _missed(
    kind: SoftmaxKind, x: np.ndarray, y: np.ndarray, fresh: np.ndarray, y_fresh: np.ndarray
) -> np.ndarray:
    """1 - R^2 on the fresh inputs for each head."""
    d = x.shape[-1]
    features = softmax_feature_count(kind, d)
    moments = FeatureMoments(features, y.shape[1])
    for part in blocks(len(x), features):
        moments.add_features(softmax_features(x[part], kind, every_row=False), y[part])
    coefficients = regress_moments(moments).coefficients
    error = energy = np.zeros(y.shape[1])
    for part in blocks(len(fresh), features):
        predicted = softmax_features(fresh[part], kind, every_row=False) @ coefficients
        error = error + np.sum((predicted - y_fresh[part]) ** 2, axis=0)
        energy = energy + np.sum(y_fresh[part] ** 2, axis=0)
    return np.asarray(error.reshape(-1, d).sum(axis=1) / energy.reshape(-1, d).sum(axis=1))


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    """Means of 1 - R² by tokens, norm and features, such as k4_norm1_cent."""
    kinds = {features: kind for kind, features in _KINDS.items()}
    return {
        f"k{row['k']}_norm{row['norm']:g}_{kinds[row['features']]}".replace(".", "_"): row["missed"]
        for row in rows
    }


def _tables(rows: Sequence[Row]) -> dict[str, Table]:
    by = {"k": "k", "|Theta|": "norm", "features": "features"}
    rows = [row for those in grouped(rows, "k", "norm").values() for row in those]
    return {"missed": table(rows, by, {"1 - R²": "missed", "from": "low", "to": "high"})}


def _figure(rows: Sequence[Row]) -> Any:
    return line_figure(
        [
            Panel(
                "|Theta|",
                f"1 - R², {k} tokens",
                {
                    features: curve(chosen(sized, features=features), "norm", "missed")
                    for features in _KINDS.values()
                },
                log_x=True,
            )
            for (k,), sized in grouped(rows, "k").items()
        ]
    )


STUDY = Study(
    name="linear-softmax",
    title="Softmax attention, by regression on the features of linear attention",
    question="How much of a softmax head do the cubic features of linear attention explain?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    tables=_tables,
    figure=_figure,
)
