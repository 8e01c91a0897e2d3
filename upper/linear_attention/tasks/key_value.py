"""Key-value memory: a head that looks values up, and which distributions of keys determine it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from attention._arrays import count, random_generator, shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.metrics import relative_error
from upper.linear_attention.certificate import another_minimiser, certify, feature_moment
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import regress

__all__ = [
    "KEYS",
    "KeyValueRow",
    "Keys",
    "key_value_examples",
    "key_value_rank",
    "key_value_rows",
    "lookup_model",
    "rank_of_a_key",
]

Keys = Literal["haar", "gaussian", "fixed", "two-keys", "half-queried", "zipf", "plane"]
KEYS: tuple[Keys, ...] = get_args(Keys)
"""The distributions of keys, in the order of the table."""

ZIPF_EXPONENT = 4.5
"""Key j is queried with probability proportional to j^-4.5: of 4000 queries the fourth key gets about seven."""


@dataclass(frozen=True)
class KeyValueRow:
    """One distribution of keys to learn the memory from, and what is known on orthonormal keys of Haar measure.

    Attributes
    ----------
    keys : str
        The distribution, as in `key_value_examples`.
    examples, rank, deficit : int
        N, rank of the features on the examples, and deficit on Haar keys.
    factor : float
        By how much a mean squared distance may grow from the examples to Haar keys.
    least_norm_error : float
        Mean squared error over the mean squared label on fresh Haar keys, of the minimiser of least norm.
    another_error : float
        The same of other minimisers, as much larger in norm as the first one has, in random directions that the
        examples do not see: the mean of several.
    """

    keys: str
    examples: int
    rank: int
    deficit: int
    factor: float
    least_norm_error: float
    another_error: float


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

    References
    ----------
    Derived here.

    Examples
    --------
    >>> lookup_model(2, 1)(np.array([[1.0, 0, 5], [0, 1, 7], [0, 1, 0]]))
    array([7.])
    """
    dk, dv = count("dk", dk), count("dv", dv)
    require_memory(
        f"A model of keys of {shown(dk)} dimensions and values of {shown(dv)}",
        24 * (dk + dv) * (dk + 2 * dv),
        advice="take fewer",
    )
    v, q = np.zeros((1, dv, dk + dv)), np.zeros((1, dk + dv, dk + dv))
    v[0, :, dk:] = np.eye(dv)
    q[0, :dk, :dk] = np.eye(dk)
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

    References
    ----------
    Derived here.

    Examples
    --------
    >>> x, y = key_value_examples("two-keys", 5, rng=0)
    >>> x.shape, y.shape, bool(abs(x[0, 0, :4] @ x[0, 1, :4]) < 1e-12)
    ((5, 3, 7), (5, 3), True)
    """
    _require_keys(keys)
    number, dk, dv = count("number", number), count("dk", dk, least=2), count("dv", dv)
    require_memory(
        f"{shown(number)} examples with keys of {shown(dk)} dimensions and values of {shown(dv)}",
        48 * number * (dk + 1) * (dk + dv),
        advice="take fewer",
    )
    generator = random_generator(rng)
    if keys in ("fixed", "half-queried", "zipf"):
        shares: np.ndarray = np.ones(dk)
        if keys == "half-queried":
            shares[(dk + 1) // 2 :] = 0.0
        elif keys == "zipf":
            shares = np.arange(1.0, dk + 1) ** -ZIPF_EXPONENT
        queried = generator.choice(dk, size=number, p=shares / shares.sum())
        return basis_examples(queried, dk, dv, generator)
    if keys == "gaussian":
        drawn = generator.standard_normal((number, dk, dk))
    elif keys == "plane":
        drawn = np.pad(_haar(number, dk - 1, generator), ((0, 0), (0, 0), (0, 1)))
    else:
        drawn = _haar(number, dk, generator)[:, : 2 if keys == "two-keys" else dk]
    return _examples(drawn, generator.integers(drawn.shape[1], size=number), dv, generator)


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

    References
    ----------
    Derived here.

    Examples
    --------
    >>> {keys: key_value_rank(keys) for keys in ("haar", "gaussian", "fixed", "two-keys", "half-queried", "plane")}
    {'haar': 92, 'gaussian': 112, 'fixed': 76, 'two-keys': 108, 'half-queried': 38, 'plane': 55}
    """
    _require_keys(keys)
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

    Parameters
    ----------
    dk, dv : int
        Dimensions of keys and values.

    Returns
    -------
    int
        The number of free entries of G, and one for those that are constant.

    Raises
    ------
    ValueError
        If a number is below 1.

    Notes
    -----
    Features of two keys of a basis have disjoint supports: the rank on m_j queries of key j each is the sum of
    min(m_j, this), almost surely. O(1).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> rank_of_a_key(4, 3)
    19
    """
    return 1 + count("dk", dk) * count("dv", dv) + comb(dv + 1, 2)


def key_value_rows(
    keys: Iterable[Keys] = KEYS,
    *,
    examples: int = 4000,
    domain_examples: int = 4000,
    dk: int = 4,
    dv: int = 3,
    others: int = 20,
    rng: Rng = None,
    progress: Callable[[KeyValueRow], None] | None = None,
) -> tuple[KeyValueRow, ...]:
    """Learn the memory from each distribution of keys and measure it on orthonormal keys of Haar measure.

    Parameters
    ----------
    keys : iterable of str
        Distributions, as in `key_value_examples`.
    examples, domain_examples : int
        Examples to learn from, and fresh Haar examples to certify for and measure on.
    dk, dv : int
        Dimensions of keys and values.
    others : int
        Other minimisers to average over.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Called with each row as it is found.

    Returns
    -------
    tuple of KeyValueRow
        In the order given.

    Raises
    ------
    ValueError
        If a distribution is unknown or a number is out of range.

    Notes
    -----
    The other minimisers move in any direction that the examples do not see, not in those alone that show on Haar keys:
    the least norm may be right by luck, as it is for the fixed basis, where they are not. O(N D^2 + D^3) a row.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> [row] = key_value_rows(["half-queried"], examples=500, domain_examples=500, rng=0)
    >>> row.rank, row.deficit, row.factor
    (38, 54, inf)
    """
    keys = list(keys)
    for one in keys:
        _require_keys(one)
    others = count("others", others)
    generator = random_generator(rng)
    x_haar, y_haar = key_value_examples("haar", domain_examples, dk=dk, dv=dv, rng=generator)
    domain = feature_moment(x_haar)
    rows = []
    for one in keys:
        x, y = key_value_examples(one, examples, dk=dk, dv=dv, rng=generator)
        learned = regress(x, y, least_norm=True)
        certificate = certify(feature_moment(x), domain)
        more = [
            another_minimiser(learned, certificate, on_domain=False, rng=generator) for _ in range(others)
        ]
        row = KeyValueRow(
            keys=one,
            examples=len(x),
            rank=certificate.rank,
            deficit=certificate.deficit,
            factor=certificate.factor,
            least_norm_error=relative_error(learned(x_haar), y_haar) ** 2,
            another_error=float(np.mean([relative_error(other(x_haar), y_haar) ** 2 for other in more])),
        )
        rows.append(row)
        if progress is not None:
            progress(row)
    return tuple(rows)


def _require_keys(keys: str) -> None:
    if not isinstance(keys, str) or keys not in KEYS:
        raise ValueError(f"The keys are {keys!r}: {', '.join(KEYS)} are known.")


def _haar(number: int, dim: int, generator: np.random.Generator) -> np.ndarray:
    """Orthogonal matrices of Haar measure: the signs make the factors of the QR factorisation unique."""
    q, r = np.linalg.qr(generator.standard_normal((number, dim, dim)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]


def basis_examples(
    queried: np.ndarray, dk: int, dv: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Examples on the unit vectors, of the queries given."""
    return _examples(np.broadcast_to(np.eye(dk), (len(queried), dk, dk)), queried, dv, generator)


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
