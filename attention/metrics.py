"""Every error measure in one place: of functions, of the unknown part, and of parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention._arrays import namespace, to_numpy
from attention.layer import AttentionLayer
from attention.validation import checked, require_finite

__all__ = ["ParameterErrors", "parameter_errors", "relative_error", "unknown_part_error"]


def relative_error(predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"]) -> float:
    """sqrt(E||F^ - F||^2 / E||F||^2) over the given outputs; 1.0 is what predicting zero gives.

    Raises
    ------
    ValueError
        If the shapes differ, or the target is not finite or zero everywhere.
    """
    return unknown_part_error(predicted, target, None)


def unknown_part_error(
    predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"], known: Shaped[Any, "*n k d"] | None
) -> float:
    """sqrt(E||F^ - F||^2 / E||F - K||^2) with K the known part (zero if None).

    1.0 means "learned nothing beyond what is known in advance"; above 1.0 is worse than that.

    Raises
    ------
    ValueError
        If the shapes differ, or the target is not finite or its known part everywhere.

    Notes
    -----
    Computed in float64, whatever the arrays hold: whole numbers of few bits would wrap around, and a sum of squares in
    half precision overflow. Of predictions that are not finite the error is infinite or NaN.
    """
    xp = namespace(predicted, target) if known is None else namespace(predicted, target, known)
    shapes = {tuple(array.shape) for array in (predicted, target, known) if array is not None}
    if len(shapes) != 1:
        raise ValueError(f"The outputs have shapes {sorted(shapes)}: they must be equal.")
    for name, array in (("predicted", predicted), ("target", target), ("known", known)):
        if array is not None and not xp.isdtype(array.dtype, ("real floating", "integral")):
            raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")
    if not all(next(iter(shapes))):
        raise ValueError(f"The outputs have shape {next(iter(shapes))}: at least one entry is needed.")
    predicted, target, known = _doubles(
        predicted, target, np.zeros((1,) * target.ndim) if known is None else known
    )
    for name, array in (("target", target), ("known", known)):
        require_finite(name, array)
    missed, unknown = predicted - target, target - known
    missed_unit, unit = (float(np.max(np.abs(part))) for part in (missed, unknown))
    if unit == 0:
        raise ValueError(
            "The target has no unknown part on these examples: an error relative to it has no meaning."
        )
    if missed_unit == 0 or not np.isfinite(missed_unit):
        return missed_unit
    # each in units of its own largest entry, so that no square over- or underflows, however far apart they are
    error = float(np.sum((missed / missed_unit) ** 2))
    energy = float(np.sum((unknown / unit) ** 2))
    return missed_unit / unit * float(np.sqrt(error / energy))


def _doubles(*arrays: Any) -> list[np.ndarray]:
    """The arrays in double precision, all of them smaller by one power of two where a difference would overflow."""
    found = [np.asarray(to_numpy(array), dtype=np.float64) for array in arrays]
    edge = np.finfo(np.float64).max / 2
    if any(np.any((np.abs(array) > edge) & np.isfinite(array)) for array in found):
        found = [array / 2 for array in found]
    return found


@dataclass(frozen=True)
class ParameterErrors:
    """Relative Frobenius errors of matched heads.

    Attributes
    ----------
    theta, w : array (m,)
        |Theta^_i - Theta_i| / |Theta_i| and the same for W, in the order of the true heads.
    matching : array (m,)
        Which fitted head was matched to each true one.
    """

    theta: Float[np.ndarray, " m"]
    w: Float[np.ndarray, " m"]
    matching: Int[np.ndarray, " m"]


@checked
def parameter_errors(fitted: AttentionLayer, truth: AttentionLayer) -> ParameterErrors:
    """Match the heads of two layers (Hungarian algorithm) and give each head's relative errors.

    Raises
    ------
    ValueError
        If the layers differ in heads or dimension.

    Notes
    -----
    Heads are identified up to permutation only. Where a head is not identifiable at all (W_i = 0, equal
    heads), look at the error of the function instead. A zero head has its error relative to 1. O(m^2 d^2 + m^3).
    """
    from scipy.optimize import linear_sum_assignment

    if (fitted.heads, fitted.dim) != (truth.heads, truth.dim):
        raise ValueError(
            f"The layers have {fitted.heads} and {truth.heads} heads in {fitted.dim} and {truth.dim} dimensions: "
            "parameters compare only when both agree; compare the functions instead."
        )
    theta, w = (
        _pairwise_relative(to_numpy(getattr(fitted, name)), to_numpy(getattr(truth, name)))
        for name in ("theta", "w")
    )
    _, matching = linear_sum_assignment(theta + w)
    heads = np.arange(truth.heads)
    return ParameterErrors(theta=theta[heads, matching], w=w[heads, matching], matching=matching)


def _pairwise_relative(fitted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The relative errors of all fitted heads (columns) on all true ones (rows)."""
    fitted, truth = (np.asarray(array, dtype=np.float64) for array in (fitted, truth))
    relative = np.empty((len(truth), len(fitted)))
    # each true head in units of its own largest entry: next to a head that is 1e200 times as large it is no zero
    with np.errstate(over="ignore", invalid="ignore"):
        for row, head in zip(relative, truth, strict=True):
            unit = float(np.abs(head).max()) or 1.0
            own = head / unit
            # differences, not expanded squares: those lose half the digits when heads agree
            gaps = fitted / unit - own
            row[:] = _frobenius(gaps) / (_frobenius(own[None])[0] or 1.0)
    return np.minimum(relative, np.finfo(float).max / 4)  # the matching adds two of them


def _frobenius(matrices: np.ndarray) -> np.ndarray:
    """Frobenius norms whose squares neither over- nor underflow."""
    largest = np.abs(matrices).max(axis=(1, 2))
    usable = (largest > 0) & np.isfinite(largest)
    unit = np.where(usable, largest, 1.0)
    return np.where(usable, unit * np.linalg.norm(matrices / unit[:, None, None], axis=(1, 2)), largest)
