"""The reliability of certificates of agreement: rows that agree by construction beside rows that do not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betaincinv

from attention import AttentionLayer
from attention.layer import softmax
from upper.six_phase.agreement import certify_agreement, contrasts_of
from upper.six_phase.agreement_law import disagreement

__all__ = ["Rows", "draw_rows", "judge_certificates", "residual_law"]


_PASSING = 0.9  # the share of planted agreements that the fair threshold lets through
_ALLOWED = 1.0  # logits: a certified row whose heads disagree by more is false
_ACCEPT = 0.01  # of all rows: the practical learner's share
_SMALLEST_WEIGHT = 0.05  # the learner uses no pattern with a smaller entry
_TAIL = 0.05


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples of a layer of two heads, and the same tokens with labels of heads that nearly agree.

    Attributes
    ----------
    layer : AttentionLayer
        The target.
    x, y : array (n, k, d)
        Examples.
    planted : array (n, k, d)
        Labels with a second head that attends like the first one, up to a gap.
    gaps : array (n, k)
        The disagreement of the target's heads, in logits.
    """

    layer: AttentionLayer
    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    planted: Float[np.ndarray, "n k d"]
    gaps: Float[np.ndarray, "n k"]


def draw_rows(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], *, planted_gap: float, rng: np.random.Generator
) -> Rows:
    """Label tokens by the layer of two heads, and with agreement planted up to `planted_gap` logits."""
    logits = layer.logits(x)[:, 0]
    noise = rng.standard_normal(logits.shape)
    noise *= planted_gap / (noise.max(axis=-1, keepdims=True) - noise.min(axis=-1, keepdims=True))
    patterns = softmax(logits, np), softmax(logits + noise, np)
    planted = sum(np.matmul(p, x) @ w for p, w in zip(patterns, layer.w, strict=True))
    return Rows(layer, x, layer(x), np.asarray(planted), disagreement(layer, x))


def judge_certificates(rows: Rows, projection_sum: Float[np.ndarray, "d d"]) -> Mapping[str, Any]:
    """Certify rows with an estimate of the sum of the projections, and count false certificates.

    Parameters
    ----------
    rows : Rows
        Examples.
    projection_sum : array (d, d)
        The estimate.

    Returns
    -------
    mapping
        ``agreeing``: the share of rows whose heads disagree by at most one logit. ``usable``: the share with every
        entry of the pattern above .05. The learner's ``threshold`` accepts the usable rows of least residual, a
        hundredth of all rows: ``accepted`` is their number, ``accepted_false`` the share of them that is false, and
        ``log_ratio_error`` the error of their log-ratios in logits. ``fair_threshold`` passes nine of ten planted
        agreements: ``false_rate`` is the share of disagreeing rows that also pass. None if nothing was accepted.
    """
    found = certify_agreement(rows.x, rows.y, projection_sum)
    planted = certify_agreement(rows.x, rows.planted, projection_sum)
    usable = _usable(found.pattern, found.residual)
    order = np.sort(found.residual[usable])
    wanted = min(math.ceil(_ACCEPT * found.residual.size), len(order))
    threshold = float(order[wanted - 1]) if wanted else None
    accepted = usable & (found.residual <= (-1.0 if threshold is None else threshold))
    fair = float(np.quantile(planted.residual[np.isfinite(planted.residual)], _PASSING))
    disagreeing = found.residual[(rows.gaps > _ALLOWED) & np.isfinite(found.residual)]
    return {
        "agreeing": float(np.mean(rows.gaps <= _ALLOWED)),
        "usable": float(np.mean(usable)),
        "threshold": threshold,
        "accepted": int(accepted.sum()),
        "accepted_false": float(np.mean(rows.gaps[accepted] > _ALLOWED)) if wanted else None,
        "log_ratio_error": contrasts_of(rows.x, found.pattern, accepted).error(rows.layer)
        if wanted
        else None,
        "fair_threshold": fair,
        "false_rate": float(np.mean(disagreeing <= fair)) if disagreeing.size else None,
    }


def residual_law(rows: Rows) -> Mapping[str, float]:
    """The squared share of a row's disagreement part that remains after certification, and its law.

    Notes
    -----
    Let p and q be the patterns of two heads in a row, W = W_1 + W_2 and V = (W_1 - W_2) / 2. The row is
    Y_a = (p + q)/2 X W + (p - q) X V, and its first part is an affine combination of the rows of X W. For Gaussian
    projections V is independent of W: given X, the vector (p - q) X V points in a uniformly random direction, and
    certification projects out the (k-1)-dimensional space of differences of the rows of X W. The remaining share of its
    squared length has the law Beta((d-k+1)/2, (k-1)/2), with mean 1 - (k-1)/d. Derived here; the residual is that of
    the exact sum.
    """
    _, k, d = rows.x.shape
    first, second = rows.layer.w
    patterns = rows.layer.patterns(rows.x)
    part = np.matmul(patterns[:, 0] - patterns[:, 1], rows.x) @ ((first - second) / 2)
    residual = certify_agreement(rows.x, rows.y, first + second).residual
    fine = np.isfinite(residual) & (rows.gaps > 0)
    left = (residual * np.linalg.norm(rows.y, axis=-1))[fine] / np.linalg.norm(part, axis=-1)[fine]
    return {
        "left": float(np.mean(left**2)),
        "left_predicted": 1 - (k - 1) / d,
        "tail": float(np.quantile(left**2, _TAIL)),
        "tail_predicted": float(betaincinv((d - k + 1) / 2, (k - 1) / 2, _TAIL)),
    }


def _usable(
    pattern: Float[np.ndarray, "n k k"], residual: Float[np.ndarray, "n k"]
) -> Bool[np.ndarray, "n k"]:
    return np.isfinite(residual) & (pattern.min(axis=-1) > _SMALLEST_WEIGHT)
