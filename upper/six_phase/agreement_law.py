"""How often all heads have nearly the same pattern: with probability of order tolerance^((m-1)(k-1))."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, Inputs
from attention.inputs import Rng
from attention.validation import PositiveFloat, PositiveInt, checked, random_generator
from upper.six_phase.common import batch_size

__all__ = ["AgreementLaw", "disagreement", "measure_agreement"]


@dataclass(frozen=True, eq=False)
class AgreementLaw:
    """Counts of agreement events: the number of `rows` on which the heads agree up to each of the `tolerances`.

    The tolerances are in logits, ascending; `exponent` is (m - 1)(k - 1), the limit of the slope.
    """

    tolerances: Float[np.ndarray, " t"]
    counts: Int[np.ndarray, " t"]
    rows: int
    exponent: int

    @property
    def probabilities(self) -> Float[np.ndarray, " t"]:
        """The share of rows on which the heads agree."""
        return self.counts / self.rows

    @property
    def slope(self) -> float:
        """Slope of the logarithm of the count over that of the tolerance, each tolerance weighted by its count.

        A ValueError if fewer than two tolerances have an agreeing row.
        """
        seen = self.counts > 0
        if np.count_nonzero(seen) < 2:
            raise ValueError(
                f"{np.count_nonzero(seen)} of {len(seen)} tolerances have an agreeing row: look at more rows, or allow "
                "larger tolerances."
            )
        x, y = np.log(self.tolerances[seen]), np.log(self.counts[seen])
        return float(np.polyfit(x, y, 1, w=np.sqrt(self.counts[seen]))[0])


def disagreement(layer: AttentionLayer, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
    """How far the heads are from a common pattern in each row, in logits.

    It is the largest difference of x_a Theta (x_b - x_c) between two heads, over all pairs of tokens b, c. It is
    measured in logits, since saturated rows have nearly equal patterns for very different logits.
    O(n k m d (d + k) + n k^2 m^2).
    """
    logits = np.moveaxis(layer.logits(x), -3, -2)  # n, k, m, k
    worst = np.zeros(logits.shape[:2])
    for i in range(layer.heads - 1):
        gaps = logits[:, :, i + 1 :] - logits[:, :, i : i + 1]
        worst = np.maximum(worst, np.max(gaps.max(axis=-1) - gaps.min(axis=-1), axis=-1))
    return worst


@checked
def measure_agreement(
    layer: AttentionLayer,
    inputs: Inputs,
    *,
    rows: PositiveInt = 2_000_000,
    tolerances: Sequence[PositiveFloat] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
    rng: Rng = None,
) -> AgreementLaw:
    """Count the rows on which all heads agree up to each tolerance.

    Parameters
    ----------
    layer : AttentionLayer
        The heads, at least two.
    inputs : Inputs
        The distribution of the tokens, at least two.
    rows : int
        The number of rows to draw, k per example.
    tolerances : sequence of float
        In logits; small relative to the spread of the differences of logits.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Notes
    -----
    For Gaussian tokens and d far above m and k, the (m - 1)(k - 1) differences of logits have a bounded density at
    zero. So the probability is at most of order tolerance^((m-1)(k-1)). For Boolean tokens this order is measured, not
    proved. O(rows m d (d + k)). Source: Chen and Li, arXiv 2402.04084, phase 2; the measurement is derived here.
    """
    if not tolerances:
        raise ValueError("tolerances is empty: at least one number is needed.")
    m, k = layer.heads, inputs.tokens
    if m < 2 or k < 2:
        raise ValueError(f"There are {m} heads and {k} tokens: with one of either every row agrees.")
    edges, rng = np.array(sorted(tolerances)), random_generator(rng)
    left = -(-rows // k)
    counts, seen = np.zeros(len(edges), dtype=np.int64), 0
    while left > 0:
        n = min(left, batch_size(k, inputs.dim))
        worst = disagreement(layer, inputs.sample(n, rng=rng)).ravel()
        counts += np.searchsorted(np.sort(worst), edges, side="right")
        seen += worst.size
        left -= n
    return AgreementLaw(tolerances=edges, counts=counts, rows=seen, exponent=(m - 1) * (k - 1))
