"""A start by moments: heads from the cross-moments of tokens and labels, near enough that a run skips its first part.

The cross-moments T are about a multiple of sum_i vec(Theta_i) vec(W_i)^T (see `upper.newton.spectral`). So their
leading singular vectors nearly span the Theta_i, and the W_i. The m^2 coefficients of the Theta_i in that span are
fitted to a few examples, and those of the W_i are eliminated.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from upper.newton.spectral import CrossMoments

# Vectors of each block of the Krylov space beyond the number of heads.
_MORE_VECTORS = 2
# Equations for each coefficient that is fitted; with 32 some fits end in a local minimum, 128 take twice the time.
_EQUATIONS = 64
# The ridge on the coefficients of W, in units of the mean diagonal: products are in float32.
_RIDGE = 1e-5
_STEPS = 20  # of the fit; it takes 5 to 12
_LEAST_GRADIENT = 3e-3  # at which it ends, in units of the squared labels


def heads_by_moments(
    x: Float[np.ndarray, "n k d"],
    y: Float[np.ndarray, "n k d"],
    heads: int,
    *,
    causal: bool = False,
    rng: np.random.Generator,
) -> Float[np.ndarray, "m d d"]:
    """Estimates of the attention matrices Theta_i from examples, for a run to start from.

    Parameters
    ----------
    x, y : array (n, k, d)
        Examples; tokens are independent and isotropic, of a size near 1.
    heads : int
        The number m of heads.
    causal : bool
        Whether row a sees the tokens up to a only.
    rng : Generator
        Draws the first block of the Krylov space, and the start of the fit.

    Notes
    -----
    Derived here and measured, not proved. On nice layers at four counting floors the true Theta_i have cosines of .6 to
    .8 with the span, and the W_i .7 to .95. The estimates have cosines of .5 to .8 with the Theta_i. From more logits'
    deviation than 4 they are no better than random ones.

    The moments take eleven products of T or its transpose with m + 2 matrices, each about a pass over the examples; the
    fit takes about 64 m^6 multiplications a step in float32.
    """
    from scipy.optimize import minimize  # slow to import, and only large layers need it

    moments = CrossMoments(x, y, causal).leading(heads + _MORE_VECTORS, rng)
    left, right = moments[0][:heads], moments[2][:heads]
    few = math.ceil(_EQUATIONS * 2 * heads**2 / x[0].size)
    fit = _Coefficients(x[:few], y[:few], left, right, causal)
    found = minimize(
        fit.cost,
        rng.standard_normal(heads**2) / math.sqrt(heads),
        jac=fit.gradient,
        hess=fit.hessian,
        method="trust-exact",
        options={
            "maxiter": _STEPS,
            "initial_trust_radius": math.sqrt(heads),
            "gtol": _LEAST_GRADIENT * fit.energy,
        },
    )
    return np.tensordot(found.x.reshape(heads, heads) / fit.sizes, left, axes=1)


class _Coefficients:
    """Half the squared residual of heads Theta_i = sum_j a_ij U_j, and its derivatives in a.

    W_i = sum_l b_il V_l is eliminated. The Hessian is that of Gauss and Newton, with Kaufman's approximation.
    """

    def __init__(
        self,
        x: Float[np.ndarray, "n k d"],
        y: Float[np.ndarray, "n k d"],
        left: Float[np.ndarray, "m d d"],
        right: Float[np.ndarray, "m d d"],
        causal: bool,
    ) -> None:
        x, left, right = (array.astype(np.float32) for array in (x, left, right))
        self._labels = y.astype(np.float32).reshape(-1)
        self.energy = float(self._labels @ self._labels)
        logits = x @ left[:, None] @ x.transpose(0, 2, 1)  # (m, n, k, k)
        #: the root mean square of the logits of each U_j; coefficients are in units of its inverse
        self.sizes = np.sqrt(np.mean(logits**2, axis=(1, 2, 3)))
        self._logits = logits / self.sizes[:, None, None, None]
        self._values = x @ right[:, None]  # (m, n, k, d)
        self._hidden = np.triu(np.full(x.shape[1:2] * 2, -np.inf, np.float32), 1) if causal else np.float32(0)
        self._at = np.empty(0)

    def cost(self, a: Float[np.ndarray, " mm"]) -> float:
        """Half the squared residual at the coefficients a of the Theta_i."""
        self._move_to(a)
        return float(self._misfit @ self._misfit) / 2

    def gradient(self, a: Float[np.ndarray, " mm"]) -> Float[np.ndarray, " mm"]:
        """The gradient there."""
        self._move_to(a)
        return -(self._derivative @ self._misfit).astype(float)

    def hessian(self, a: Float[np.ndarray, " mm"]) -> Float[np.ndarray, "mm mm"]:
        """The approximate Hessian there."""
        self._move_to(a)
        across = (self._features @ self._derivative.T).astype(float)
        square = (self._derivative @ self._derivative.T).astype(float)
        return square - across.T @ cho_solve(self._factor, across)

    def _move_to(self, a: np.ndarray) -> None:
        if np.array_equal(a, self._at):
            return
        self._at, m = a.copy(), len(self._logits)
        logits = np.tensordot(a.reshape(m, m).astype(np.float32), self._logits, axes=1) + self._hidden
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        pattern = weights / weights.sum(axis=-1, keepdims=True)
        self._features = (pattern[:, None] @ self._values).reshape(m * m, -1)
        gram = (self._features @ self._features.T).astype(float)
        gram += _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram))
        self._factor = cho_factor(gram)
        b = cho_solve(self._factor, (self._features @ self._labels).astype(float)).astype(np.float32)
        self._misfit = self._labels - b @ self._features
        outputs = np.tensordot(b.reshape(m, m), self._values, axes=1)
        change = pattern[:, None] * self._logits
        change -= pattern[:, None] * change.sum(axis=-1, keepdims=True)
        self._derivative = (change @ outputs[:, None]).reshape(m * m, -1)
