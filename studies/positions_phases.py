"""Phase 1 and the later phases on tokens with fixed positions added: biases and their correction."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    PositionedInputs,
    draw_examples,
    relative_error,
    sinusoidal_positions,
)
from upper import Newton
from upper.floor import counting_floor
from upper.newton.span import fit_in_span
from upper.six_phase import (
    PhaseFailedError,
    attention_span,
    refine_by_consistency,
    sculpt_affine_hull,
)

__all__ = [
    "gram_condition",
    "later_phases",
    "phase_one_errors",
    "positions_of",
    "predicted_biases",
    "projection_sums",
]

_FRESH = 2000  # examples for measuring errors
_ROUND = 20_000  # examples per round of refining the sum
_ACCEPT = 0.01


def positions_of(
    kind: str, tokens: int, dim: int, *, scale: float, normal: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, "k d"]:
    """Positions of norm `scale` sqrt(d), `scale` times that of a Boolean token; Gaussian ones are made of `normal`."""
    rows = {
        "sinusoidal": lambda: sinusoidal_positions(tokens, dim),
        "gaussian": lambda: normal,
        "one-hot": lambda: np.eye(tokens, dim),
    }[kind]()
    return rows * (scale * np.sqrt(dim) / np.linalg.norm(rows, axis=1, keepdims=True))


def projection_sums(
    x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"], positions: Float[np.ndarray, "k d"]
) -> dict[str, np.ndarray]:
    """The mean of (1/k) X^T J Y: plain, with known positions subtracted from X, and with X and Y centred by position.

    Notes
    -----
    Derived here. With x_b = u_b + pi_b, pi the positions, pi' their mean, C the mean of (pi_b - pi')^T (pi_b - pi') and
    S = sum_i W_i: without attention the first has the mean S + k pi'^T pi' S. The second has the mean S, and to first
    order in Theta a further bias, sum_i Theta_i C W_i, because x_a Theta pi_b moves the weight towards pi_b; see
    `predicted_biases` beyond first order. The third has the same limit, for the covariance of u and Y does not see the
    mean of Y, and less noise.
    """
    n, k, _ = x.shape

    def moment(tokens: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.asarray(tokens.sum(axis=1).T @ labels.sum(axis=1) / (n * k))

    return {
        "as it is": moment(x, y),
        "known positions": moment(x - positions, y),
        "centred": moment(x - x.mean(axis=0), y - y.mean(axis=0)),
    }


def phase_one_errors(sums: Mapping[str, np.ndarray], layer: AttentionLayer) -> dict[str, float]:
    """|estimate - S| / |S| for each."""
    total = layer.w.sum(axis=0)
    return {name: float(np.linalg.norm(w - total) / np.linalg.norm(total)) for name, w in sums.items()}


def predicted_biases(
    layer: AttentionLayer, positions: Float[np.ndarray, "k d"], x: Float[np.ndarray, "n k d"]
) -> tuple[float, float]:
    """The effect of positions on the error of phase 1 before and after the correction.

    Notes
    -----
    The two are |k pi'^T pi' S| / |S| and |sum_i Theta_i Pi^T D_i Pi W_i| / |S|, with Pi the positions and D_i the mean
    of diag(p) - p^T p over rows p of the patterns on x. The second follows from Stein's identity,
    E[u_a^T p_ab] = E[dp_ab/du_a], which is exact for Gaussian tokens; the tokens' own part is left out. For small
    Theta, D_i is (1/k) (1 - J/k), which gives C.
    """
    total, mean = layer.w.sum(axis=0), positions.mean(axis=0)
    size = np.linalg.norm(total)
    raw = len(positions) * np.outer(mean, mean @ total)
    p = layer.patterns(x).transpose(1, 0, 2, 3).reshape(layer.heads, -1, len(positions))
    spread = np.stack([np.diag(one.mean(axis=0)) - one.T @ one / len(one) for one in p])
    moved = positions.T @ spread @ positions
    repaired = np.einsum("mij,mjk,mkl->il", layer.theta, moved, layer.w)
    return float(np.linalg.norm(raw) / size), float(np.linalg.norm(repaired) / size)


def gram_condition(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> float:
    """The condition number of Newton's Gram matrix of the reads [P_1 X .. P_m X] at the target."""
    reads = (
        np.matmul(layer.patterns(x), x[:, None]).transpose(0, 2, 1, 3).reshape(-1, layer.heads * layer.dim)
    )
    return float(np.linalg.cond(reads.T @ reads))


def later_phases(
    layer: AttentionLayer,
    inputs: BooleanInputs | PositionedInputs,
    crude: Float[np.ndarray, "d d"],
    *,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Phases 3 to 6 in practical mode from a sum of phase 1: the errors, None from the phase that failed on.

    Returns
    -------
    dict
        ``refined``, the error of the sum; ``span``, the worst head's distance from the span; ``final``, the relative
        error after the fit in the span and Newton from there; ``failed``, the phase that failed or None.
    """
    m, total = layer.heads, layer.w.sum(axis=0)
    oracle = ExampleOracle(layer, inputs, rng=rng)
    found: dict[str, Any] = {"refined": None, "span": None, "final": None, "failed": None}
    try:
        found["failed"] = 3
        refined = refine_by_consistency(oracle, crude, examples=_ROUND).w
        found["refined"] = float(np.linalg.norm(refined - total) / np.linalg.norm(total))
        found["failed"] = 4
        hull = sculpt_affine_hull(oracle, refined, wide=m - 1, accept=_ACCEPT)
        span = attention_span(hull.body)
        found["span"] = span.errors(layer)["span_error"]
    except PhaseFailedError:
        return found
    found["failed"] = None
    floor = counting_floor(heads=m, tokens=inputs.tokens, dim=inputs.dim)
    x, y = draw_examples(oracle, 4 * floor)
    start, _ = fit_in_span(x, y, span.scaled_basis, rng=rng)
    begin = AttentionLayer(theta=start.theta, w=start.w)
    fit = Newton(heads=m, start=begin, starts=1, engine="numpy", work=3000).fit(
        ExampleOracle.from_arrays(x, y), rng=rng
    )
    fresh = inputs.sample(_FRESH, rng=rng)
    found["final"] = relative_error(np.asarray(fit.predict(fresh)), layer(fresh))
    return found
