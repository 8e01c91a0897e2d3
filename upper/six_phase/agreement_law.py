"""How often heads agree within a tolerance: the probability that the exponent of the learner comes from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, Inputs
from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import count, non_negative, random_generator, real_array, require_instance
from upper.six_phase.common import batch_size

__all__ = ["AgreementLaw", "disagreement", "measure_agreement"]


@dataclass(frozen=True, eq=False)
class AgreementLaw:
    """Counts of agreement events.

    Attributes
    ----------
    tolerances : array (t,)
        In logits, ascending.
    counts : array (t,)
        Rows on which the heads agree up to each.
    rows : int
        Rows looked at.
    exponent : int
        (m - 1)(k - 1): what the slope tends to, and the power in which a smaller tolerance costs examples here.
    """

    tolerances: Float[np.ndarray, " t"]
    counts: Int[np.ndarray, " t"]
    rows: int
    exponent: int

    @property
    def probabilities(self) -> Float[np.ndarray, " t"]:
        """The share of rows that agree."""
        return self.counts / self.rows

    @property
    def slope(self) -> float:
        """Slope of the logarithm of the count over that of the tolerance, each tolerance weighted by its count.

        Raises
        ------
        ValueError
            If fewer than two tolerances have an agreeing row.
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
    """How far the heads are from the same pattern in each row, in logits.

    Parameters
    ----------
    layer : AttentionLayer
        The heads.
    x : array (n, k, d)
        Tokens.

    Returns
    -------
    array (n, k)
        The largest difference, over pairs of heads i, j and of tokens b, c, of x_a Theta (x_b - x_c).

    Notes
    -----
    In logits and not in patterns: saturated rows have nearly equal patterns whatever their logits are.
    O(n k m d (d + k) + n k^2 m^2).
    """
    require_instance("layer", layer, AttentionLayer, needed="an AttentionLayer")
    logits = np.moveaxis(layer.logits(real_array("x", x, ("n", "k", layer.dim))), -3, -2)  # n, k, m, k
    worst = np.zeros(logits.shape[:2])
    for i in range(layer.heads - 1):
        gaps = logits[:, :, i + 1 :] - logits[:, :, i : i + 1]
        worst = np.maximum(worst, np.max(gaps.max(axis=-1) - gaps.min(axis=-1), axis=-1))
    return worst


def measure_agreement(
    layer: AttentionLayer,
    inputs: Inputs,
    *,
    rows: int = 2_000_000,
    tolerances: Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
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
        Rows to look at, k an example.
    tolerances : sequence of float
        In logits; small against the spread of the logits' differences.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    AgreementLaw
        The counts.

    Raises
    ------
    ValueError
        If there is one head or one token: then every row agrees.

    Notes
    -----
    The (m - 1)(k - 1) differences of logits have a bounded density at zero for Gaussian tokens, and by a local limit
    theorem for Boolean ones down to tolerances that shrink with d; so the probability is of order
    tolerance^((m-1)(k-1)). O(rows m d (d + k)).

    References
    ----------
    Chen and Li, arXiv 2402.04084, phase 2; the measurement is derived here.
    """
    require_instance("layer", layer, AttentionLayer, needed="an AttentionLayer")
    require_instance("inputs", inputs, Inputs, needed="an Inputs")
    if isinstance(tolerances, str) or np.ndim(tolerances) != 1 or not len(tolerances):
        raise ValueError(f"tolerances is {shown(tolerances)}: a sequence of at least one number is needed.")
    m, k = layer.heads, inputs.k
    if m < 2 or k < 2:
        raise ValueError(f"There are {m} heads and {k} tokens: with one of either every row agrees.")
    edges = np.array(sorted(non_negative("A tolerance", one, strictly=True) for one in tolerances))
    rng = random_generator(rng)
    left = -(-count("rows", rows) // k)
    counts, seen = np.zeros(len(edges), dtype=np.int64), 0
    while left > 0:
        n = min(left, batch_size(k, inputs.d))
        worst = disagreement(layer, inputs.sample(n, rng=rng)).ravel()
        counts += np.searchsorted(np.sort(worst), edges, side="right")
        seen += worst.size
        left -= n
    return AgreementLaw(tolerances=edges, counts=counts, rows=seen, exponent=(m - 1) * (k - 1))
