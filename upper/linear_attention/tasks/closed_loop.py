"""Linear attention in a closed loop: every output, rounded, becomes the next tokens."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import count, require_shape
from upper.linear_attention.features import feature_count, gram_pairs, pair_products
from upper.linear_attention.fitted import CubicRegression, FeatureRegression
from upper.linear_attention.model import LinearAttention

__all__ = ["Model", "NextTokens", "agreement", "run_closed_loop"]

Model = LinearAttention | FeatureRegression
NextTokens = Callable[[int, np.ndarray], np.ndarray]


def run_closed_loop(
    model: Model,
    tokens: Float[np.ndarray, "R n d"],
    steps: int,
    next_tokens: NextTokens,
    *,
    keep: bool = True,
) -> Float[np.ndarray, "R steps p"]:
    """Run a model on its own outputs, many runs at a time.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        By its heads, or by its coefficients on the features.
    tokens : array (R, n, d)
        What each run starts from; the last token is the query of the first step.
    steps : int
        Number of outputs.
    next_tokens : callable
        Maps the number of the step, from 0 on, and its outputs (R, p) to the tokens (R, m, d) that follow; the last
        one is the next query. To round is its task.
    keep : bool
        Whether tokens stay: the new ones are appended to the history, or else they replace it.

    Returns
    -------
    array (R, steps, p)
        The outputs before rounding.

    Raises
    ------
    ValueError
        If the tokens do not fit the model, or `next_tokens` returns another shape.

    Notes
    -----
    Of the history only its Gram matrix acts, and an appended token changes it by one outer product. So a step costs
    O(m d^2 + H (d^2 + p d)) by heads and O(m d^2 + p d^3) by coefficients, however long the history is. Whole numbers
    stay exact while every sum is below 2^53.

    References
    ----------
    Derived here.

    Examples
    --------
    Each step appends a token 1, so that G counts the tokens:

    >>> model = LinearAttention(v=np.eye(1)[None], q=np.eye(1)[None])
    >>> run_closed_loop(model, np.ones((1, 1, 1)), 3, lambda step, y: np.ones((1, 1, 1)))[0, :, 0]
    array([1., 2., 3.])
    """
    require_shape("tokens", tokens, ("R", "n", "d"))
    steps = count("steps", steps)
    runs, length, d = tokens.shape
    read, outputs, average = _reader(model, d)
    gram = np.matrix_transpose(tokens) @ tokens
    found = np.empty((runs, steps, outputs))
    for step in range(steps):
        found[:, step] = read(gram / length if average else gram, tokens[:, -1])
        if step + 1 == steps:
            break
        tokens = next_tokens(step, found[:, step])
        require_shape("The next tokens", tokens, (runs, "m", d))
        new = np.matrix_transpose(tokens) @ tokens
        gram, length = (gram + new, length + tokens.shape[1]) if keep else (new, tokens.shape[1])
    return found


def agreement(*pairs: tuple[Shaped[np.ndarray, "R T ..."], Shaped[np.ndarray, "R T ..."]]) -> float:
    """The share of all steps of all runs at which every pair (found, wanted) agrees in every entry.

    Parameters
    ----------
    pairs : tuples of arrays (R, T, ...)
        What was found and what was wanted, after each step of each run.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    ValueError
        If there is no pair, or the two of a pair have different shapes.

    Notes
    -----
    O(size). References: derived here.

    Examples
    --------
    >>> agreement((np.array([[1, 2, 3, 4]]), np.array([[1, 2, 0, 4]])))
    0.75
    """
    if not pairs:
        raise ValueError("There is nothing to compare: give at least one pair of arrays.")
    same = np.ones(pairs[0][0].shape[:2], dtype=bool)
    for found, wanted in pairs:
        require_shape("What was found", found, wanted.shape)
        same &= np.all((found == wanted).reshape(*found.shape[:2], -1), axis=-1)
    return float(np.mean(same))


def _reader(model: Model, d: int) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], int, bool]:
    """The model as a function of Gram matrices (R, d, d) and queries (R, d), its outputs, and whether it averages."""
    if isinstance(model, LinearAttention):
        return _by_heads(model, d)
    return _by_coefficients(model, d)


def _by_heads(
    model: LinearAttention, d: int
) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], int, bool]:
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
        asked = (queries[:, used] @ q[used]).reshape(-1, heads, d)
        active = np.flatnonzero(asked.any(axis=(0, 2)))
        got = asked[:, active] @ gram  # G is symmetric
        return np.asarray(got.reshape(-1, active.size * d) @ v[active].reshape(active.size * d, outputs))

    return read, outputs, model.average


def _by_coefficients(
    model: FeatureRegression, d: int
) -> tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], int, bool]:
    coefficients = model.coefficients
    if len(coefficients) != feature_count(d):
        raise ValueError(
            f"The tokens have {d} dimensions, which is {feature_count(d)} features: "
            f"the model has {len(coefficients)} coefficients an output, and the same number is needed."
        )
    rows, columns = gram_pairs(d)
    # the pair products of a token of ones are the weights of the pairs
    flat, weights = rows * d + columns, pair_products(np.ones((1, d)))
    by_entry = np.ascontiguousarray(coefficients.reshape(len(rows), d, -1).transpose(1, 0, 2))

    # the same of entries of the query that are zero in all runs
    def read(gram: np.ndarray, queries: np.ndarray) -> np.ndarray:
        used = np.flatnonzero(queries.any(axis=0))
        pairs = np.take(gram.reshape(-1, d * d), flat, axis=1) * weights
        features = queries[:, used, None] * pairs[:, None]
        size = used.size * len(rows)
        return np.asarray(features.reshape(-1, size) @ by_entry[used].reshape(size, -1))

    average = model.average if isinstance(model, CubicRegression) else False
    return read, coefficients.shape[1], average
