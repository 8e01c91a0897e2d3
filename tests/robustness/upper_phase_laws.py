"""What is right of the six phases: what each finds, computed as it is written."""

import numpy as np
from fuzzing import assert_finite
from upper_makers import (
    agrees,
    is_orthonormal,
    numbers,
)

from attention import AttentionLayer

__all__ = [
    "body_is_right",
    "contrasts_are_right",
    "counts_rise",
    "hull_is_right",
    "logits_differ",
    "margins_are_large",
    "net_is_searched",
    "patterns_explain",
    "refined_is_whole",
    "repeated_are_told",
    "span_is_right",
    "step_is_the_mean",
    "sum_is_estimated",
]


# ------------------------------------------------------------------------------------------- what is right


def sum_is_estimated(result, arguments):
    assert_finite(result)
    d = arguments["oracle"].d
    assert result.w.shape == (d, d)
    assert result.examples == int(arguments["n"])
    assert result.measures["standard_error"] >= 0


def step_is_the_mean(result, arguments):
    """The mean of (1/k) X^T J Y."""
    x, y = numbers(arguments["x"]), numbers(arguments["y"])
    agrees(
        result, np.einsum("nad,nbe->de", x, y) / (len(x) * x.shape[1]), size=np.abs(x).max() * np.abs(y).max()
    )


def repeats(x):
    """Examples of two tokens with a cosine of 1, or a token of zero, by hand."""
    found = []
    for tokens in numbers(x):
        size = np.sqrt((tokens**2).sum(axis=1))
        unit = tokens / np.where(size > 0, size, 1)[:, None]
        cosines = np.abs(unit @ unit.T)[np.triu_indices(len(tokens), 1)]
        found.append(bool(((size == 0).any() and len(tokens) > 1) or (cosines > 1 - 1e-13).any()))
    return np.array(found, bool)


def patterns_explain(result, arguments):
    """Weights of sum 1 that leave the residual said, and no others that leave less."""
    assert_finite(result.pattern)
    assert not np.isnan(result.residual).any()
    x, y, w = (numbers(arguments[name]) for name in ("x", "y", "projection_sum"))
    projected = x @ w
    used = np.isfinite(result.residual) & np.isfinite(numbers(y).astype(float)).all(axis=-1)
    size = np.sqrt((y**2).sum(axis=-1))
    used &= size > 1e-4900
    p = numbers(result.pattern)
    agrees(p.sum(axis=-1)[used], np.ones(used.sum()), rtol=1e-6, what="the sum of a pattern")
    left = np.sqrt(((y - p @ projected) ** 2).sum(axis=-1)) / np.where(used, size, 1)
    agrees(left[used], result.residual[used], size=1 + left[used].max(initial=0), rtol=1e-6, what="residuals")


def repeated_are_told(result, arguments):
    assert np.array_equal(result, repeats(arguments["x"]))


def contrasts_are_right(result, arguments):
    """Equivalent to x_a Theta (x_b - x_c) = ln(p_b / p_c), the rows in their order."""
    assert_finite(result)
    x, pattern, accepted = (numbers(arguments[name]) for name in ("x", "pattern", "accepted"))
    example, row = np.nonzero(accepted)
    assert len(result) == len(example)
    k = x.shape[1]
    assert result.equations == len(example) * (k - 1)
    agrees(result.rows, x[example, row], what="rows")
    p = pattern[example, row]
    agrees(result.weights, 1 / np.square(1 / p).sum(axis=-1), what="weights")
    logs = np.log(p)
    spread = np.square(logs - logs.mean(axis=-1, keepdims=True)).sum(axis=-1)
    agrees(
        np.square(numbers(result.log_ratios)).sum(axis=-1), spread, size=1 + np.square(logs).max(initial=0)
    )
    centred = x[example] - x[example].mean(axis=1, keepdims=True)
    agrees(
        np.square(numbers(result.differences)).sum(axis=(1, 2)),
        np.square(centred).sum(axis=(1, 2)),
        size=np.square(x).max(initial=0) * np.ones(1),
    )


def logits_differ(result, arguments):
    """The largest difference over pairs of heads and of tokens."""
    x, theta = numbers(arguments["x"]), numbers(arguments["layer"].theta)
    logits = np.einsum("nad,mde,nbe->mnab", x, theta, x)
    wanted = np.zeros(x.shape[:2], np.longdouble)
    for one in logits:
        for other in logits:
            wanted = np.maximum(wanted, np.ptp(one - other, axis=-1))
    agrees(result, wanted, size=np.abs(logits).max(initial=0) * np.ones(1))


def counts_rise(result, arguments):
    assert (np.diff(result.tolerances) >= 0).all()
    assert (np.diff(result.counts) >= 0).all()
    assert ((result.counts >= 0) & (result.counts <= result.rows)).all()
    np.testing.assert_allclose(result.probabilities, result.counts / result.rows)


def members(body, *points):
    for point in points:
        assert np.linalg.norm(point) <= body.largest_norm * (1 + 1e-5), "a point beyond the radius"
        # a tolerance of rounding is kept up to rounding
        slack = 1e-12 * (1 + body.largest_norm)
        assert body.contains(point) or body.misfit(point) <= body.tolerance + slack, "a point left out"


def body_is_right(result, arguments):
    """It contains its point of least norm and its maximisers, which are no worse than that."""
    assert_finite((result.centre, result.radius, result.tolerance, result.misfit_at_centre))
    least = result.min_norm_point()
    direction = np.arange(9.0).reshape(3, 3) - 4
    best = result.maximise(direction)
    members(result, least, best)
    slack = 1e-6 * np.linalg.norm(direction) * (result.largest_norm + 1)
    assert np.vdot(direction, best) >= np.vdot(direction, least) - slack
    assert np.linalg.norm(least) <= np.linalg.norm(best) * (1 + 1e-6) + 1e-9
    wide = result.wide_directions(1)
    is_orthonormal(wide)


def hull_is_right(result, arguments):
    repr(result)
    assert result.histogram.sum() <= result.rows
    assert 0 <= result.accepted <= result.rows
    assert len(result.contrasts) == result.accepted
    assert result.threshold >= 0
    least = result.body.min_norm_point()
    members(result.body, least)
    is_orthonormal(result.body.wide_directions(1))


def span_is_right(result, arguments):
    """A centre across orthonormal directions, and a basis of them all; its own points have no error."""
    wide = int(arguments["wide"])
    assert result.directions.shape[0] == wide == len(result.reach)
    assert_finite((result.centre, result.directions, result.reach, result.extent))
    assert (result.reach >= 0).all()
    basis = result.basis
    if np.any(result.centre):
        is_orthonormal(basis, "the basis", 1e-6)
    within = result.centre + sum(0.3 * one for one in result.directions)
    own = AttentionLayer(within[None], np.eye(len(within))[None])
    errors = result.errors(own)
    assert errors["span_error"] < 1e-6
    assert errors["hull_error"] < 1e-6


def refined_is_whole(result, arguments):
    assert_finite(result)
    shares = np.atleast_1d(arguments["shares"])
    assert len(result.series["thresholds"]) == len(result.series["changes"]) == len(shares)
    assert (result.series["thresholds"] >= 0).all()
    assert (result.series["changes"] >= 0).all()
    assert result.measures["condition"] >= 1 - 1e-9


def margins_are_large(result, arguments):
    assert_finite((result.w, result.series["margins"]))
    assert (np.diff(result.series["margins"]) <= 0).all()
    assert (result.series["margins"] >= float(arguments["margin"])).all()
    assert len(result.series["margins"]) == result.measures["rows"]
    assert result.measures["condition"] >= 1 - 1e-9


def net_is_searched(result, arguments):
    repr(result)
    assert result.layer.heads == int(arguments["heads"])
    assert_finite((result.layer.theta, result.layer.w))
    assert result.error >= 0
    assert result.candidates <= int(arguments["most"])
    assert result.bound is None or result.bound >= result.error
