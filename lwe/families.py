"""Hard families from lattice assumptions: layers of two tokens whose outputs are learning-with-rounding labels."""

import math

import numpy as np
from numpy.typing import ArrayLike

from attention import BooleanInputs
from attention.inputs import Rng
from lower import (
    SATURATED_SLOPE,
    Certificate,
    ErrorBound,
    HardInstance,
    LinearKnownPart,
    Staircase,
    Statement,
)
from lwe.parameters import LWRParameters, covariate_form, rounded
from lwe.uniformity import total_variation_from_uniform, wrap_ratio

__all__ = ["lwr_staircase", "make_lwr_instance"]

_FAMILY = "lwr"
_MOST_NUMBERS = 1 << 28  # two gigabytes an array


def make_lwr_instance(
    *,
    secret_dim: int,
    modulus: int,
    levels: int,
    gadget: bool = False,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    beta: float = SATURATED_SLOPE,
) -> HardInstance:
    """Draw a layer on two tokens that outputs learning-with-rounding labels of a secret.

    With the gate coordinate 0, covariates a_j = 1[x_1j != x_2j] (uniform and independent), the centred integer
    form v of the secret and T = <v, a>, both rows are 0 off the gate, and on it row r is
    x_r0 (floor(p (T mod q)/q) - (p - 1)/2) e_0. The known part is zero.

    Parameters
    ----------
    secret_dim, modulus, levels, gadget
        See `LWRParameters`.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret uniformly mod q.
    secret : array of int (secret_dim,), optional
        The secret, to choose it oneself; any representatives mod q.
    beta : float
        The slope of the heads; at 40 the float64 layer is exact. It must be large enough for the proved error
        bound, 2 max|c| / sinh beta for coefficients c, to stay below 1/2, half the distance of two labels.

    Returns
    -------
    HardInstance
        Of the family "lwr"; its secret is centred mod q in the plain family, in [0, q) in the gadget family.

    Raises
    ------
    ValueError
        If a parameter is out of its range, the secret does not fit, the slope is too small to tell labels apart,
        or the layer or its certificate would be too large.

    Notes
    -----
    One head for each jump of the label as T grows, about p |v|_1 / q of them, and two pads: O(m d^2) numbers. The
    certificate costs O(n q) additions of big integers.

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, prove hardness under a variant of learning with errors; which of
    its variants theirs is, these instances do not claim.

    Examples
    --------
    >>> instance = make_lwr_instance(secret_dim=8, modulus=16, levels=2, rng=0)
    >>> instance.layer.dim, instance.known.is_zero
    (9, True)
    """
    parameters = LWRParameters(secret_dim=secret_dim, modulus=modulus, levels=levels, gadget=gadget)
    if secret is None:
        secret = np.random.default_rng(rng).integers(parameters.modulus, size=parameters.secret_dim)
    form = covariate_form(secret, parameters)
    distance = total_variation_from_uniform(form, parameters.modulus)
    heads = parameters.levels * np.abs(form).sum() / parameters.modulus + 2
    if heads * parameters.dim**2 > _MOST_NUMBERS:
        raise ValueError(
            f"{parameters} needs about {heads:.0f} heads of {parameters.dim}^2 numbers, too many to store: "
            "take fewer levels or a smaller secret."
        )
    stairs = lwr_staircase(form, parameters, beta=beta)
    bound = stairs.error_bound()
    if not bound.value < 0.5:
        least = math.asinh(4 * float(np.abs(stairs.coefficients).max()))
        raise ValueError(
            f"beta is {beta}: at this slope a label is off by up to {bound.value:.3g}, and labels are 1 apart; take "
            f"a slope above {least:.3g} and below 1e9 (40 makes the float64 layer exact)."
        )
    return HardInstance(
        family=_FAMILY,
        layer=stairs.layer(),
        inputs=BooleanInputs(k=2, d=parameters.dim),
        secret=np.mod(np.asarray(secret), parameters.modulus) if parameters.gadget else form,
        known=LinearKnownPart.zero(2, parameters.dim),
        certificate=_certificate(form, stairs, parameters, bound, float(distance)),
        realisation_error=bound.value,
        parameters={
            "secret_dim": parameters.secret_dim,
            "modulus": parameters.modulus,
            "levels": parameters.levels,
            "gadget": parameters.gadget,
            "gate": 0,
            "beta": float(beta),
        },
    )


def lwr_staircase(form: np.ndarray, parameters: LWRParameters, *, beta: float = SATURATED_SLOPE) -> Staircase:
    """The staircase of f(T) - (p - 1)/2 with T = <v, a> for v = `form`, one head a jump, and two pads.

    Notes
    -----
    A head at each T + 1/2 where f jumps, with half the jump as its coefficient, gives f(T) - c0 with
    c0 = (f(sum v^-) + f(sum v^+))/2 and off the gate C = the sum of the coefficients; both depend on the secret. The
    pads, one below and one above all values of T, have coefficients (c0 - (p-1)/2 - C)/2 and
    (-C - c0 + (p-1)/2)/2. Their sum is -C, and on the gate they add c0 - (p-1)/2: the known part becomes zero.
    All coefficients are multiples of 1/4, so sums of them are exact in floating point.
    """
    q, p = parameters.modulus, parameters.levels
    least, most = int(form[form < 0].sum()), int(form[form > 0].sum())
    starts = -(-np.arange(p) * q // p)  # the residues at which the label changes: ceil(j q / p)
    periods = np.arange(least // q, most // q + 1)
    jumps = np.add.outer(periods * q, starts).ravel()
    jumps = jumps[(jumps > least) & (jumps <= most)]
    steps = (rounded(jumps, q, p) - rounded(jumps - 1, q, p)) / 2
    ends = rounded(np.array([least, most]), q, p)
    c, c0 = float(steps.sum()), float(ends.sum()) / 2
    pads = (c0 - parameters.centre - c) / 2, (-c - c0 + parameters.centre) / 2
    return Staircase(
        form=np.concatenate([[0], form]),
        thresholds=np.concatenate([[least - 0.5], jumps - 0.5, [most + 0.5]]),
        coefficients=np.concatenate([[pads[0]], steps, [pads[1]]]),
        slopes=beta,
    )


def _certificate(
    form: np.ndarray, stairs: Staircase, parameters: LWRParameters, bound: ErrorBound, distance: float
) -> Certificate:
    rho = wrap_ratio(form, parameters.modulus)
    wraps = (
        "the sum wraps around"
        if rho >= 0.5
        else "below 0.5, so the sum hardly wraps around: expect an easy one"
    )
    return Certificate(
        _FAMILY,
        (
            Statement(
                "assumption",
                str(parameters),
                parameters.assumption,
                "derived",
                "Banerjee, Peikert and Rosen 2012",
            ),
            Statement(
                "rho",
                rho,
                f"|v|_2 / (2q), the standard deviation of the inner product in units of q; {wraps}.",
                "derived",
                "Exact for this secret",
            ),
            Statement(
                "distance from uniform",
                distance,
                "Total variation distance of the inner product mod q from uniform, over uniform covariates.",
                "proved",
                "lwe.total_variation_from_uniform, exact dynamic programming",
            ),
            Statement(
                "heads",
                stairs.heads,
                f"{stairs.heads - 2} jumps of the label and two pads; |v|_1 p / q is "
                f"{np.abs(form).sum() * parameters.levels / parameters.modulus:.4g}.",
                "derived",
                "Derived here; exact for this secret",
            ),
            Statement(
                "realisation error",
                bound.value,
                "Bound on the row norm of the layer minus its ideal target, in exact arithmetic; evaluating the layer "
                "in float64 adds rounding of about eps sum|c| = "
                f"{np.finfo(np.float64).eps * np.abs(stairs.coefficients).sum():.1e}, and none where the softmax is "
                "saturated (slope 40).",
                "proved",
                f"lower.Staircase.error_bound: {bound.reason}",
            ),
            Statement(
                "what is claimed",
                "no security",
                "A learner of this family would solve the problem named above; that an attack fails here is no "
                "claim of security.",
                "derived",
                "Derived here",
            ),
        ),
    )
