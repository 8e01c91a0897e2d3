"""The counting floor: fewer examples than unknowns can never determine a layer."""

from attention._arrays import count

__all__ = ["counting_floor"]


def counting_floor(*, heads: int, tokens: int, dim: int) -> int:
    """The number of examples below which m heads cannot be determined, max(d^2 / (k (k - 1)), 2 m d / k).

    Raises
    ------
    ValueError
        If an argument is below 1.

    Notes
    -----
    Each row of an output gives k - 1 numbers per head about its Theta (the contrasts of its pattern), so
    k (k - 1) an example against d^2 unknowns; for the m d^2 unknowns in W, twice the least number of examples
    is the unit. One token (k = 1) has no pattern to learn, only the sum of the W.

    References
    ----------
    Derived here, by counting equations; a unit of measurement, not a theorem about learners.

    Examples
    --------
    >>> counting_floor(heads=2, tokens=2, dim=32), counting_floor(heads=4, tokens=4, dim=32)
    (512, 86)
    """
    m, k, d = count("heads", heads), count("tokens", tokens), count("dim", dim)
    for_w = -(-2 * m * d // k)
    return for_w if k == 1 else max(-(-d * d // (k * (k - 1))), for_w)
