"""What oracles check of a query before they answer: its kind, its range, its norm."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from sq.models import QueryModel
from sq.queries import BoundedQuery, CorrelationalQueries, CorrelationalQuery, GroupQuery, real_values

__all__ = [
    "require_bounded",
    "require_correlational",
    "require_norms",
    "require_sampled_norms",
    "require_values_in_range",
    "statistical_means",
]

_LOOKED_AT = 8
_NORM_ROUNDING = 1e-9
# Values may step over their declared range by this much, relative to its largest number: float64 rounding.
_ROUNDING = 1e-12


def statistical_means(
    queries: Sequence[BoundedQuery], x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, " q"]:
    """The mean of each query over the examples, its values checked against its declared range.

    Raises
    ------
    ValueError
        If a query does not give one value an example, or a value leaves the range.

    Notes
    -----
    Where the sequence has a method `means`, as families of queries that are entries of one matrix have, it answers all
    at once and the values of all queries are checked on the first 8 examples (by its `values`, if there is one), the
    means always.
    """
    means = getattr(queries, "means", None)
    if means is None or len(queries) == 0:
        return np.array([_mean(query, x, y) for query in queries])
    low, high = (float(getattr(queries, side, getattr(queries[0], side))) for side in ("low", "high"))
    name = getattr(queries, "name", "family of queries")
    answers = real_values(means(x, y), f"means of the {name}")
    if answers.shape != (len(queries),):
        raise ValueError(f"The {name} gave means of shape {answers.shape}: one a query, {len(queries)}.")
    require_values_in_range(answers, low, high, name=name)
    values: Any = getattr(queries, "values", None)
    if values is not None:
        looked_at = real_values(values(x[:_LOOKED_AT], y[:_LOOKED_AT]), f"values of the {name}")
        require_values_in_range(looked_at, low, high, name=name)
    return answers


def _mean(query: BoundedQuery, x: np.ndarray, y: np.ndarray) -> float:
    name = getattr(query, "name", "query")
    values = real_values(query(x, y), f"values of the {name}")
    if values.shape != (len(x),):
        raise ValueError(
            f"The {name} gave values of shape {values.shape} for {len(x)} examples: ({len(x)},)."
        )
    require_values_in_range(values, float(query.low), float(query.high), name=name)
    return float(values.mean())


def require_norms(
    values: Shaped[Any, "..."], x: Float[np.ndarray, "n k d"], *, name: str, sampled: bool
) -> Float[np.ndarray, "..."]:
    """The values (n, k) or (n, k, q) of correlational queries, after checking that their norms are at most 1.

    Parameters
    ----------
    values : array (n, k) or (n, k, q)
        h on the inputs x, real numbers.
    x : array (n, k, d)
        The inputs: all of them, or a random sample.
    name : str
        The query, for the message.
    sampled : bool
        Whether they are a sample: then E sum_a h_a^2 is known up to its standard error only, and six of those are
        allowed beyond 1 (all of them: 1e-9).

    Returns
    -------
    array (n, k) or (n, k, q)
        In float64. Of all inputs, a norm above 1 by rounding is divided out.

    Raises
    ------
    ValueError
        If the shape is another, a value is not a real number, or a norm is above 1.
    """
    values = real_values(values, f"values of the {name}")
    if values.shape[:2] != x.shape[:2] or values.ndim not in (2, 3):
        raise ValueError(f"The {name} gave values of shape {values.shape} for tokens of shape {x.shape}.")
    squares = np.sum(values**2, axis=1)
    square = np.atleast_1d(squares.mean(axis=0))
    slack = 6 * np.atleast_1d(squares.std(axis=0)) / np.sqrt(len(x)) if sampled else np.zeros_like(square)
    _require_squares(square, slack, name=name, sampled=sampled)
    if not sampled and square.max() > 1:
        norms = np.sqrt(np.maximum(square, 1.0))
        return values / (norms if values.ndim == 3 else norms[0])
    return values


def require_sampled_norms(
    query: CorrelationalQuery | CorrelationalQueries,
    blocks: Iterable[np.ndarray],
    *,
    every: bool,
) -> None:
    """Raise unless the norms of a correlational query, or of a vector of them, are at most 1 on inputs in blocks.

    Parameters
    ----------
    query : CorrelationalQuery or CorrelationalQueries
        Evaluated once on each block.
    blocks : iterable of arrays (n, k, d)
        The inputs, as many at once as the query is to be evaluated on.
    every : bool
        Whether the inputs are all there are, so that 1e-9 is allowed beyond 1; six standard errors otherwise.

    Raises
    ------
    ValueError
        If a norm is above 1, or the query gives no real numbers of the shape it declares.
    """
    many = query.size if isinstance(query, CorrelationalQueries) else 1
    n, first, second = 0, np.zeros(many), np.zeros(many)
    for x in blocks:
        squares = np.sum(real_values(query(x), f"values of the {query.name}") ** 2, axis=1).reshape(
            len(x), -1
        )
        n += len(x)
        first += squares.sum(axis=0)
        second += np.sum(squares**2, axis=0)
    square = first / n
    spread = np.sqrt(np.maximum(second / n - square**2, 0.0))
    _require_squares(
        square, np.zeros(many) if every else 6 * spread / np.sqrt(n), name=query.name, sampled=not every
    )


def _require_squares(square: np.ndarray, slack: np.ndarray, *, name: str, sampled: bool) -> None:
    over = ~(square <= 1 + _NORM_ROUNDING + slack)  # true for NaN
    if over.any():
        raise ValueError(
            f"The {name} has norm {np.sqrt(square[over][0]):.6g}{' on a sample' if sampled else ''}: a correlational "
            "query has E sum_a h(X)_a^2 of at most 1; divide it by its norm."
        )


def require_correlational(query: object) -> None:
    """Raise unless the query is one that a correlational model answers."""
    if not isinstance(query, GroupQuery | CorrelationalQuery):
        raise ValueError(
            f"The query is a {type(query).__name__}: a GroupQuery or a CorrelationalQuery is needed, a function of the "
            "tokens alone."
        )


def require_bounded(query: object, model: QueryModel) -> None:
    """Raise unless the query is a function of examples whose declared range the model allows."""
    if not isinstance(query, BoundedQuery):
        raise ValueError(
            f"The query is a {type(query).__name__}: a function of x and y with a declared range, low and high, is "
            "needed, such as a StatisticalQuery."
        )
    low, high = float(query.low), float(query.high)
    if not model.low <= low <= high <= model.high:
        name = getattr(query, "name", "query")
        raise ValueError(
            f"The {name} declares the range [{low:g}, {high:g}]: {type(model).__name__} answers queries with values "
            f"in [{model.low:g}, {model.high:g}]."
        )


def require_values_in_range(
    values: Float[np.ndarray, "..."], low: float, high: float, *, name: str = "query"
) -> None:
    """Raise when a query's values leave its declared range.

    Parameters
    ----------
    values : array
        What the query returned.
    low, high : float
        The declared range.
    name : str
        The query, for the message.

    Raises
    ------
    ValueError
        If a value is not a number, or below `low` or above `high` by more than float64 rounding (1e-12, relative to
        the larger of them).
    """
    slack = _ROUNDING * max(1.0, abs(low), abs(high))
    inside = (values >= low - slack) & (values <= high + slack)  # False for NaN
    if not inside.all():
        worst = values[~inside].flat[0]
        raise ValueError(
            f"The {name} took the value {worst:.6g}: its declared range is [{low:g}, {high:g}]. Scale or clip it, or "
            "declare the range it has."
        )
