"""Key-value memory: a head that looks values up, and which distributions of keys determine it."""

from math import comb
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, one_of, random_generator
from upper.linear_attention.model import LinearAttention, zero_heads

__all__ = [
    "KEYS",
    "Keys",
    "basis_examples",
    "key_value_examples",
    "key_value_rank",
    "lookup_model",
    "rank_of_a_key",
]

Keys = Literal["haar", "gaussian", "fixed", "two-keys", "half-queried", "zipf", "plane"]
KEYS: tuple[Keys, ...] = get_args(Keys)
"""The distributions of keys."""

_ZIPF_EXPONENT = 4.5  # of 4000 queries the fourth key gets about seven


def lookup_model(dk: int, dv: int) -> LinearAttention:
    """One head that returns sum_i (k_i . q) v_i: the value of the key that is queried, if the keys are orthonormal.

    Parameters
    ----------
    dk, dv : int
        Dimensions of keys and values; the tokens are [k; v].

    Returns
    -------
    LinearAttention
        V = [0 | I] and Q = diag(I, 0); the query's own token [q; 0] has no value to add.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    O((dk + dv)^2).

    Examples
    --------
    >>> lookup_model(2, 1)(np.array([[1.0, 0, 5], [0, 1, 7], [0, 1, 0]]))
    array([7.])
    """
    dk, dv = count("dk", dk), count("dv", dv)
    v, q = zero_heads(1, dv, dk + dv)
    v[0, :, dk:], q[0, :dk, :dk] = np.eye(dv), np.eye(dk)
    return LinearAttention(v, q)


def key_value_examples(
    keys: Keys, number: int, *, dk: int = 4, dv: int = 3, rng: Rng = None
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N dv"]]:
    """Examples of the memory: tokens [k_i; v_i] with Gaussian values, and the query [q; 0] of one of the keys.

    Parameters
    ----------
    keys : str
        ``"haar"``: dk orthonormal keys, the rows of a random orthogonal matrix, anew in each example.
        ``"gaussian"``: dk independent N(0, I) keys. ``"fixed"``: the dk unit vectors. ``"two-keys"``: only two
        orthonormal keys, Haar. ``"half-queried"``: the unit vectors, of which only the first half (rounded up) is ever
        queried. ``"zipf"``: the unit vectors, the j-th queried with probability proportional to j^-4.5.
        ``"plane"``: dk - 1 orthonormal keys, Haar in the space without the last coordinate.
    number : int
        N.
    dk, dv : int
        Dimensions of keys, at least 2, and of values.
    rng : SPEC 7 generator or seed
        Where randomness comes from.

    Returns
    -------
    x : array (N, n, dk + dv)
        Tokens, the last one the query.
    y : array (N, dv)
        Labels of `lookup_model`: the value of the queried key where keys are orthonormal.

    Raises
    ------
    ValueError
        If the distribution is unknown or a number is out of range.

    Notes
    -----
    The key queried is uniform where nothing else is said. O(N dk^2 (dk + dv)).

    Examples
    --------
    >>> x, y = key_value_examples("two-keys", 5, rng=0)
    >>> x.shape, y.shape, bool(abs(x[0, 0, :4] @ x[0, 1, :4]) < 1e-12)
    ((5, 3, 7), (5, 3), True)
    """
    one_of("keys", keys, KEYS)
    number, dk, dv = count("number", number), count("dk", dk, least=2), count("dv", dv)
    require_memory(f"{number} examples with keys of {dk} dimensions", 48 * number * (dk + 1) * (dk + dv))
    generator = random_generator(rng)
    if keys in ("fixed", "half-queried", "zipf"):
        shares: np.ndarray = np.ones(dk)
        if keys == "half-queried":
            shares[(dk + 1) // 2 :] = 0.0
        elif keys == "zipf":
            shares = np.arange(1.0, dk + 1) ** -_ZIPF_EXPONENT
        return basis_examples(
            generator.choice(dk, size=number, p=shares / shares.sum()), dk, dv, rng=generator
        )
    if keys == "gaussian":
        drawn = generator.standard_normal((number, dk, dk))
    elif keys == "plane":
        drawn = np.pad(_haar(number, dk - 1, generator), ((0, 0), (0, 0), (0, 1)))
    else:
        drawn = _haar(number, dk, generator)[:, : 2 if keys == "two-keys" else dk]
    return _examples(drawn, generator.integers(drawn.shape[1], size=number), dv, generator)


def basis_examples(
    queried: np.ndarray, dk: int, dv: int, *, rng: Rng = None
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N dv"]]:
    """Examples on the unit vectors as keys, of the queries given (N,), numbers below dk."""
    keys = np.broadcast_to(np.eye(dk), (len(queried), dk, dk))
    return _examples(keys, queried, dv, random_generator(rng))


def key_value_rank(keys: Keys, *, dk: int = 4, dv: int = 3) -> int:
    """The rank of the features on a distribution of keys.

    Parameters
    ----------
    keys : str
        As in `key_value_examples`; Zipf queries have the rank of the fixed basis, if every key is queried often
        enough: see `rank_of_a_key`.
    dk, dv : int
        Dimensions of keys, at least 2, and of values.

    Returns
    -------
    int
        The rank.

    Raises
    ------
    ValueError
        If the distribution is unknown or a number is out of range.

    Notes
    -----
    The query is in dk dimensions, and G has a block of keys, one of keys with values and one of values. The last two
    are free and give dk (dk dv + dv (dv + 1)/2). Orthonormal keys make the first one I + q q^T, whose products with q
    are the cubic forms on the sphere, C(dk + 2, 3) of them; on a basis there are dk values of q and dk dimensions. With
    two keys it is 2 q q^T + k k^T, with k orthogonal to q and otherwise free: G q = 2 q and tr(G) q = 3 q are dk
    relations. Gaussian keys have none. O(1).

    Examples
    --------
    >>> {keys: key_value_rank(keys) for keys in ("haar", "gaussian", "fixed", "two-keys", "half-queried", "plane")}
    {'haar': 92, 'gaussian': 112, 'fixed': 76, 'two-keys': 108, 'half-queried': 38, 'plane': 55}
    """
    one_of("keys", keys, KEYS)
    dk, dv = count("dk", dk, least=2), count("dv", dv)
    if keys in ("fixed", "zipf"):
        return dk * rank_of_a_key(dk, dv)
    if keys == "half-queried":
        return (dk + 1) // 2 * rank_of_a_key(dk, dv)
    if keys == "plane":
        dk = dk - 1
    free = dk * (dk * dv + comb(dv + 1, 2))
    if keys == "gaussian":
        return dk * comb(dk + 1, 2) + free
    if keys == "two-keys" and dk > 2:
        return dk * comb(dk + 1, 2) - dk + free
    return comb(dk + 2, 3) + free


def rank_of_a_key(dk: int = 4, dv: int = 3) -> int:
    """How many queries of one key of a fixed basis determine the memory for it: 1 + dk dv + dv (dv + 1)/2.

    The number of free entries of G, and one for those that are constant. Features of two keys of a basis have disjoint
    supports: the rank on m_j queries of key j each is the sum of min(m_j, this), almost surely.

    Raises
    ------
    ValueError
        If a number is below 1.

    Examples
    --------
    >>> rank_of_a_key(4, 3)
    19
    """
    return 1 + count("dk", dk) * count("dv", dv) + comb(dv + 1, 2)


def _haar(number: int, dim: int, generator: np.random.Generator) -> np.ndarray:
    """Orthogonal matrices of Haar measure: the signs make the factors of the QR factorisation unique."""
    q, r = np.linalg.qr(generator.standard_normal((number, dim, dim)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]


def _examples(
    keys: np.ndarray, queried: np.ndarray, dv: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of the keys (N, m, dk) with Gaussian values and the query of one of them, and what the memory returns."""
    number, held, dk = keys.shape
    x = np.zeros((number, held + 1, dk + dv))
    x[:, :held, :dk] = keys
    x[:, :held, dk:] = generator.standard_normal((number, held, dv))
    x[:, held, :dk] = keys[np.arange(number), queried]
    return x, np.asarray(lookup_model(dk, dv)(x))
