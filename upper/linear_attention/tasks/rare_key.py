"""A rare key of a key-value memory: how many queries of it are needed, on a fixed basis of keys."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from attention._arrays import count, random_generator
from attention.inputs import Rng
from attention.metrics import relative_error
from upper.linear_attention.regression import regress
from upper.linear_attention.tasks.key_value import basis_examples, rank_of_a_key

__all__ = ["RareKeyRow", "rare_key_rows"]


@dataclass(frozen=True)
class RareKeyRow:
    """The memory learned with few queries of one key.

    Attributes
    ----------
    queries, rank, full_rank : int
        Queries of the rare key, rank of the features on all examples, and what it is with enough of them.
    error : float
        Mean squared error over the mean squared label, on fresh queries of the rare key.
    """

    queries: int
    rank: int
    full_rank: int
    error: float


def rare_key_rows(
    queries: Iterable[int] = (1, 10, 17, 18, 19, 25),
    *,
    examples: int = 4000,
    test_examples: int = 1000,
    dk: int = 4,
    dv: int = 3,
    rng: Rng = None,
    progress: Callable[[RareKeyRow], None] | None = None,
) -> tuple[RareKeyRow, ...]:
    """Learn the memory on a fixed basis with few queries of its last key, and measure it on that key.

    Parameters
    ----------
    queries : iterable of int
        Numbers of queries of the rare key, at least 0 each.
    examples : int
        Examples in all; the other keys share the rest evenly.
    test_examples : int
        Fresh queries of the rare key.
    dk, dv : int
        Dimensions of keys and values.
    rng : SPEC 7 generator or seed
        Where randomness comes from.
    progress : callable, optional
        Called with each row as it is found.

    Returns
    -------
    tuple of RareKeyRow
        In the order given; fewer queries are the first of more.

    Raises
    ------
    ValueError
        If a number is out of range.

    Notes
    -----
    Exactly `rank_of_a_key` queries are needed; with one fewer the error of least norm is that of one random direction,
    and varies between draws by more than its mean. O(N D^2) a row.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> [(row.rank, row.error < 1e-20) for row in rare_key_rows([18, 19], examples=200, rng=0)]
    [(75, False), (76, True)]
    """
    queries = [count("queries", number, least=0) for number in queries]
    dk, dv = count("dk", dk, least=2), count("dv", dv)
    most = max(queries, default=0)
    common = count("examples", examples, least=most + 1) - most
    generator = random_generator(rng)
    x, y = basis_examples(np.arange(common) % (dk - 1), dk, dv, generator)
    x_rare, y_rare = basis_examples(np.full(most, dk - 1), dk, dv, generator)
    fresh, wanted = basis_examples(np.full(count("test_examples", test_examples), dk - 1), dk, dv, generator)
    rows = []
    for number in queries:
        learned = regress(
            np.concatenate([x, x_rare[:number]]), np.concatenate([y, y_rare[:number]]), least_norm=True
        )
        row = RareKeyRow(
            number, learned.rank, dk * rank_of_a_key(dk, dv), relative_error(learned(fresh), wanted) ** 2
        )
        rows.append(row)
        if progress is not None:
            progress(row)
    return tuple(rows)
