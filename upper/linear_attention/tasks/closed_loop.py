"""Linear attention in a closed loop: every output, rounded, becomes the next tokens."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import (
    count,
    real_array,
    require_callable,
    require_flag,
    require_instance,
    require_shape,
    shown,
)
from attention.memory import require_memory
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
        If the tokens do not fit the model, `next_tokens` returns another shape, or outputs overflow.

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
    require_instance(
        "model", model, LinearAttention | FeatureRegression, needed="a LinearAttention or FeatureRegression"
    )
    tokens = real_array("tokens", tokens, ("R", "n", "d"))
    steps = count("steps", steps)
    require_callable("next_tokens", next_tokens)
    require_flag("keep", keep)
    runs, length, d = tokens.shape
    read, outputs, average = _reader(model, d)
    require_memory(
        f"The outputs of {shown(steps)} steps of {shown(runs)} runs",
        8 * runs * steps * outputs,
        advice="take fewer steps",
    )
    found = np.empty((runs, steps, outputs))
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        gram = np.matrix_transpose(tokens) @ tokens
        for step in range(steps):
            found[:, step] = read(gram / length if average else gram, tokens[:, -1])
            if step + 1 == steps:
                break
            tokens = next_tokens(step, found[:, step])
            require_shape("The next tokens", tokens, (runs, "m", d))
            if tokens.dtype != np.float64:
                tokens = real_array("The next tokens", tokens)
            new = np.matrix_transpose(tokens) @ tokens
            gram, length = (gram + new, length + tokens.shape[1]) if keep else (new, tokens.shape[1])
    if not np.isfinite(found).all():
        raise ValueError(
            "Products of the tokens overflow, or next tokens are NaN or infinite: scale the tokens down."
        )
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
        If there is no pair, or the two of a pair have different shapes, or other runs and steps than the first has.

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
    same: np.ndarray | None = None
    for pair in pairs:
        found, wanted = _compared(pair)
        same = np.ones(found.shape[:2], dtype=bool) if same is None else same
        if found.shape[:2] != same.shape:
            raise ValueError(
                f"A pair has arrays of shape {found.shape}: runs and steps {same.shape} are needed."
            )
        same &= np.all((found == wanted).reshape(*found.shape[:2], -1), axis=-1)
    return float(np.mean(same if same is not None else 1.0))


def _compared(pair: object) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"There is a pair {shown(pair)}: (found, wanted) is needed, two arrays.")
    try:
        found, wanted = (np.asarray(one) for one in pair)
    except ValueError:
        raise ValueError("found or wanted has rows of different lengths: an array is needed.") from None
    if found.ndim < 2 or not found.size or found.shape != wanted.shape:
        raise ValueError(
            f"What was found has shape {found.shape} and what was wanted {wanted.shape}: the same (R, T, ...) is "
            "needed."
        )
    return found, wanted


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
