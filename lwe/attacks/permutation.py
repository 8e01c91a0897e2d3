"""Whether labels go with their rows: exact p-values by labels in random order, combined over blocks of samples."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int, Shaped

from attention.inputs import Rng
from attention.validation import count, random_generator

__all__ = ["permutation_p_value", "sequential_p_value"]

_AT_ONCE = 500

Statistic = Callable[[np.ndarray], np.ndarray]


def permutation_p_value(
    statistic: Statistic,
    labels: Int[np.ndarray, " m"],
    *,
    rng: Rng = None,
    most: int = 25_000,
    enough: int = 20,
    check: Callable[[], None] | None = None,
) -> float:
    """The p-value of a statistic of labels against the same labels in random order: exact, not asymptotic.

    Parameters
    ----------
    statistic : callable
        Maps labels (..., m), each row in an order of its own, to values (...,); large values are evidence.
    labels : array of int (m,)
        The labels as they are.
    rng : optional
        Anything `numpy.random.default_rng` accepts; draws the orders.
    most : int
        How many orders are drawn at most; no p-value is below 1/(most + 1).
    enough : int
        h: drawing stops once h orders have a value as large as the labels have.
    check : callable, optional
        Called from time to time; may raise, where the time is over.

    Returns
    -------
    float
        h/l if the l-th order is the h-th with so large a value; else (g + 1)/(most + 1), g how many have.

    Raises
    ------
    ValueError
        If `most` is below `enough`, or that below 1.

    Notes
    -----
    If all orders of the labels are alike given the statistic, P(p-value <= x) <= x for every x. For then the value of
    the labels and those of l - 1 random orders are exchangeable, and the first of l exchangeable values is among
    the h largest with probability at most h/l, equal values counted against it. The p-value is at most h/l just if
    fewer than h of the first l - 1 orders have as large a value, which is that event; at the end likewise, with g + 1
    for h. Values that differ by rounding only are taken as equal.

    Few orders are drawn where the labels mean nothing: about h/p for a p-value p.

    References
    ----------
    Besag and Clifford 1991, "Sequential Monte Carlo p-values".

    Examples
    --------
    >>> labels = np.arange(8)
    >>> permutation_p_value(lambda rows: rows @ np.arange(8.0), labels, rng=0) < 1e-3
    True
    >>> permutation_p_value(lambda rows: np.zeros(rows.shape[:-1]), labels, rng=0)
    1.0
    """
    enough = count("enough", enough)
    most = count("most", most, least=enough)
    generator = random_generator(rng)
    own = float(statistic(labels))
    reached = own - 1e-9 * max(abs(own), 1.0)
    drawn = larger = 0
    while drawn < most:
        if check is not None:
            check()
        orders = generator.permuted(
            np.tile(labels, (min(max(2 * enough, drawn), _AT_ONCE, most - drawn), 1)), axis=1
        )
        places = np.flatnonzero(statistic(orders) >= reached)
        if larger + len(places) >= enough:
            return enough / (drawn + int(places[enough - larger - 1]) + 1)
        drawn, larger = drawn + len(orders), larger + len(places)
    return (larger + 1) / (most + 1)


def sequential_p_value(p_values: Shaped[np.ndarray, " blocks"] | Sequence[float]) -> float:
    """One p-value of those of independent blocks that are looked at one after another, however it was stopped.

    Parameters
    ----------
    p_values : sequence of float
        Of each block so far, in order: P(p <= x) <= x for each, given the others.

    Notes
    -----
    Fisher's combination after k blocks, P(Gamma(k) >= -log(p_1 ... p_k)), times k (k + 1); the least of these over
    all k so far. Each of P(p_i <= x) <= x makes -log p_i at most exponential, so that Fisher's is a p-value at each
    look; it falls below x/(k (k + 1)) at any look with probability at most the sum of these, x. So stopping as
    soon as this is small is allowed.

    References
    ----------
    Fisher 1932, "Statistical methods for research workers", section 21.1; the union over looks is elementary.

    Examples
    --------
    >>> round(sequential_p_value([1e-3]), 6), sequential_p_value([1.0, 1.0]), sequential_p_value([])
    (0.002, 1.0, 1.0)
    """
    from scipy.special import gammaincc

    logs = -np.cumsum(np.log(np.asarray(p_values, dtype=np.float64)))
    looks = np.arange(1, len(logs) + 1)
    found = gammaincc(looks, logs) * looks * (looks + 1)
    return float(min(found.min(initial=1.0), 1.0))
