"""The counting floor: with fewer equations than unknowns, examples cannot determine a layer."""

from dataclasses import dataclass, replace

from attention.validation import PositiveInt, checked


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
    return LayerClass(rank, biases, causal).floor(heads, tokens, dim)


@dataclass(frozen=True)
class LayerClass:
    """What is known of a layer besides its number of heads: their rank, and whether it has biases or is causal."""

    rank: int | None = None
    biased: bool = False
    causal: bool = False
    cap: int | None = None  #: the most examples that are asked for; below the counting floor many layers fit

    def floor(self, heads: int, tokens: int, dim: int) -> int:
        """The counting floor of so many heads, or the cap."""
        each = self._of_matrix(dim)
        query_bias, bias = (self.rank or dim, dim) if self.biased else (0, 0)
        rows = tokens - 1 if self.causal and tokens > 1 else tokens
        floor = -(-(2 * heads * each + heads * query_bias + bias) // (rows * dim))
        if tokens > 1:
            contrasts = tokens * (tokens - 1) // (2 if self.causal else 1)
            floor = max(-(-(each + query_bias) // contrasts), floor)
        return floor if self.cap is None else min(floor, self.cap)

    def unknowns(self, heads: int, tokens: int, dim: int) -> int:
        """The number of unknowns of a fit: 2 m u, with biases m r + d more.

        With one token, those of the sum of the W_i, of rank min(d, m r), with biases d more. None without heads.
        """
        if heads == 0:
            return 0
        if tokens == 1:
            whole = replace(self, rank=min(dim, heads * (self.rank or dim)))
            return whole._of_matrix(dim) + dim * self.biased
        return 2 * heads * self._of_matrix(dim) + (heads * (self.rank or dim) + dim) * self.biased

    def _of_matrix(self, dim: int) -> int:
        """The unknowns of one matrix."""
        r = dim if self.rank is None else self.rank
        if r > dim:
            raise ValueError(f"rank is {r}: at most the dimension, {dim}, is allowed.")
        return 2 * dim * r - r * r
