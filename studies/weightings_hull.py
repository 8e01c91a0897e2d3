"""Agreement and the hull of the heads for layers of any weighting: certified rows, their equations, the span."""

import numpy as np
from jaxtyping import Bool, Float

from attention import BooleanInputs
from studies.weightings_layers import NormalisedPower, Softmax, WeightedLayer, Weighting
from upper.six_phase.agreement import Contrasts, certify_agreement
from upper.six_phase.moments import EquationMoments

__all__ = [
    "agreement_counts",
    "best_equations",
    "equations_of",
    "is_homogeneous",
    "one_hot_sum",
    "phase_one_bias",
    "span_basis",
    "span_error",
    "usable_rows",
]

_SMALLEST = 0.05  # smaller entries of a pattern determine their logits too poorly
_OUTSIDE = -0.05  # an estimate this far from the simplex is not a pattern
_ROWS = 40_000  # at a time
_SHARES = (0.05, 0.05, 0.02, 0.02, 0.02)  # share of rows in the regression of each round of phase 3


def is_homogeneous(weighting: Weighting) -> bool:
    """Whether the pattern does not depend on the scale of the logits, so that the equations are homogeneous."""
    return isinstance(weighting, NormalisedPower) and weighting.shift == 0


def phase_one_bias(
    layer: WeightedLayer, inputs: BooleanInputs, *, examples: int, rng: np.random.Generator
) -> float:
    """|E (1/k) X^T J Y - S| / |S| with S = sum_i W_i, without the noise of the mean.

    Notes
    -----
    (1/k) X^T J times the mean token, repeated, times S has the mean S, so only the rest is averaged. The squared norm
    of the rest's mean is the scalar product of the means over two halves of the examples, whose noises are independent.
    """
    total = layer.w.sum(axis=0)
    halves = []
    for _ in range(2):
        moment, left = np.zeros((layer.dim, layer.dim)), examples // 2
        while left > 0:
            x = inputs.sample(min(left, _ROWS), rng=rng)
            tokens = x.sum(axis=1)
            moment += tokens.T @ (layer(x).sum(axis=1) / inputs.tokens - tokens @ total / inputs.tokens)
            left -= len(x)
        halves.append(moment / (examples // 2))
    squared = max(float(np.vdot(*halves)), 0.0)
    return float(np.sqrt(squared) / np.linalg.norm(total))


def agreement_counts(
    layer: WeightedLayer, x: Float[np.ndarray, "n k d"], tolerances: Float[np.ndarray, " t"]
) -> dict[str, np.ndarray]:
    """The number of rows that agree exactly, and the numbers of useful rows and equations up to each tolerance.

    Notes
    -----
    Exact: all heads have the same pattern up to rounding. Rows on which heads without a positive weight are uniform by
    convention are counted separately, because they carry no information. Useful: all heads share a support of two or
    more tokens, no weight on it is below .05, and no weight differs by more than the tolerance. A row with s tokens in
    its support gives s - 1 equations.
    """
    p = layer.patterns(x)  # n, m, k, k
    gap = (p.max(axis=1) - p.min(axis=1)).max(axis=-1)
    support = p > 0
    same = (support == support[:, :1]).all(axis=(1, 3))
    large = np.where(support, p, 1.0).min(axis=(1, 3)) >= _SMALLEST
    many = support[:, 0].sum(axis=-1) > 1
    known = np.ones_like(many)
    if isinstance(layer.weighting, NormalisedPower):
        # no positive weight: uniform by convention, which says nothing about the logits' ratios
        weight = layer.logits(x) + layer.weighting.shift
        weight = np.abs(weight) if layer.weighting.magnitude else weight
        known = (weight.max(axis=-1) > 0).all(axis=1)
    useful = same & large & many & known
    exact = gap < 1e-12
    gives = support[:, 0].sum(axis=-1)[useful] - 1
    return {
        "exact": np.array(int((exact & known).sum())),
        "uniform": np.array(int((exact & ~known).sum())),
        "useful": np.searchsorted(np.sort(gap[useful]), tolerances, side="right"),
        "equations": np.array([int(gives[gap[useful] <= tolerance].sum()) for tolerance in tolerances]),
        "rows": np.array(gap.size),
    }


def usable_rows(pattern: Float[np.ndarray, "n k k"], weighting: Weighting) -> Bool[np.ndarray, "n k"]:
    """Rows of estimated patterns that put an equation on the logits: two weights or more of at least .05."""
    usable = ((pattern >= _SMALLEST).sum(axis=-1) > 1) & (pattern.min(axis=-1) > _OUTSIDE)
    if isinstance(weighting, NormalisedPower):
        # a uniform pattern may be the convention where no weight is positive
        usable &= np.abs(pattern - 1 / pattern.shape[-1]).max(axis=-1) > _SMALLEST
    return usable


def equations_of(
    x: Float[np.ndarray, "n k d"],
    pattern: Float[np.ndarray, "n k k"],
    chosen: Bool[np.ndarray, "n k"],
    weighting: Weighting,
) -> Contrasts:
    """The equations left z_b - right z_c = value of the chosen rows, c the token of largest weight.

    For tokens with a weight below .05, and for c itself, the equation is 0 = 0.
    """
    example, row = np.nonzero(chosen)
    p, tokens = pattern[example, row], x[example]
    top = p.argmax(axis=-1)
    here = p >= _SMALLEST
    here[np.arange(len(p)), top] = False
    first = np.where(here, p, 0.5)  # elsewhere any number: it cancels
    second = np.broadcast_to(p[np.arange(len(p)), top][:, None], p.shape)
    left, right, value = weighting.equation(first, second)
    base = tokens[np.arange(len(p)), top]
    differences = left[:, :, None] * tokens - right[:, :, None] * base[:, None]
    noise = np.where(here, _noise(first, second, weighting), 0.0).sum(axis=1) / here.sum(axis=1)
    return Contrasts(
        rows=x[example, row],
        differences=np.where(here[:, :, None], differences, 0.0),
        log_ratios=np.where(here, value, 0.0),
        weights=1 / noise,
    )


def _noise(first: np.ndarray, second: np.ndarray, weighting: Weighting) -> np.ndarray:
    """The effect of equal errors in both weights on the equation's two sides, squared, up to a factor."""
    if isinstance(weighting, Softmax):
        return 1 / first**2 + 1 / second**2
    if isinstance(weighting, NormalisedPower):
        power = 1 / weighting.power
        return (first ** (power - 1) * second**power) ** 2 + (second ** (power - 1) * first**power) ** 2
    return np.full(first.shape, 2.0)


def one_hot_sum(
    layer: WeightedLayer,
    inputs: BooleanInputs,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    examples: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "d d"]:
    """Phase 3 on rows that look one-hot: regress Y_a on the token x_b for which x_b W^ is nearest.

    Notes
    -----
    Where all heads attend to x_b alone, Y_a = x_b (sum W) exactly. If one-hot patterns have positive probability, the
    sum is exact to rounding once all rows of smallest residual are of that kind.
    """
    estimate = projection_sum
    for share in _SHARES:
        read, labels, residuals = [], [], []
        left = examples
        while left > 0:
            x = inputs.sample(min(left, _ROWS), rng=rng)
            left -= len(x)
            y = layer(x)
            # |Y_a - x_b W^| for all a and b of an example
            miss = np.linalg.norm(y[:, :, None] - (x @ estimate)[:, None], axis=-1)
            nearest = miss.argmin(axis=-1)
            residuals.append((miss.min(axis=-1) / np.linalg.norm(y, axis=-1)).ravel())
            read.append(np.take_along_axis(x, nearest[:, :, None], axis=1).reshape(-1, inputs.dim))
            labels.append(y.reshape(-1, inputs.dim))
        relative = np.concatenate(residuals)
        best = np.argsort(relative, kind="stable")[: int(share * relative.size)]
        estimate = np.linalg.lstsq(np.concatenate(read)[best], np.concatenate(labels)[best], rcond=None)[0]
    return estimate


def best_equations(
    layer: WeightedLayer,
    inputs: BooleanInputs,
    projection_sum: Float[np.ndarray, "d d"],
    *,
    accept: float,
    rows: int,
    rng: np.random.Generator,
) -> Contrasts:
    """The equations of the usable rows of smallest residual; their number is a share `accept` of the rows."""
    most, seen, residuals = int(accept * rows), 0, np.zeros(0)
    kept: list[Contrasts] = []
    while seen < rows:
        x = inputs.sample(min(_ROWS, -(-(rows - seen) // inputs.tokens)), rng=rng)
        found = certify_agreement(x, layer(x), projection_sum)
        allowed = usable_rows(found.pattern, layer.weighting) & np.isfinite(found.residual)
        seen += allowed.size
        if residuals.size == most:
            allowed &= found.residual < residuals[-1]
        kept.append(equations_of(x, found.pattern, allowed, layer.weighting))
        residuals = np.concatenate([residuals, found.residual[allowed]])
        best = np.argsort(residuals, kind="stable")[:most]
        residuals, kept = residuals[best], [Contrasts.joined(kept).chosen(best)]
    if not residuals.size:
        raise ValueError(f"No row of {seen} puts an equation on the logits: allow more rows.")
    return kept[0]


def span_basis(contrasts: Contrasts, heads: int, *, homogeneous: bool) -> Float[np.ndarray, "m d2"]:
    """The span of the heads, orthonormal: bottom eigenvectors of the moment matrix, and the least-squares solution.

    Homogeneous equations hold on the whole span, which has m bottom eigenvectors. Other equations hold on the affine
    hull, which has m - 1 of them and a centre. O(N d^4 + d^6).
    """
    moments = EquationMoments(contrasts)
    values, vectors = np.linalg.eigh(moments.matrix())
    if homogeneous:
        return vectors[:, :heads].T
    flat, steep = vectors[:, : heads - 1], vectors[:, heads - 1 :]
    centre = steep @ ((steep.T @ moments.right) / np.maximum(values[heads - 1 :], 1e-12 * values[-1]))
    return np.concatenate([flat.T, centre[None] / (float(np.linalg.norm(centre)) or 1.0)])


def span_error(basis: Float[np.ndarray, "m d2"], theta: Float[np.ndarray, "m d d"]) -> float:
    """The worst head's |Theta_i - its projection on the span| / |Theta_i|."""
    heads = theta.reshape(len(theta), -1)
    rest = heads - (heads @ basis.T) @ basis
    return float(np.max(np.linalg.norm(rest, axis=1) / np.linalg.norm(heads, axis=1)))
