"""Hard families from lattice assumptions: layers of two tokens whose outputs are learning-with-rounding labels."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attention import BooleanInputs
from attention.inputs import Rng
from attention.validation import count, finite_number
from lower import SATURATED_SLOPE, HardInstance, LinearKnownPart, Staircase
from lwe.certificate import lwr_certificate
from lwe.description import FAMILY
from lwe.heads import kept_range, lwr_layer, lwr_staircase, value_range
from lwe.laws import NO_NOISE, UNIFORM, IntegerLaw
from lwe.parameters import LWRParameters, Matrix, centred, covariate_form, require_matrix, require_parameters
from lwe.verdict import judge_secret

__all__ = ["lwr_instance", "make_lwr_instance"]

_MOST_NUMBERS = 1 << 28  # two gigabytes an array


def make_lwr_instance(
    *,
    secret_dim: int,
    modulus: int,
    levels: int,
    matrix: Matrix = "binary",
    secret_law: IntegerLaw = UNIFORM,
    noise: IntegerLaw = NO_NOISE,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    beta: float = SATURATED_SLOPE,
    deviations: float | None = None,
) -> HardInstance:
    """Draw a layer on two tokens that outputs learning-with-rounding labels of a secret.

    The same as `lwr_instance`, with the parameters named one by one.

    Parameters
    ----------
    secret_dim, modulus, levels, matrix, noise
        See `LWRParameters`.
    secret_law : IntegerLaw
        From which distribution the secret is drawn; `LWRParameters.secret`.
    rng, secret, beta, deviations
        See `lwr_instance`.

    Returns
    -------
    HardInstance
        Of the family "lwr".

    Raises
    ------
    ValueError
        As of `LWRParameters` and `lwr_instance`.

    Notes
    -----
    *Assumption.* That the problem is hard which `LWRParameters.assumption` names: for most choices of the parameters a
    variant of learning with rounding, and for some an easy one. Nothing here is a claim of security.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> instance = make_lwr_instance(secret_dim=8, modulus=16, levels=2, rng=0)
    >>> instance.layer.dim, instance.known.is_zero
    (9, True)
    """
    secret_dim = count("secret_dim", secret_dim, least=1)
    modulus = count("modulus", modulus, least=2)
    levels = count("levels", levels, least=1)
    require_matrix(matrix)
    beta = finite_number("beta", beta)
    if deviations is not None:
        deviations = finite_number("deviations", deviations)
    parameters = LWRParameters(
        secret_dim=secret_dim, modulus=modulus, levels=levels, matrix=matrix, secret=secret_law, noise=noise
    )
    return lwr_instance(parameters, rng=rng, secret=secret, beta=beta, deviations=deviations)


def lwr_instance(
    parameters: LWRParameters,
    *,
    rng: Rng = None,
    secret: ArrayLike | None = None,
    beta: float = SATURATED_SLOPE,
    deviations: float | None = None,
) -> HardInstance:
    """Draw a layer on two tokens that outputs learning-with-rounding labels of a secret.

    With the gate coordinate 0, the centred integer form v of the secret and T = <v, a>, both rows are 0 off the gate,
    and on it row r is x_r0 (floor(p (T mod q)/q) - (p - 1)/2) e_0. The known part is zero. The covariates are
    a_j = 1[x_1j != x_2j] (binary and gadget) or a_j = x_10 (x_1j - x_2j)/2 (ternary), independent of one another.

    Parameters
    ----------
    parameters : LWRParameters
        The problem; its matrix binary, ternary or gadget. The layer is free of its noise, which
        `lwe.noisy_examples` adds to the labels.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the secret from its law.
    secret : array of int (secret_dim,), optional
        The secret, to choose it oneself; any representatives mod q of what the law can draw.
    beta : float
        The slope of the heads; at 40 the float64 layer is exact. It must be large enough for the proved error
        bound, 2 max|c| / sinh beta for coefficients c, to stay below 1/2, half the distance of two labels.
    deviations : float, optional
        Heads only for the jumps within so many standard deviations of the mean of T, at least 2; for T beyond, the
        label is held at the last one. All jumps if left out.

    Returns
    -------
    HardInstance
        Of the family "lwr"; its secret is centred mod q, or in [0, q) in the gadget family. Its certificate holds
        the assumption, the numbers of the secret, and a verdict.

    Raises
    ------
    ValueError
        If the matrix is uniform, the secret does not fit, the slope is too small to tell labels apart, or the layer
        or its certificate would be too large.

    Notes
    -----
    *Assumption.* Gadget with uniform secrets, p < q and no noise: standard learning with rounding with a
    power-of-two modulus. Binary and ternary: learning with rounding with such a public matrix, variants.
    q = p = 2: parity, easy without noise, learning parity with noise with flips. p = q with errors: learning with
    errors, with a binary or ternary public matrix or in the gadget family standard. Small secrets: variants with
    such secrets, which hardly wrap around unless q is tiny. Nothing here is a claim of security.

    *Truncation.* The realisation error is against the target whose label is held beyond the range. That is the label
    itself for all but a share of 2 e^(-deviations^2 / 2) of the covariates, by Hoeffding's inequality:
    2 e^-18 for 6.

    *Size.* One head for each jump of the label, about p |v|_1 / q of them (ternary: twice as many), and two pads:
    O(m d^2) numbers. The certificate takes O(n^2 q).

    References
    ----------
    Derived here. Chen and Li, arXiv 2402.04084, prove hardness under a variant of learning with errors; which of
    its variants theirs is, these instances do not claim.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=256, modulus=64, levels=2)
    >>> lwr_instance(parameters, rng=0).layer.heads, lwr_instance(parameters, rng=0, deviations=6.0).layer.heads
    (126, 56)
    """
    require_parameters(parameters)
    _, stairs, stated = described_parts(parameters, rng=rng, secret=secret, beta=beta, deviations=deviations)
    return HardInstance(family=FAMILY, layer=lwr_layer(stairs, parameters.matrix), **stated)


def described_parts(
    parameters: LWRParameters,
    *,
    rng: Rng = None,
    secret: ArrayLike | None,
    beta: float,
    deviations: float | None,
) -> tuple[np.ndarray, Staircase, dict[str, Any]]:
    """The form, the heads and all parts of an instance but its layer, which can be large."""
    beta = finite_number("beta", beta)
    if deviations is not None:
        deviations = finite_number("deviations", deviations)
    if parameters.matrix == "uniform":
        raise ValueError(
            f"{parameters} has a uniform public matrix, which no heads realise: take matrix='gadget' with q a power "
            "of two, or make_samples for samples without heads."
        )
    secret = _secret(parameters, secret, rng)
    form = covariate_form(secret, parameters)
    ends = value_range(form, parameters.matrix)
    if deviations is not None:
        ends = kept_range(form, parameters.matrix, deviations)
    heads = parameters.levels * (ends[1] - ends[0]) / parameters.modulus + 2
    if heads * parameters.dim**2 > _MOST_NUMBERS:
        raise ValueError(
            f"{parameters} needs about {heads:.0f} heads of {parameters.dim}^2 numbers, too many to store: "
            "take fewer levels, a smaller secret, or a range of 6 deviations."
        )
    verdict = judge_secret(secret, parameters)
    stairs = lwr_staircase(form, parameters, beta=beta, deviations=deviations)
    bound = stairs.error_bound()
    if not bound.value < 0.5:
        _refuse_slope(stairs, beta, bound.value)
    public = {**parameters.to_json(), "gate": stairs.gate, "beta": float(beta)}
    if deviations is not None:
        public["deviations"] = float(deviations)
    stated = {
        "inputs": BooleanInputs(k=2, d=parameters.dim),
        "secret": secret,
        "known": LinearKnownPart.zero(2, parameters.dim),
        "certificate": lwr_certificate(form, stairs, parameters, bound, verdict, deviations),
        "realisation_error": bound.value,
        "parameters": public,
    }
    return form, stairs, stated


def _secret(parameters: LWRParameters, given: ArrayLike | None, rng: Rng) -> np.ndarray:
    q = parameters.modulus
    if given is None:
        secret = parameters.secret.draw(parameters.secret_dim, q, rng=rng)
    else:
        covariate_form(given, parameters)  # held to its shape and type
        secret = centred(given, q)
        if not parameters.secret.allows(secret, q):
            raise ValueError(
                f"secret is {_shown(secret)}, which the law {parameters.secret} does not draw: take another, or leave "
                "the law uniform."
            )
    return np.mod(secret, q) if parameters.gadget else secret


def _shown(secret: np.ndarray) -> str:
    entries = ", ".join(str(one) for one in secret[:8])
    return f"({entries}{', ...' if len(secret) > 8 else ''})"


def _refuse_slope(stairs: Staircase, beta: float, error: float) -> None:
    least = math.asinh(4 * float(np.abs(stairs.coefficients).max()))
    raise ValueError(
        f"beta is {beta}: at this slope a label is off by up to {error:.3g}, and labels are 1 apart; take "
        f"a slope above {least:.3g} and below 1e9 (40 makes the float64 layer exact)."
    )
