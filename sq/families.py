"""Hard families for statistical queries: layers of two tokens that hide a parity of l bits behind a gate."""

from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from attention import BooleanInputs
from attention._arrays import count, require_finite
from attention.inputs import Rng
from lower import (
    SATURATED_SLOPE,
    Certificate,
    HardInstance,
    Statement,
    number_of_parities,
    query_lower_bound,
)
from sq.heads import Construction, ParityHeads, parity_heads

__all__ = ["make_parity_instance"]

_FAMILY = "sq-parity"
_TOLERANCES = ("0.3", "0.1", "0.05")


def make_parity_instance(
    *,
    dim: int,
    bits: int | None = None,
    construction: Construction = "D",
    heads: int | None = None,
    beta: float = SATURATED_SLOPE,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    direction: ArrayLike | None = None,
) -> HardInstance:
    """Draw a layer on two tokens that hides the parity of a secret set of coordinates.

    With the gate coordinate 0, u = (x_1 - x_2)/2, a = (x_1 + x_2)/2, y_j = x_1j x_2j and a secret set S of l
    other coordinates, F(X) = K(X) + u_0 chi_S(y) [1; -1] w^T with chi_S = prod_{j in S} y_j and the known
    part K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T, which is the same for every S.

    Parameters
    ----------
    dim : int
        The number d of coordinates of a token, more than `bits`.
    bits : int, optional
        The number l of hidden bits; what the heads hide at most when left out.
    construction : {"B", "D"}
        B, saturated: l heads. D, minimal: floor(l/2) + 1 heads, so m heads hide up to 2m - 1 bits.
    heads : int, optional
        The number m of heads; what the bits need when left out. Two if neither is given.
    beta : float
        The slope of construction B (D has its own slopes).
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret.
    secret : array of int (l,), optional
        The coordinates in S, to choose them oneself.
    direction : array (d,), optional
        The output direction w, scaled to norm 1; the gate's unit vector when left out.

    Returns
    -------
    HardInstance
        Of the family "sq-parity"; its secret is S in increasing order.

    Raises
    ------
    ValueError
        If heads and bits contradict each other, the dimension is too small, or the secret is not a set of l
        coordinates other than the gate.

    Notes
    -----
    The C(d - 1, l) targets are pairwise orthogonal once K is taken off. O(m d^2).

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, state the lower bound d^Omega(m) already for two tokens;
    these are not their instances.

    Examples
    --------
    >>> instance = make_parity_instance(dim=16, heads=2, rng=0)
    >>> instance
    HardInstance(family='sq-parity', heads=2, tokens=2, dim=16)
    >>> len(instance.secret), instance.certificate["targets"].value
    (3, 455)
    """
    dim = count("dim", dim, least=2)
    if construction not in get_args(Construction):
        raise ValueError(
            f"construction is {construction!r}: {' or '.join(get_args(Construction))} is needed."
        )
    if secret is not None and bits is None:
        bits = np.size(np.asarray(secret))
    bits = _hidden_bits(construction, bits, heads)
    if bits > dim - 1:
        raise ValueError(
            f"dim is {dim} and bits {bits}: at least {bits + 1} coordinates are needed, one of them the gate."
        )
    chosen = _secret(secret, bits, dim, rng)
    w = _unit_direction(direction, dim)
    own = parity_heads(construction, bits=bits, beta=beta)
    error = own.layer_error(w)
    parameters: dict[str, Any] = {
        "construction": construction,
        "bits": bits,
        "gate": 0,
        "direction": w.tolist(),
        "thresholds": own.thresholds.tolist(),
        "coefficients": own.coefficients.tolist(),
        "slopes": own.slopes.tolist(),
    }
    return HardInstance(
        family=_FAMILY,
        layer=own.staircase(chosen, dim=dim, gate=0, direction=w).layer(),
        inputs=BooleanInputs(k=2, d=dim),
        secret=chosen,
        known=own.known(gate=0, direction=w),
        certificate=_certificate(own, dim, error),
        realisation_error=error,
        parameters=parameters,
    )


def _hidden_bits(construction: Construction, bits: int | None, heads: int | None) -> int:
    heads = None if heads is None else count("heads", heads)
    if bits is None:
        m = 2 if heads is None else heads
        return m if construction == "B" else 2 * m - 1
    bits = count("bits", bits)
    needed = bits if construction == "B" else bits // 2 + 1
    if heads is not None and heads != needed:
        raise ValueError(
            f"heads is {heads} and bits {bits}: construction {construction} needs {needed} heads for {bits} "
            "bits; give one of the two and leave the other out."
        )
    return bits


def _secret(secret: ArrayLike | None, bits: int, dim: int, rng: Rng) -> np.ndarray:
    if secret is None:
        return np.sort(1 + np.random.default_rng(rng).choice(dim - 1, size=bits, replace=False))
    chosen = np.asarray(secret)
    if (
        chosen.shape != (bits,)
        or chosen.dtype.kind not in "iu"
        or len(np.unique(chosen)) != bits
        or np.any((chosen < 1) | (chosen >= dim))
    ):
        raise ValueError(
            f"secret is {secret}: {bits} distinct coordinates from 1 to {dim - 1} are needed (0 is the gate)."
        )
    return np.sort(chosen)


def _unit_direction(direction: ArrayLike | None, dim: int) -> np.ndarray:
    if direction is None:
        return np.eye(dim)[0]
    w = np.array(direction, dtype=np.float64)
    if w.shape != (dim,) or not w.any():
        raise ValueError(f"direction has shape {w.shape}: {dim} entries, not all zero, are needed.")
    require_finite("direction", w)
    return w / np.linalg.norm(w)


def _certificate(heads: ParityHeads, dim: int, error: float) -> Certificate:
    bits, shared = heads.bits, heads.c**2 + heads.c0**2
    targets = number_of_parities(dim, bits)
    here = "Derived here; checked over all secrets and inputs at d = 6"
    statements = [
        Statement(
            "targets",
            targets,
            f"{heads.heads} heads hide a parity of {bits} of {dim - 1} coordinates: C({dim - 1}, {bits}) "
            f"targets, of the order d^{bits}.",
            "derived",
            here,
        ),
        Statement(
            "correlation of two targets, known part off",
            0.0,
            "E<F_S - K, F_T - K> = 0 for S != T (and 1 for S = T): on the gate they are distinct characters.",
            "proved",
            "Orthogonality of characters",
        ),
        Statement(
            "Gram diagonal",
            shared + 1,
            "E|F_S|^2 over both rows, C^2 + c0^2 + 1.",
            "derived",
            here,
        ),
        Statement(
            "Gram off the diagonal",
            shared,
            "E<F_S, F_T> for S != T, C^2 + c0^2: all of it is the known part's.",
            "derived",
            here,
        ),
        Statement(
            "share of the energy that is unknown",
            1 / (shared + 1),
            "Report errors relative to this part: the rest is known in advance.",
            "derived",
            here,
        ),
        Statement(
            "lowest degree of the unknown part",
            2 * bits + 1,
            f"Every Fourier coefficient of F - K of degree below {2 * bits + 1} in the entries of X is zero.",
            "derived",
            here,
        ),
        *(
            Statement(
                f"queries at tolerance {tau}",
                query_lower_bound(targets, tau),
                "A deterministic learner that comes within E|H - F|^2 < kappa^2/2 = 1/2 of whichever of the targets "
                "F it is given (over both rows; kappa = 1 scales the hidden part, and coming so close identifies the "
                f"secret) needs at least this many correlational queries of tolerance {tau}; one scalar query "
                "counts one. A learner content with a larger error is not covered.",
                "proved",
                "lower.query_lower_bound",
            )
            for tau in _TOLERANCES
        ),
        Statement(
            "realisation error",
            error,
            "Upper bound on the row norm of the layer minus its ideal target, in exact arithmetic; evaluating the "
            "layer in float64 adds rounding of about eps sum|c| = "
            f"{np.finfo(np.float64).eps * np.abs(heads.coefficients).sum():.1e}.",
            "derived",
            "Enumeration of every reachable value to 50 digits, rounded outward",
        ),
        Statement(
            "what the bounds do not cover",
            "the low digits of the labels",
            _DIGITS[heads.construction],
            "derived",
            "Derived here",
        ),
        Statement(
            "who breaks it",
            "Gaussian elimination over GF(2)",
            f"No statistical-query algorithm: about {2 * (dim + 9)} noise-free examples give the secret.",
            "proved",
            "sq.ParityElimination",
        ),
    ]
    return Certificate(_FAMILY, tuple(statements))


_DIGITS = {
    "B": (
        "With exactly two-valued labels the bounds cover every statistical query. A finite slope leaks in "
        "the low digits; from slope 38 on the float64 softmax is exactly saturated and nothing is left."
    ),
    "D": (
        "With exactly two-valued labels the bounds cover every statistical query. Floating-point rounding "
        "leaves the labels off by a few units of precision: round them to 1e-9 before asking for digits."
    ),
}
