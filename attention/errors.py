"""Error measures: of outputs, relative to the unknown part, and of the parameters of matched heads."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention._arrays import namespace, to_numpy
from attention.evaluation import norm_ratio
from attention.layer import AttentionLayer
from attention.validation import checked, require_array


def relative_error(predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"]) -> float:
    """sqrt(E||F^ - F||^2 / E||F||^2) over the given outputs; predicting zero gives 1.0.

    A ValueError if the shapes differ, or the target is not finite, or it is zero everywhere.
    """
    return unknown_part_error(predicted, target, None)


def unknown_part_error(
    predicted: Shaped[Any, "*n k d"], target: Shaped[Any, "*n k d"], known: Shaped[Any, "*n k d"] | None
) -> float:
    """sqrt(E||F^ - F||^2 / E||F - K||^2) with K the known part (zero if None).

    1.0 means "learned nothing beyond what is known in advance"; above 1.0 is worse. It is computed in float64 for
    every dtype. If the predictions are not finite, the error is infinite or NaN. A ValueError if the shapes differ, or
    the target is not finite, or it equals its known part everywhere.
    """
    given = {"predicted": predicted, "target": target, "known": known}
    given = {name: array for name, array in given.items() if name != "known" or array is not None}
    xp = namespace(*given.values())
    for name, array in given.items():
        if tuple(array.shape) != tuple(target.shape) or not all(array.shape):
            raise ValueError(
                f"{name} has shape {tuple(array.shape)}: one shape of all outputs is needed, not empty."
            )
        if not xp.isdtype(array.dtype, ("real floating", "integral")):
            raise ValueError(f"{name} is an array of {array.dtype}: real numbers are needed.")
    parts = {name: np.asarray(to_numpy(array), dtype=np.float64) for name, array in given.items()}
    for name in given.keys() - {"predicted"}:
        require_array(name, parts[name])
    unknown = parts["target"] - parts.get("known", 0.0)
    if not np.any(unknown):
        raise ValueError(
            "The target has no unknown part on these examples: an error relative to it has no meaning."
        )
    return norm_ratio(parts["predicted"] - parts["target"], unknown)


@dataclass(frozen=True)
class ParameterErrors:
    """Relative Frobenius errors of matched heads."""

    #: |Theta^_i - Theta_i| / |Theta_i| and the same for W, in the order of the true heads
    theta: Float[np.ndarray, " m"]
    w: Float[np.ndarray, " m"]
    matching: Int[np.ndarray, " m"]  #: which fitted head was matched to each true one
    #: the same for the c_i, and for b; zero if neither layer has biases
    key_bias: Float[np.ndarray, " m"]
    bias: float


@checked
def parameter_errors(fitted: AttentionLayer, truth: AttentionLayer) -> ParameterErrors:
    """Match the heads of two layers of one shape (Hungarian algorithm) and give each head's relative errors.

    Heads are identified up to permutation only. Where a head is not identifiable at all (W_i = 0, equal
    heads), look at the error of the function instead. For a zero head, the error is absolute. O(m^2 d^2 + m^3).
    """
    from scipy.optimize import linear_sum_assignment

    if (fitted.heads, fitted.dim) != (truth.heads, truth.dim):
        raise ValueError(
            f"The layers have {fitted.heads} and {truth.heads} heads in {fitted.dim} and {truth.dim} dimensions: "
            "parameters compare only when both agree; compare the functions instead."
        )
    theta, w = (
        pairwise_relative(to_numpy(getattr(fitted, name)), to_numpy(getattr(truth, name)))
        for name in ("theta", "w")
    )
    _, matching = linear_sum_assignment(theta + w)
    heads = np.arange(truth.heads)
    return ParameterErrors(
        theta=theta[heads, matching],
        w=w[heads, matching],
        matching=matching,
        key_bias=pairwise_relative(_biases(fitted, "key_bias"), _biases(truth, "key_bias"))[heads, matching],
        bias=float(pairwise_relative(_biases(fitted, "bias"), _biases(truth, "bias"))[0, 0]),
    )


def _biases(layer: AttentionLayer, name: str) -> np.ndarray:
    """The c_i or b as matrices of one row, (m, 1, d) or (1, 1, d); zero if the layer has none."""
    shape = (layer.heads if name == "key_bias" else 1, 1, layer.dim)
    array = getattr(layer, name)
    return np.zeros(shape) if array is None else to_numpy(array).reshape(shape)


def pairwise_relative(fitted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The relative errors of all fitted heads (columns) on all true ones (rows)."""
    fitted, truth = (np.asarray(array, dtype=np.float64) for array in (fitted, truth))
    relative = np.empty((len(truth), len(fitted)))
    with np.errstate(over="ignore", invalid="ignore"):
        for row, head in zip(relative, truth, strict=True):
            # divide by the head's own largest entry, so that it counts even if another head is 1e200 times as large
            unit = float(np.abs(head).max()) or 1.0
            # differences, not expanded squares: those lose half the digits when heads agree
            gaps = np.linalg.norm(fitted / unit - head / unit, axis=(1, 2))
            row[:] = gaps / (np.linalg.norm(head / unit) or 1.0)
    return np.minimum(relative, np.finfo(float).max / 4)  # the matching adds two of them
