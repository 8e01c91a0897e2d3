"""Exact moments E phi phi^T of cubic features for tokens of known distributions, and their exact ranks."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import comb, prod
from typing import Annotated, Literal, get_args

import numpy as np
from jaxtyping import Float

from attention.validation import Whole, checked
from upper.linear_attention.features import feature_count, pairs_of
from upper.linear_attention.least_squares import require_feature_memory

Tokens = Literal["gaussian", "sphere", "boolean", "boolean-constant", "one-hot"]
POPULATIONS: tuple[Tokens, ...] = get_args(Tokens)
"""Distributions of tokens whose exact moments are known."""

# products of such numbers are exact in double precision, or right to its last digits
Size = Annotated[int, Whole(1, 10**9)]
# E of a product of a token's coordinates, one array of coordinate numbers a factor, broadcast
_Monomial = Callable[[Sequence[np.ndarray]], np.ndarray]


@checked
def population_moment(tokens: Tokens, dim: Size, n: Size) -> Float[np.ndarray, "D D"]:
    """The exact moment Lambda (D, D), E phi phi^T of n independent tokens of one distribution, the last one the query.

    Parameters
    ----------
    tokens : str
        ``"gaussian"``: N(0, I). ``"sphere"``: uniform of norm sqrt d. ``"boolean"``: uniform in {±1}^d.
        ``"boolean-constant"``: the same and a last coordinate that is always 1, so d + 1 dimensions.
        ``"one-hot"``: uniform among the d unit vectors.
    dim : int
        Dimension of the tokens, without the constant.
    n : int
        Number of tokens, with the query.

    Raises
    ------
    ValueError
        If the distribution is unknown, a number is below 1, or the moment does not fit the memory budget.

    Notes
    -----
    G = z z^T + S, with S from the n - 1 other tokens. So E G_bc z_e G_b'c' z_e' is a sum of five products of token
    moments of orders 2, 4 and 6, one for each choice of the tokens in the two entries of G. O(D^2).

    The Gaussian moment commutes with rotations, and Sym^2 R^d ⊗ R^d is, over the orthogonal group, the traceless
    tensors of mixed symmetry (eigenvalue 2 (n - 1), the least for d >= 3), the symmetric traceless ones (2 (n + 2)),
    and the vectors twice.

    Examples
    --------
    >>> population_moment("one-hot", 2, 1).diagonal().tolist()
    [0.5, 0.0, 0.0, 0.0, 0.0, 0.5]
    >>> round(float(np.linalg.eigvalsh(population_moment("gaussian", 4, 5))[0]), 9)
    8.0
    """
    width = token_dimension(tokens, dim)
    require_feature_memory(2 * feature_count(width))  # a few such arrays at once
    moment = _monomial(tokens, dim)
    rows, columns = pairs_of(width)
    b, c = (index[:, None, None, None] for index in (rows, columns))
    e = np.arange(width)[None, :, None, None]
    b2, c2, e2 = (np.transpose(index, (2, 3, 0, 1)) for index in (b, c, e))
    others = n - 1
    total = moment((b, c, b2, c2, e, e2))  # both entries of G from the query
    total = total + others * moment((b, c, e, e2)) * moment((b2, c2))
    total += others * moment((b2, c2, e, e2)) * moment((b, c))
    total += others * moment((b, c, b2, c2)) * moment((e, e2))  # both from one other token
    total += others * (others - 1) * moment((b, c)) * moment((b2, c2)) * moment((e, e2))
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    total *= weight[:, None, None, None] * weight[None, None, :, None]
    return total.reshape(2 * (feature_count(width),))


@checked
def exact_rank(tokens: Tokens, dim: Size, n: Size) -> int:
    """The rank of `population_moment`: the fewest examples that can identify the function on these tokens.

    Arguments and errors are those of `population_moment`. A tensor t is in the null space if and only if t(G, z)
    vanishes for every input. For n >= 2, t(x x^T, z) then does not depend on the other token x. For Gaussian tokens
    this implies t = 0. On the sphere, t(x x^T, z) could be u . z times |x|^2; but then t(G, z) = n d u . z, so again
    t = 0. A constant coordinate is equivalent to a sign, since a change of sign of whole tokens does not change
    phi phi^T. So ±1 in d dimensions with a constant has the rank of ±1 in d + 1 dimensions. Tokens with finitely many
    values repeat, so more examples than the rank may be needed.

    Examples
    --------
    >>> [exact_rank("gaussian", 4, 5), exact_rank("gaussian", 4, 1), exact_rank("boolean", 4, 3)]
    [40, 20, 28]
    >>> [exact_rank("boolean", 4, 1), exact_rank("boolean-constant", 4, 3), exact_rank("one-hot", 4, 3)]
    [8, 55, 16]
    """
    width, alone = token_dimension(tokens, dim), n == 1
    if tokens in ("gaussian", "sphere"):
        return comb(width + 2, 3) if alone else feature_count(width)
    if tokens in ("boolean", "boolean-constant"):
        return width + (comb(width, 3) if alone else width * comb(width, 2))
    return dim if alone else dim * dim


def token_dimension(tokens: Tokens, dim: Size) -> int:
    """The dimension of the tokens: d, or d + 1 with the constant coordinate."""
    return dim + (tokens == "boolean-constant")


def _monomial(tokens: Tokens, dim: int) -> _Monomial:
    """E of a product of an even number of coordinates of one token."""
    if tokens == "gaussian":
        return _pairings
    if tokens == "sphere":  # Gaussian moments of order 2 m are E |g|^2m / d^m times as large
        return lambda factors: (
            _pairings(factors) / prod((dim + 2 * i) / dim for i in range(len(factors) // 2))
        )
    if tokens == "one-hot":
        return lambda factors: reduce(np.logical_and, [factors[0] == one for one in factors[1:]]) / dim
    return _even  # if signs occur an even number of times, so does the constant


def _pairings(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Isserlis: the number of pairings of the factors in which every pair is of one coordinate."""
    if not factors:
        return np.ones(())
    first, *rest = factors
    total = np.zeros(())
    for i, partner in enumerate(rest):
        total = total + (first == partner) * _pairings([*rest[:i], *rest[i + 1 :]])
    return total


def _even(factors: Sequence[np.ndarray]) -> np.ndarray:
    """1 where every coordinate occurs an even number of times."""
    return (reduce(np.bitwise_xor, [np.int64(1) << factor for factor in factors]) == 0).astype(np.float64)
