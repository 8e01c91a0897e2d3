"""The counting floor: fewer examples than unknowns can never determine a layer."""

from attention.validation import count

__all__ = ["counting_floor", "matrix_unknowns"]


def counting_floor(*, heads: int, tokens: int, dim: int, rank: int | None = None) -> int:
    """The number of examples below which m heads cannot be determined, max(u / (k (k - 1)), 2 m u / (k d)).

    Here u is the number of unknowns of one matrix: d^2, or 2 d r - r^2 at rank r.

    Parameters
    ----------
    heads, tokens, dim : int
        The numbers m, k and d.
    rank : int, optional
        The rank r of all Theta_i and W_i, where it is known in advance, at most d; d if None.

    Raises
    ------
    ValueError
        If an argument is below 1, or the rank above d.

    Notes
    -----
    Each row of an output gives k - 1 numbers per head about its Theta (the contrasts of its pattern), so
    k (k - 1) an example against u unknowns; an example's k d numbers stand against all 2 m u unknowns. One token
    (k = 1) has no pattern to learn, only the sum of the W, and the number is a unit only.

    A matrix of rank r has two factors of d r entries, of which an invertible r x r matrix changes nothing:
    u = 2 d r - r^2 unknowns, d^2 at r = d. This is for a learner that is told the rank; one that is not has d^2.

    References
    ----------
    Derived here, by counting equations; a unit of measurement, not a theorem about learners.

    Examples
    --------
    >>> counting_floor(heads=2, tokens=2, dim=32), counting_floor(heads=4, tokens=4, dim=32)
    (512, 86)
    >>> counting_floor(heads=4, tokens=4, dim=32, rank=4), counting_floor(heads=4, tokens=4, dim=32, rank=32)
    (20, 86)
    """
    m, k, d = count("heads", heads), count("tokens", tokens), count("dim", dim)
    r = d if rank is None else count("rank", rank)
    if r > d:
        raise ValueError(f"rank is {r}: at most the dimension, {d}, is allowed.")
    unknowns = matrix_unknowns(d, r)
    for_w = -(-2 * m * unknowns // (k * d))
    return for_w if k == 1 else max(-(-unknowns // (k * (k - 1))), for_w)


def matrix_unknowns(dim: int, rank: int) -> int:
    """How many numbers a d x d matrix of rank r has to be told by: 2 d r - r^2, d^2 at r = d."""
    return 2 * dim * rank - rank * rank
