"""What certificates of agreement are worth: rows that agree by construction beside rows that do not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import betaincinv

from attention import AttentionLayer
from attention._kernels import softmax
from upper.six_phase import certify_agreement, contrasts_of, disagreement
from upper.six_phase.phase2_affine_hull import LARGEST_RESIDUAL

__all__ = ["PASSING", "Rows", "draw_rows", "judge_certificates", "residual_law"]

PASSING = 0.9
"""The share of planted agreements that a threshold is chosen to let through."""

_ACCEPT = 0.01  # of all rows: the practical learner's share
_SMALLEST_WEIGHT = 0.05  # the learner uses no pattern with a smaller entry
_TAIL = 0.05


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples as they are drawn, and the same tokens with heads made to agree nearly.

    Attributes
    ----------
    layer : AttentionLayer
        The target, of two heads.
    x, y : array (n, k, d)
        Examples.
    planted : array (n, k, d)
        Labels where in every row the second head attends as the first does, up to `planted_gap` logits.
    gaps : array (n, k)
        How far the heads of the target disagree, in logits.
    planted_gap : float
        How far they disagree in the planted labels, in every row.
    """

    layer: AttentionLayer
    x: Float[np.ndarray, "n k d"]
    y: Float[np.ndarray, "n k d"]
    planted: Float[np.ndarray, "n k d"]
    gaps: Float[np.ndarray, "n k"]
    planted_gap: float


def draw_rows(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], *, planted_gap: float, rng: np.random.Generator
) -> Rows:
    """Label tokens, once as the layer does and once with agreement planted; O(n k m d (d + k)).

    Raises
    ------
    ValueError
        If the layer has not two heads.
    """
    if layer.heads != 2:
        raise ValueError(f"The layer has {layer.heads} heads: two are needed to plant agreement.")
    logits = layer.logits(x)[:, 0]
    noise = rng.standard_normal(logits.shape)
    noise *= planted_gap / (noise.max(axis=-1, keepdims=True) - noise.min(axis=-1, keepdims=True))
    patterns = softmax(logits, np), softmax(logits + noise, np)
    planted = sum(np.matmul(p, x) @ w for p, w in zip(patterns, layer.w, strict=True))
    return Rows(layer, x, layer(x), np.asarray(planted), disagreement(layer, x), planted_gap)


def judge_certificates(
    rows: Rows, projection_sum: Float[np.ndarray, "d d"], *, allowed: float
) -> Mapping[str, Any]:
    """False and true certificates with an estimate of the sum, at the learner's threshold and at one that is fair.

    Parameters
    ----------
    rows : Rows
        Examples.
    projection_sum : array (d, d)
        The estimate of the sum of the projections.
    allowed : float
        A certified row is false if its heads disagree by more logits than that.

    Returns
    -------
    mapping
        ``agreeing``, the share of rows whose heads disagree by no more than is allowed, and ``agreeing_usable``, of
        those that are usable too; ``usable``, the share of rows with every entry of the pattern above .05. At the
        learner's own threshold (the usable rows of least residual, a hundredth of all): ``threshold``, ``accepted``
        rows, the share of them that is false (``accepted_false``), the root mean square error in logits of the
        log-ratios they give (``log_ratio_error``), and the share of planted agreements that it certifies
        (``true_rate``). At the threshold
        that lets nine of ten planted agreements through, ``fair_threshold``: the share of all disagreeing rows that
        pass too, ``false_rate``. ``below_largest``: the share of them below the residual above which the learner gives
        up. None where nothing was accepted.
    """
    found = certify_agreement(rows.x, rows.y, projection_sum)
    planted = certify_agreement(rows.x, rows.planted, projection_sum)
    usable = _usable(found.pattern, found.residual)
    order = np.sort(found.residual[usable])
    wanted = min(math.ceil(_ACCEPT * found.residual.size), len(order))
    threshold = float(order[wanted - 1]) if wanted else None
    accepted = usable & (found.residual <= threshold) if threshold is not None else np.zeros_like(usable)
    fine = np.isfinite(planted.residual)
    fair = float(np.quantile(planted.residual[fine], PASSING))
    disagreeing = found.residual[(rows.gaps > allowed) & np.isfinite(found.residual)]
    own: dict[str, Any] = {"accepted_false": None, "log_ratio_error": None, "true_rate": 0.0}
    if threshold is not None:
        passed = _usable(planted.pattern, planted.residual) & (planted.residual <= threshold)
        own = {
            "accepted_false": float(np.mean(rows.gaps[accepted] > allowed)),
            "log_ratio_error": contrasts_of(rows.x, found.pattern, accepted).error(rows.layer),
            "true_rate": float(np.mean(passed[fine])),
        }
    return {
        "agreeing": float(np.mean(rows.gaps <= allowed)),
        "agreeing_usable": float(np.mean(usable & (rows.gaps <= allowed))),
        "usable": float(np.mean(usable)),
        "threshold": threshold,
        "accepted": int(accepted.sum()),
        **own,
        "fair_threshold": fair,
        "false_rate": float(np.mean(disagreeing <= fair)) if disagreeing.size else None,
        "below_largest": float(np.mean(disagreeing <= LARGEST_RESIDUAL)) if disagreeing.size else None,
    }


def residual_law(rows: Rows) -> Mapping[str, float]:
    """The part of a row that disagreement makes, and how much of it the regression leaves, beside the prediction.

    Notes
    -----
    With two heads, p and q their patterns, W = W_1 + W_2 and V = (W_1 - W_2) / 2, a row is Y_a = (p + q)/2 X W +
    (p - q) X V. The first part is an affine combination of the rows of X W. For Gaussian projections V is independent
    of W, so given X the vector (p - q) X V has a uniformly random direction beside the (k-1)-dimensional space of their
    differences, and of its squared length a share is left that has the law Beta((d-k+1)/2, (k-1)/2), of mean
    1 - (k-1)/d: the residual shrinks like sqrt(1 - (k-1)/d). Derived here; the residual is that of the exact sum.
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
