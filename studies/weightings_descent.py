"""Descent for layers with any weighting: L-BFGS on Theta, with W eliminated by least squares."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from attention.layer import contract, mix
from studies.weightings_layers import WeightedLayer, Weighting

__all__ = ["descend"]

_RIDGE = 1e-13  # in units of the mean diagonal: reads of two equal heads have a singular Gram matrix
_HISTORY = 30
_RESIDUAL = 1e-8  # stop at this residual


def descend(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    theta: Float[np.ndarray, "m d d"],
    weighting: Weighting,
    *,
    passes: int,
) -> tuple[WeightedLayer, int]:
    """Minimise |Y - F(X)|^2 over Theta from a start, W the least squares solution at every Theta.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples.
    theta : array (m, d, d)
        The start.
    weighting : Weighting
        The student's.
    passes : int
        The largest number of evaluations, each with the derivative.

    Returns
    -------
    layer : WeightedLayer
        The best layer.
    passes : int
        Evaluations of the residual and its derivative.

    Notes
    -----
    With W optimal, the closed derivative in Theta is that at fixed W. O(n k m d (d + k + m d)) per evaluation.
    """
    d, m = x.shape[2], len(theta)
    labels = y.reshape(-1, d)
    energy = float(np.vdot(labels, labels))
    best: dict[str, Any] = {"loss": np.inf, "theta": theta, "w": np.zeros_like(theta)}

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        heads = flat.reshape(m, d, d)
        logits = contract(x, heads, np)
        read = mix(weighting.pattern(logits), x, np)
        gram = read.T @ read
        gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
        w = cho_solve(cho_factor(gram), read.T @ labels)
        residual = read @ w - labels
        value = float(np.vdot(residual, residual)) / energy
        if value < best["loss"]:
            best.update(loss=value, theta=heads.copy(), w=w.reshape(m, d, d))
        # (n k, m d) against the tokens of the same example
        pull = np.matmul((residual @ w.T).reshape(len(x), -1, d), np.swapaxes(x, 1, 2)).reshape(logits.shape)
        back = mix(weighting.vjp(logits, pull), x, np).reshape(-1, m, d)
        gradient = np.einsum("ri,rmj->mij", x.reshape(-1, d), back, optimize=True)
        return value, (2 / energy) * gradient.ravel()

    def enough(_: np.ndarray) -> None:
        if best["loss"] <= _RESIDUAL**2:
            raise StopIteration

    found = minimize(
        loss,
        theta.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=enough,
        options={"maxcor": _HISTORY, "maxiter": passes, "maxfun": passes, "ftol": 0.0, "gtol": 0.0},
    )
    return WeightedLayer(theta=best["theta"], w=best["w"], weighting=weighting), int(found.nfev)
