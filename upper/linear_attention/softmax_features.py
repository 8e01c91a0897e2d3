"""Cubic features against softmax attention: what of it linear attention can imitate, and what needs no attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import count, namespace, non_negative, random_generator, require_flag, shown
from attention.inputs import BooleanInputs, Rng
from upper.linear_attention.features import (
    blocks,
    cubic_features,
    feature_count,
    floating,
    require_no_overflow,
)
from upper.linear_attention.moments import FeatureMoments, require_memory
from upper.linear_attention.regression import regress_moments

__all__ = [
    "SOFTMAX_KINDS",
    "SoftmaxKind",
    "SoftmaxRow",
    "require_kind",
    "softmax_feature_count",
    "softmax_features",
    "softmax_rows",
]

SoftmaxKind = Literal["plain", "aug", "cent", "tokens"]
SOFTMAX_KINDS: tuple[str, ...] = get_args(SoftmaxKind)
"""The sets of features, from the paper's to the baseline without attention."""

_ALL_SIGNS = 17  # so many signs are enumerated, more are sampled


@dataclass(frozen=True)
class SoftmaxRow:
    """What a set of features misses of a single softmax head.

    Attributes
    ----------
    d, k : int
        Dimension and number of the tokens.
    theta_norm : float
        |Theta|_F, the standard deviation of a logit on Boolean tokens.
    kind : str
        The set of features.
    missed : float
        1 - R^2, the mean over the draws of (Theta, W).
    low, high : float
        Ends of a 95 % t-interval of that mean.
    draws : int
        So many pairs (Theta, W).
    exact : bool
        Whether every input was enumerated, so that nothing but the draws of (Theta, W) is random.
    """

    d: int
    k: int
    theta_norm: float
    kind: str
    missed: float
    low: float
    high: float
    draws: int
    exact: bool

    @property
    def r_squared(self) -> float:
        """R^2, the mean over the draws."""
        return 1 - self.missed


def require_kind(kind: str) -> None:
    """Refuse what names no set of features.

    Raises
    ------
    ValueError
        If `kind` is not one of `SOFTMAX_KINDS`.
    """
    if not isinstance(kind, str) or kind not in SOFTMAX_KINDS:
        raise ValueError(f"The features are {kind!r}: {', '.join(SOFTMAX_KINDS[:-1])} or tokens is needed.")


def softmax_feature_count(kind: SoftmaxKind, d: int) -> int:
    """The number of features of a set, for tokens in d dimensions.

    Parameters
    ----------
    kind : {"plain", "aug", "cent", "tokens"}
        The set.
    d : int
        Dimension of the tokens.

    Returns
    -------
    int
        d^2 (d + 1)/2 cubic ones unless the set is "tokens", and d for each of the query and the row mean it has.

    Raises
    ------
    ValueError
        If the set is not known or `d` is below 1.

    Notes
    -----
    O(1). References: derived here.

    Examples
    --------
    >>> [softmax_feature_count(kind, 8) for kind in ("plain", "aug", "cent", "tokens")]
    [288, 296, 304, 16]
    """
    require_kind(kind)
    cubic = 0 if kind == "tokens" else feature_count(d)
    return cubic + {"plain": 0, "aug": 1, "cent": 2, "tokens": 2}[kind] * count("d", d)


def softmax_features(
    x: Shaped[Any, "*batch k d"], kind: SoftmaxKind, *, every_row: bool = True
) -> Shaped[Any, "*rows features"]:
    """Features of token matrices for softmax targets, of every row as the query or of the last one.

    Parameters
    ----------
    x : array (..., k, d)
        Token matrices.
    kind : {"plain", "aug", "cent", "tokens"}
        "plain": the cubic features of G = X^T X and the query x_q. "aug": those and the row mean. "cent": the cubic
        features of the Gram matrix of the tokens less their mean, with x_q, and x_q and the row mean themselves.
        "tokens": x_q and the row mean alone, no attention at all.
    every_row : bool
        Whether every row is a query in turn; otherwise the last one is.

    Returns
    -------
    array (..., k, F), or (..., F) for the last row
        In the array type of `x`, whole numbers as their floats; F = `softmax_feature_count`, the cubic ones come first,
        then x_q, then the mean.

    Raises
    ------
    ValueError
        If the set is not known, `x` has fewer than two axes, or products overflow.

    Notes
    -----
    Softmax attention to first order in Theta is the row mean plus x_q^T Theta times the centred Gram matrix over k, so
    that "cent" errs in second order only, "aug" by the part of first order that is the mean's own product, and
    "plain" by the mean itself. O(k d^2 + q d^3) for q queries.

    References
    ----------
    Derived here. "plain" is the paper's, the others are not.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [1.0, 2.0]])
    >>> softmax_features(x, "tokens")
    array([[1., 0., 1., 1.],
           [1., 2., 1., 1.]])
    >>> softmax_features(x, "plain").shape, softmax_features(x, "cent", every_row=False).shape
    ((2, 6), (10,))
    """
    require_kind(kind)
    require_flag("every_row", every_row)
    xp = namespace(x)
    if x.ndim < 2 or 0 in x.shape[-2:]:
        raise ValueError(f"The tokens have shape {tuple(x.shape)}: (..., k, d) is needed, a token a row.")
    x = floating(x)
    queries = x if every_row else x[..., -1:, :]
    with np.errstate(over="ignore", invalid="ignore"):  # refused in the next line
        mean = xp.mean(x, axis=-2, keepdims=True)
        centred = x - mean
    require_no_overflow(centred, xp)
    parts = []
    if kind != "tokens":
        parts.append(cubic_features(centred if kind == "cent" else x, queries=queries))
    if kind in ("cent", "tokens"):
        parts.append(queries)
    if kind != "plain":
        parts.append(xp.broadcast_to(mean, queries.shape))
    features = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)
    return features if every_row else features[..., 0, :]


def softmax_rows(
    *,
    d: int = 8,
    k: int = 4,
    theta_norms: Sequence[float] = (0.1, 1.0, 10.0),
    kinds: Sequence[SoftmaxKind] = ("plain", "aug", "cent", "tokens"),
    draws: int = 20,
    samples: int = 20_000,
    rng: Rng = None,
) -> list[SoftmaxRow]:
    """1 - R^2 of regressions on a softmax head, query the last row of X uniform in {-1, 1}^(k x d).

    Parameters
    ----------
    d, k : int
        Dimension and number of the tokens.
    theta_norms : sequence of float
        Frobenius norms to which Theta, Gaussian, is scaled.
    kinds : sequence of str
        Sets of features.
    draws : int
        Pairs (Theta, W) for each norm, at least two; W is Gaussian.
    samples : int
        Inputs to regress on, and as many fresh ones to test on, the same for every draw. Where k d <= 17 all inputs
        are enumerated instead: then it is the population's 1 - R^2.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    list of SoftmaxRow
        One a norm and set, the sets of a norm together.

    Raises
    ------
    ValueError
        If a number is out of range, a set is not known, or there are fewer samples than features.

    Notes
    -----
    The target is f(X) = softmax(x_q^T Theta X^T) X W. It is odd in X, so its mean is 0 and R^2 is
    1 - E|f - f^|^2 / E|f|^2, over all outputs together. The draws share the design matrix: O(N F^2 + F^3) a set of F
    features, and O(N k d) a draw. Least norm, as features depend on one another on Boolean tokens. On N samples the
    figures lie above the population's by a factor of about N/(N - rank) (measured).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> rows = softmax_rows(d=4, k=2, theta_norms=(0.1,), kinds=("cent", "tokens"), draws=5, rng=0)
    >>> rows[0].missed < 1e-3 * rows[1].missed  # the tokens alone have none of the first order
    True
    """
    d, k, draws, samples = (
        count("d", d),
        count("k", k),
        count("draws", draws, least=2),
        count("samples", samples),
    )
    for name, several in (("theta_norms", theta_norms), ("kinds", kinds)):
        if isinstance(several, str) or np.ndim(several) != 1:
            raise ValueError(f"{name} is {shown(several)}: a sequence is needed.")
    norms = [non_negative("A norm of Theta, one of theta_norms,", norm) for norm in theta_norms]
    if not norms or not kinds:
        raise ValueError(
            "theta_norms or kinds is empty: one norm and one set of features at least are needed."
        )
    for kind in kinds:
        require_memory(softmax_feature_count(kind, d))
    exact = k * d <= _ALL_SIGNS
    most = max(softmax_feature_count(kind, d) for kind in kinds)
    if not exact and samples < most:
        raise ValueError(f"There are {samples} samples for {most} features: at least {most} are needed.")
    generator = random_generator(rng)
    inputs = BooleanInputs(k, d)
    x = _half_of_all_signs(k, d) if exact else inputs.sample(samples, rng=generator)
    fresh = x if exact else inputs.sample(samples, rng=generator)
    theta = generator.standard_normal((len(norms), draws, d, d))
    theta *= np.asarray(norms)[:, None, None, None] / np.linalg.norm(theta, axis=(2, 3), keepdims=True)
    w = generator.standard_normal((len(norms), draws, d, d)) / np.sqrt(d)
    heads = (theta.reshape(-1, d, d), w.reshape(-1, d, d))
    y = _last_row(x, *heads)
    y_fresh = y if exact else _last_row(fresh, *heads)
    missed = {kind: _missed(kind, x, y, fresh, y_fresh).reshape(len(norms), draws) for kind in kinds}
    return [
        SoftmaxRow(d, k, norm, kind, *_mean_with_interval(missed[kind][i]), draws=draws, exact=exact)
        for i, norm in enumerate(norms)
        for kind in kinds
    ]


def _half_of_all_signs(k: int, d: int) -> Float[np.ndarray, "N k d"]:
    """One of X and -X for all 2^(k d) matrices of signs: targets and features are odd, so the other says the same."""
    bits = np.arange(1 << k * d - 1)[:, None] >> np.arange(k * d) & 1
    return (2.0 * bits - 1).reshape(-1, k, d)


def _last_row(
    x: Float[np.ndarray, "N k d"], theta: Float[np.ndarray, "r d d"], w: Float[np.ndarray, "r d d"]
) -> Float[np.ndarray, "N rd"]:
    """The heads' outputs at the last row, one after the other."""
    outputs = np.empty((len(x), theta.shape[0], x.shape[-1]))
    for head in range(len(theta)):
        logits = np.einsum("nd,nkd->nk", x[:, -1] @ theta[head], x)
        pattern = np.exp(logits - logits.max(axis=1, keepdims=True))
        pattern /= pattern.sum(axis=1, keepdims=True)
        outputs[:, head] = np.matmul(pattern[:, None, :], x)[:, 0] @ w[head]
    return outputs.reshape(len(x), -1)


def _missed(
    kind: SoftmaxKind,
    x: Float[np.ndarray, "N k d"],
    y: Float[np.ndarray, "N rd"],
    fresh: Float[np.ndarray, "M k d"],
    y_fresh: Float[np.ndarray, "M rd"],
) -> Float[np.ndarray, " r"]:
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


def _mean_with_interval(values: Float[np.ndarray, " r"]) -> tuple[float, float, float]:
    from scipy import stats  # slow to import, and seldom needed

    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - half, mean + half
