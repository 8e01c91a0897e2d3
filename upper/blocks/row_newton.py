"""Newton's method on many systems of d equations at once, with halved steps."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

# Steps, and halvings of one.
_MOST = 50
# Numbers of the derivatives that are formed at once
_AT_ONCE = 2**22
# The error at which a row is done, and that of one that is found, relative to its scale.
_SOLVED, _FOUND = 1e-14, 1e-9


def newton_rows(
    f: Callable[[np.ndarray], np.ndarray],
    slopes: Callable[[np.ndarray], np.ndarray],
    y: Float[np.ndarray, "n d"],
    start: Float[np.ndarray, "n d"],
    scale: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n d"]:
    """Solve f(x) = y row by row from `start`, to rounding of a row's `scale`; NaN where no solution is found.

    `slopes` gives df_b/dx_a at [., a, b]. O(d^3) a row and step, and the derivatives.
    """
    x = start.copy()
    off = y - f(x)
    size = np.linalg.norm(off, axis=1)
    moving = np.arange(len(y))
    at_once = max(1, _AT_ONCE // y.shape[1] ** 2)
    for _ in range(_MOST):
        moving = moving[size[moving] > _SOLVED * scale[moving]]
        if not len(moving):
            break
        steps = np.concatenate(
            [
                _solved(np.swapaxes(slopes(x[rows]), 1, 2), off[rows])
                for rows in np.split(moving, range(at_once, len(moving), at_once))
            ]
        )
        left, length = np.arange(len(moving)), 1.0
        for _ in range(_MOST):  # where kinks lie between, a whole step may be too long
            rows = moving[left]
            new = x[rows] + length * steps[left]
            new_off = y[rows] - f(new)
            new_size = np.linalg.norm(new_off, axis=1)
            better = new_size < size[rows]
            x[rows[better]], off[rows[better]] = new[better], new_off[better]
            size[rows[better]] = new_size[better]
            left, length = left[~better], length / 2
            if not len(left):
                break
        moving = np.delete(moving, left)  # a step that no longer helps ends a row, at rounding or stuck
    x[~(size <= _FOUND * scale)] = np.nan
    return x


def _solved(slopes: Float[np.ndarray, "n d d"], off: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    try:
        return np.linalg.solve(slopes, off[..., None])[..., 0]
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(slopes) @ off[..., None])[..., 0]
