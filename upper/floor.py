"""The counting floor: with fewer equations than unknowns, examples cannot determine a layer."""

from dataclasses import dataclass

from attention.validation import PositiveInt, checked

__all__ = ["LayerClass", "counting_floor", "unknowns"]


@checked
def counting_floor(
    *,
    heads: PositiveInt,
    tokens: PositiveInt,
    dim: PositiveInt,
    rank: PositiveInt | None = None,
    biases: bool = False,
    causal: bool = False,
) -> int:
    """The number of examples below which m heads cannot be determined, max(u / (k (k - 1)), 2 m u / (k d)).

    Parameters
    ----------
    heads, tokens, dim : int
        The numbers m, k and d.
    rank : int, optional
        The rank r of all Theta_i and W_i if it is known in advance, at most d. None means d.
    biases : bool
        Whether the layer has biases.
    causal : bool
        Whether it is causal: its first row shows the sum of the W_i alone, and half the pairs of tokens have no logit.

    Raises
    ------
    ValueError
        If an argument is below 1, or the rank above d.

    Notes
    -----
    u is the number of unknowns of one matrix: 2 d r - r^2 at rank r (two factors, up to an invertible r x r matrix),
    d^2 at r = d. With biases there are m r + d more: r for each c_i, which the rows of Theta_i span, and d for b. Each
    row of an output gives k - 1 numbers on the Theta of each head, the contrasts of its pattern. An example gives k d
    numbers in all; there are 2 m u unknowns. With one token there is no pattern to learn; the number is then only a
    unit for budgets. Fewer examples, random or chosen, leave layers that give the same answers; the proof is in
    docs/explanations/value-queries.rst.

    Examples
    --------
    >>> counting_floor(heads=2, tokens=2, dim=32), counting_floor(heads=4, tokens=4, dim=32)
    (512, 86)
    >>> counting_floor(heads=4, tokens=4, dim=32, rank=4), counting_floor(heads=4, tokens=4, dim=32, rank=32)
    (20, 86)
    """
    each = _of_matrix(dim, rank)
    query_bias, bias = (rank or dim, dim) if biases else (0, 0)
    rows = tokens - 1 if causal and tokens > 1 else tokens
    for_w = -(-(2 * heads * each + heads * query_bias + bias) // (rows * dim))
    if tokens == 1:
        return for_w
    contrasts = tokens * (tokens - 1) // (2 if causal else 1)
    return max(-(-(each + query_bias) // contrasts), for_w)


def unknowns(*, heads: int, tokens: int, dim: int, rank: int | None = None, biases: bool = False) -> int:
    """The number of unknowns of a fit: 2 m u; with one token, those of the sum of the W_i, of rank min(d, m r).

    With biases, m r + d more; with one token d more.
    """
    if tokens == 1:
        return _of_matrix(dim, min(dim, heads * (dim if rank is None else rank))) + dim * biases
    return 2 * heads * _of_matrix(dim, rank) + (heads * (rank or dim) + dim) * biases


@dataclass(frozen=True)
class LayerClass:
    """What is known of a layer besides its number of heads: their rank, and whether it has biases or is causal."""

    rank: int | None = None
    biased: bool = False
    causal: bool = False
    cap: int | None = None  #: the most examples that are asked for; below the counting floor many layers fit

    def floor(self, heads: int, tokens: int, dim: int) -> int:
        """The counting floor of so many heads, or the cap."""
        floor = counting_floor(
            heads=heads, tokens=tokens, dim=dim, rank=self.rank, biases=self.biased, causal=self.causal
        )
        return floor if self.cap is None else min(floor, self.cap)

    def unknowns(self, heads: int, tokens: int, dim: int) -> int:
        """The number of unknowns of so many heads; none without heads."""
        if heads == 0:
            return 0
        return unknowns(heads=heads, tokens=tokens, dim=dim, rank=self.rank, biases=self.biased)


def _of_matrix(dim: int, rank: int | None) -> int:
    r = dim if rank is None else rank
    if r > dim:
        raise ValueError(f"rank is {r}: at most the dimension, {dim}, is allowed.")
    return 2 * dim * r - r * r
