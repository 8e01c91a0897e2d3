"""Linear attention in a closed loop: outputs, rounded by the caller, become the next tokens."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from upper.linear_attention.features import feature_count, pair_products, pairs_of
from upper.linear_attention.least_squares import FeatureRegression
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import CubicRegression

__all__ = ["ClosedLoop", "Model", "nearest_one_hot", "one_hot"]

Model = LinearAttention | FeatureRegression

_Read = Callable[[np.ndarray, np.ndarray], np.ndarray]


class ClosedLoop:
    """A model on the tokens so far, many runs at a time: read its outputs, then append or replace tokens.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        By its heads, or by its coefficients on the features.
    tokens : array (R, n, d)
        What each run starts from; the last token is the query.

    Raises
    ------
    ValueError
        If the tokens do not fit the model, or outputs overflow.

    Notes
    -----
    Of the history only its Gram matrix acts: a step costs O(m d^2 + H (d^2 + p d)) by heads and O(m d^2 + p d^3) by
    coefficients, however long the history is. Whole numbers stay exact while every sum is below 2^53.

    Examples
    --------
    Each step appends a token 1, so that G counts the tokens:

    >>> loop = ClosedLoop(LinearAttention(v=np.eye(1)[None], q=np.eye(1)[None]), np.ones((1, 1, 1)))
    >>> loop.append(np.ones((1, 1, 1)))
    >>> loop.outputs()
    array([[2.]])
    """

    def __init__(self, model: Model, tokens: Float[np.ndarray, "R n d"]) -> None:
        d = tokens.shape[-1]
        self._read = _by_heads(model, d) if isinstance(model, LinearAttention) else _by_coefficients(model, d)
        self._average = isinstance(model, LinearAttention | CubicRegression) and model.average
        self._gram, self._length = np.zeros((len(tokens), d, d)), 0
        self.append(tokens)

    def outputs(self) -> Float[np.ndarray, "R p"]:
        """The outputs at the last token, before rounding; a ValueError where they overflow."""
        gram = self._gram / self._length if self._average else self._gram
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._read(gram, self._query)
        if not np.isfinite(found).all():
            raise ValueError("Products of the tokens overflow: scale the tokens down.")
        return found

    def append(self, tokens: Float[np.ndarray, "R m d"]) -> None:
        """Add tokens to the history; the last one is the next query."""
        with np.errstate(over="ignore", invalid="ignore"):  # refused where they are read
            self._gram = self._gram + np.matrix_transpose(tokens) @ tokens
        self._length, self._query = self._length + tokens.shape[1], tokens[:, -1]

    def replace(self, tokens: Float[np.ndarray, "R m d"]) -> None:
        """Forget the history: these tokens take its place."""
        self._gram, self._length = np.zeros_like(self._gram), 0
        self.append(tokens)


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """The unit vectors e_i of each index i, of shape (..., size) for indices (...)."""
    return np.eye(size)[indices]


def nearest_one_hot(values: np.ndarray) -> np.ndarray:
    """The unit vector nearest to each row of (..., size): that of its largest entry, the first of equal ones."""
    return one_hot(np.argmax(values, axis=-1), values.shape[-1])


def _by_heads(model: LinearAttention, d: int) -> _Read:
    if model.dim != d:
        raise ValueError(
            f"The tokens have {d} dimensions: the model has {model.dim}, and the same is needed."
        )
    heads, outputs = model.heads, model.outputs
    q = np.ascontiguousarray(np.asarray(model.q).reshape(heads * d, d).T)
    v = np.ascontiguousarray(np.asarray(model.v).transpose(0, 2, 1))

    # queries are often one-hot, and most heads ask for nothing then: their work is left out
    def read(gram: np.ndarray, queries: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(queries.any(axis=0))
        asked = (queries[:, used] @ q[used]).reshape(len(queries), heads, d)
        active = np.flatnonzero(asked.any(axis=(0, 2)))
        got = asked[:, active] @ gram  # G is symmetric
        return np.asarray(
            got.reshape(len(queries), active.size * d) @ v[active].reshape(active.size * d, outputs)
        )

    return read


def _by_coefficients(model: FeatureRegression, d: int) -> _Read:
    coefficients = model.coefficients
    if len(coefficients) != feature_count(d):
        raise ValueError(
            f"The tokens have {d} dimensions, which is {feature_count(d)} features: "
            f"the model has {len(coefficients)} coefficients an output, and the same number is needed."
        )
    rows, columns = pairs_of(d)
    weights = pair_products(np.ones((1, d)))  # of a token of ones
    by_entry = np.ascontiguousarray(coefficients.reshape(len(rows), d, -1).transpose(1, 0, 2))

    # the same of entries of the query that are zero in all runs
    def read(gram: np.ndarray, queries: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(queries.any(axis=0))
        features = queries[:, used, None] * (gram[:, rows, columns] * weights)[:, None]
        size = used.size * len(rows)
        return np.asarray(
            features.reshape(len(queries), size) @ by_entry[used].reshape(size, coefficients.shape[1])
        )

    return read
