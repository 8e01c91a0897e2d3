"""The heads that compute rounded inner products over a range: one for each jump of the label, and two pads."""

import math
from typing import Annotated

import numpy as np
from jaxtyping import Int

from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import Real, checked
from lower import Heads
from lower.heads import SATURATED_SLOPE
from lwe.parameters import LWEParameters, Matrix, require_form
from lwe.residues import product_quotient, rounded

Deviations = Annotated[float, Real(least=2)]
"""A range in standard deviations: 6 excludes a share of less than 4e-8 of the inputs."""

# Of the inner product: logits at slope 40, multiples of 20, are then sums without rounding.
_LARGEST_VALUE = 1 << 50


@checked
def lwr_heads(
    form: Int[np.ndarray, " n"],
    parameters: LWEParameters,
    *,
    beta: float = SATURATED_SLOPE,
    deviations: Deviations | None = None,
) -> Heads:
    """The heads of f(T) - (p - 1)/2 with T = <v, a> for the centred form v without the gate: one a jump, and two pads.

    On the gate row r is x_rg (f(T) - (p - 1)/2), off it 0. Binary and gadget: a_j = 1[x_1j != x_2j]. Ternary:
    a_j = x_1g (x_1j - x_2j)/2, and the form is in the row of the gate. With `deviations` the heads cover only the jumps
    within so many standard deviations of the mean of T. Beyond them the label is that of the last covered value.
    ValueError if the form does not fit, or the matrix is uniform, which no heads of this kind realise.

    Notes
    -----
    There is a head at each T + 1/2 where f jumps, and its coefficient is half the jump. On the gate these heads give
    f(T) - c0 with c0 = (f(T_0) + f(T_1))/2 for the first and the last covered value. Off it they give the sum C of
    the coefficients. Both c0 and C depend on the secret. The two pads, one below and one above all values of T, have
    coefficients (c0 - (p-1)/2 - C)/2 and (-C - c0 + (p-1)/2)/2. Their sum is -C, and on the gate they add
    c0 - (p-1)/2, so the known part becomes zero. All coefficients are multiples of 1/4, so sums of them are exact in
    floating point.
    """
    if parameters.matrix == "uniform":
        raise ValueError("No heads realise a uniform public matrix: take the gadget, with q a power of two.")
    q, p = parameters.q, parameters.p
    form = require_form(form, parameters.covariates)
    least, most = value_range(form, parameters.matrix)
    if max(most, -least) > _LARGEST_VALUE:
        raise ValueError(
            f"The values of <v, a> for this form go from {shown(least)} to {shown(most)}: at most 2^50 in size is "
            "allowed; take representatives mod q, as centred gives, or a smaller modulus."
        )
    low, high = kept_range(form, parameters.matrix, deviations)
    number = p * high // q - p * low // q
    require_memory(
        f"The label of this form jumps {number} times: a staircase of so many heads",
        100 * number,
        advice="take representatives mod q, as centred gives, or fewer deviations",
    )
    # T where the label changes, ceil(j q / p): j = p period + residue keeps the products below 2^63
    periods, residues = np.divmod(np.arange(p * low // q + 1, p * high // q + 1), p)
    jumps = periods * q - product_quotient(-residues, q, p, p * q)
    steps = (rounded(jumps, q, p) - rounded(jumps - 1, q, p)) / 2
    ends = rounded(np.array([low, high]), q, p)
    c, c0 = float(steps.sum()), float(ends.sum()) / 2
    pads = (c0 - parameters.centre - c) / 2, (-c - c0 + parameters.centre) / 2
    return Heads(
        form=np.concatenate([[0], form]),
        thresholds=np.concatenate([[least - 0.5], jumps - 0.5, [most + 0.5]]),
        coefficients=np.concatenate([[pads[0]], steps, [pads[1]]]),
        slopes=np.full(len(jumps) + 2, beta),
        rows=0 if parameters.matrix == "ternary" else None,
    )


@checked
def value_range(form: Int[np.ndarray, " n"], matrix: Matrix) -> tuple[int, int]:
    """The least and the greatest value of <v, a>.

    ValueError if the matrix is uniform, because then they depend on the modulus, or the form has other than whole
    numbers.
    """
    form = require_form(form)
    if matrix == "uniform":
        raise ValueError("The matrix is uniform mod q: <v, a> is a residue and has no range of its own.")
    # Python's integers: a sum of 64-bit integers may overflow
    entries = form.tolist()
    if matrix == "ternary":
        reach = sum(map(abs, entries))
        return -reach, reach
    return sum(one for one in entries if one < 0), sum(one for one in entries if one > 0)


@checked
def kept_range(form: Int[np.ndarray, " n"], matrix: Matrix, deviations: Deviations | None) -> tuple[int, int]:
    """The least and the greatest whole T within so many standard deviations of the mean of <v, a>; all if None.

    The mean is sum(v)/2 and the deviation |v|_2 / 2; for ternary covariates they are 0 and |v|_2 / sqrt 2.

    Notes
    -----
    The comparison uses whole numbers: (2 T - sum v)^2 <= deviations^2 |v|_2^2, and for ternary covariates
    2 T^2 <= deviations^2 |v|_2^2.
    """
    form, (least, most) = require_form(form), value_range(form, matrix)
    if deviations is None:
        return least, most
    numerator, denominator = deviations.as_integer_ratio()
    squares = sum(int(one) ** 2 for one in form) * numerator**2
    total, twice = (0, 2) if matrix == "ternary" else (sum(form.tolist()), 1)
    reach = math.isqrt(twice * squares // denominator**2)
    return max(least, -((reach - total) // 2)), min(most, (total + reach) // 2)


@checked
def truncation_failure(deviations: Deviations) -> float:
    """2 e^(-deviations^2 / 2): a bound on the probability that <v, a> is beyond so many standard deviations.

    Hoeffding's inequality (1963, Theorem 2) for T = sum_j v_j a_j, a_j fair bits: P(|T - mean| >= t) <=
    2 exp(-2 t^2 / |v|_2^2), and t is `deviations` times |v|_2 / 2. A ternary a_j is the difference of two fair bits,
    which gives the same number.
    """
    return math.nextafter(2 * math.exp(-deviations * deviations / 2) * (1 + 1e-13), math.inf)
