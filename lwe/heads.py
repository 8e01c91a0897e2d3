"""The heads that compute rounded inner products: one for each jump of the label, two pads, a range to cover."""

import math

import numpy as np
from jaxtyping import Int

from attention import AttentionLayer
from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import finite_number, non_negative, require_instance
from lower import SATURATED_SLOPE, Staircase
from lwe.parameters import LWRParameters, Matrix, require_form, require_matrix, require_parameters, rounded

__all__ = [
    "kept_range",
    "lwr_layer",
    "lwr_staircase",
    "require_deviations",
    "truncation_failure",
    "value_range",
]

_LEAST_DEVIATIONS = 2.0
_LARGEST_VALUE = 1 << 52  # of the inner product: what a threshold half a step off it can still be told from


def lwr_staircase(
    form: Int[np.ndarray, " n"],
    parameters: LWRParameters,
    *,
    beta: float = SATURATED_SLOPE,
    deviations: float | None = None,
) -> Staircase:
    """The staircase of f(T) - (p - 1)/2 with T = <v, a> for v = `form`, one head a jump, and two pads.

    Parameters
    ----------
    form : array of int (n,)
        The centred integer form v, without the gate.
    parameters : LWRParameters
        The modulus, the levels and the matrix, which says between which numbers T lies.
    beta : float
        The slope of the heads.
    deviations : float, optional
        Keep only the jumps within so many standard deviations of the mean of T; beyond them the label is held at
        that of the last value kept. All jumps if left out.

    Returns
    -------
    Staircase
        Its thresholds, coefficients and slopes. `lwr_layer` makes the layer of it; with ternary covariates the
        staircase's own `layer` and `reachable` are of binary ones, and not of these.

    Raises
    ------
    ValueError
        If the form is not one whole number for each covariate, or `deviations` is below 2.

    Notes
    -----
    A head at each T + 1/2 where f jumps, with half the jump as its coefficient, gives f(T) - c0 with
    c0 = (f(T_0) + f(T_1))/2 for the first and the last value kept, and off the gate C = the sum of the coefficients;
    both depend on the secret. The pads, one below and one above all values of T, have coefficients
    (c0 - (p-1)/2 - C)/2 and (-C - c0 + (p-1)/2)/2. Their sum is -C, and on the gate they add c0 - (p-1)/2: the known
    part becomes zero. All coefficients are multiples of 1/4, so sums of them are exact in floating point.

    References
    ----------
    Derived here.
    """
    require_parameters(parameters)
    beta = finite_number("beta", beta)
    if deviations is not None:
        deviations = finite_number("deviations", deviations)
    q, p = parameters.modulus, parameters.levels
    form = require_form(form, parameters.covariates, parameters.matrix)
    least, most = value_range(form, parameters.matrix)
    if max(most, -least) > _LARGEST_VALUE:
        raise ValueError(
            f"The values of <v, a> for this form go from {shown(least)} to {shown(most)}: at most 2^52 in size is "
            "allowed; take representatives mod q, as centred gives."
        )
    low, high = (least, most) if deviations is None else kept_range(form, parameters.matrix, deviations)
    number = p * high // q - p * low // q
    require_memory(
        f"The label of this form jumps {number} times: a staircase of so many heads",
        100 * number,
        advice="take representatives mod q, as centred gives, or fewer deviations",
    )
    # T where the label changes, ceil(j q / p): j = p period + residue keeps the products below 2^63
    periods, residues = np.divmod(np.arange(p * low // q + 1, p * high // q + 1), p)
    jumps = periods * q - (-residues * q // p)
    steps = (rounded(jumps, q, p) - rounded(jumps - 1, q, p)) / 2
    ends = rounded(np.array([low, high]), q, p)
    c, c0 = float(steps.sum()), float(ends.sum()) / 2
    pads = (c0 - parameters.centre - c) / 2, (-c - c0 + parameters.centre) / 2
    return Staircase(
        form=np.concatenate([[0], form]),
        thresholds=np.concatenate([[least - 0.5], jumps - 0.5, [most + 0.5]]),
        coefficients=np.concatenate([[pads[0]], steps, [pads[1]]]),
        slopes=beta,
    )


def lwr_layer(stairs: Staircase, matrix: Matrix) -> AttentionLayer:
    """The layer of a staircase: on the gate of both rows x_rg s(T), off it x_rg times the sum of the coefficients.

    Parameters
    ----------
    stairs : Staircase
        The heads.
    matrix : {"binary", "ternary", "gadget"}
        Binary and gadget: T = <v, a> with a_j = 1[x_1j != x_2j]. Ternary: a_j = x_1g (x_1j - x_2j)/2.

    Raises
    ------
    ValueError
        If the matrix is uniform, which no heads of this kind realise.

    Notes
    -----
    Ternary: Theta_i = beta (e_g v^T - t_i e_g e_g^T). On the gate the logit difference of row 1 is
    x_1g beta (<v, x_1 - x_2> - 2 t_i x_1g) = 2 beta (T - t_i), and of row 2 its negative, as x_2g = -x_1g: just what
    binary covariates give with beta (diag(v) - t_i e_g e_g^T). So coefficients, pads and the error bound, which
    asks of T only that it is whole, are the same. Given x_1g the a_j are independent, -1, 0 and 1 with probabilities
    1/4, 1/2 and 1/4. Off the gate both tokens have the same gate coordinate and any pattern reads it.

    O(m d^2) numbers.

    References
    ----------
    Derived here.
    """
    require_instance("stairs", stairs, Staircase, needed="a Staircase, as lwr_staircase gives it,")
    require_matrix(matrix)
    require_form(stairs.form, matrix=matrix)
    if matrix == "uniform":
        raise ValueError("No heads realise a uniform public matrix: take the gadget, with q a power of two.")
    if matrix != "ternary":
        return stairs.layer()
    slopes, gate = np.asarray(stairs.slopes), stairs.gate
    theta = np.zeros((stairs.heads, stairs.dim, stairs.dim))
    theta[:, gate, :] = np.outer(slopes, stairs.form)
    theta[:, gate, gate] = -slopes * stairs.thresholds
    w = np.zeros_like(theta)
    w[:, gate, :] = np.outer(stairs.coefficients, np.asarray(stairs.direction))
    return AttentionLayer(theta=theta, w=w)


def value_range(form: Int[np.ndarray, " n"], matrix: Matrix) -> tuple[int, int]:
    """The least and the greatest value of <v, a>.

    Raises
    ------
    ValueError
        If the matrix is uniform, where they depend on the modulus, or the form holds no whole numbers.

    Examples
    --------
    >>> value_range(np.array([3, -1]), "binary"), value_range(np.array([3, -1]), "ternary")
    ((-1, 3), (-4, 4))
    """
    require_matrix(matrix)
    form = require_form(form, matrix=matrix)
    if matrix == "uniform":
        raise ValueError("The matrix is uniform mod q: <v, a> is a residue and has no range of its own.")
    # Python's own integers: a sum of 64-bit ones may leave them
    entries = form.tolist()
    if matrix == "ternary":
        reach = sum(map(abs, entries))
        return -reach, reach
    return sum(one for one in entries if one < 0), sum(one for one in entries if one > 0)


def kept_range(form: Int[np.ndarray, " n"], matrix: Matrix, deviations: float) -> tuple[int, int]:
    """The least and the greatest whole T within so many standard deviations of the mean of <v, a>.

    The mean is sum(v)/2 and the deviation |v|_2 / 2; with ternary covariates 0 and |v|_2 / sqrt 2.

    Raises
    ------
    ValueError
        If `deviations` is below 2, where hardly anything would be kept, or as of `value_range`.

    Notes
    -----
    Compared in whole numbers: (2 T - sum v)^2 <= deviations^2 |v|_2^2, and for ternary covariates
    2 T^2 <= deviations^2 |v|_2^2.

    Examples
    --------
    >>> kept_range(np.full(100, 2), "binary", 6.0)  # mean 100, deviation 10
    (40, 160)
    """
    require_matrix(matrix)
    if deviations is not None:
        deviations = finite_number("deviations", deviations)
    form = require_form(form, matrix=matrix)
    numerator, denominator = require_deviations(deviations).as_integer_ratio()
    squares = sum(int(one) ** 2 for one in form) * numerator**2
    least, most = value_range(form, matrix)
    if matrix == "ternary":
        reach = math.isqrt(squares // (2 * denominator**2))
        return max(least, -reach), min(most, reach)
    reach, total = math.isqrt(squares // denominator**2), sum(form.tolist())
    return max(least, -((reach - total) // 2)), min(most, (total + reach) // 2)


def truncation_failure(deviations: float) -> float:
    """2 e^(-deviations^2 / 2): a bound on the probability that <v, a> is beyond so many standard deviations.

    Notes
    -----
    Hoeffding's inequality for T = sum_j v_j a_j, a_j fair bits: P(|T - mean| >= t) <= 2 exp(-2 t^2 / |v|_2^2), and
    t is `deviations` times |v|_2 / 2. A ternary a_j is the difference of two fair bits, so T is a sum of 2n such
    terms: 2 exp(-t^2 / |v|_2^2), and t is `deviations` times |v|_2 / sqrt 2. Both are the same number.

    References
    ----------
    Hoeffding 1963, Theorem 2; its use here is derived here.

    Examples
    --------
    >>> f"{truncation_failure(6.0):.3g}"
    '3.05e-08'
    """
    if deviations is not None:
        deviations = finite_number("deviations", deviations)
    deviations = require_deviations(deviations)
    return math.nextafter(2 * math.exp(-deviations * deviations / 2) * (1 + 1e-13), math.inf)


def require_deviations(deviations: float) -> float:
    """The number of deviations as a float of at least 2.

    Raises
    ------
    ValueError
        If it is none.
    """
    number = non_negative("deviations", deviations)
    if number < _LEAST_DEVIATIONS:
        raise ValueError(
            f"deviations is {number}: at least 2 is needed, and 6 leaves out less than a share of 4e-8 of the inputs."
        )
    return number
