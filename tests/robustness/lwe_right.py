"""What answers of `lwe` have to be, computed anew: by Python's own integers, and by enumeration of what is small."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np

import lwe
from lwe import LWRParameters

__all__ = [
    "centre",
    "centred_is_right",
    "covariate_form_is_right",
    "distance_is_right",
    "draw_is_right",
    "inner_products_are_right",
    "kept_range_is_right",
    "label",
    "products",
    "ratio_is_right",
    "residue_counts_are_right",
    "rounded_is_right",
    "support_is_right",
    "value_range_is_right",
    "whole_numbers",
]

_FEW = 1 << 12  # vectors that are enumerated


def whole_numbers(values):
    """As Python's own integers, of any nesting."""
    values = np.asarray(values)
    return [whole_numbers(one) for one in values] if values.ndim else int(values[()])


def centre(value, modulus):
    """The representative in (-q/2, q/2]."""
    modulus = int(modulus)
    residue = value % modulus
    return residue - modulus if 2 * residue > modulus else residue


def label(value, parameters: LWRParameters):
    return parameters.levels * (value % parameters.modulus) // parameters.modulus


def centred_is_right(result, given):
    assert np.ravel(result).tolist() == [
        centre(int(one), given["modulus"]) for one in np.ravel(given["values"])
    ]


def rounded_is_right(result, given):
    q, p = int(given["modulus"]), int(given["levels"])
    assert np.ravel(result).tolist() == [p * (int(one) % q) // q for one in np.ravel(given["t"])]


def products(rows, secret, modulus):
    return [sum(a * s for a, s in zip(row, secret, strict=True)) % int(modulus) for row in rows]


def inner_products_are_right(result, given):
    rows, secret = whole_numbers(given["public"]), whole_numbers(given["secret"])
    assert result.tolist() == products(rows, secret, given["modulus"])


def covariate_form_is_right(result, given):
    parameters = given["parameters"]
    entries, powers = whole_numbers(given["secret"]), range(parameters.digits)
    assert result.tolist() == [
        centre(one << power, parameters.modulus) for one in entries for power in powers
    ]


def values_of(entries, matrix):
    """How often each value of <v, a> is taken, over all a; None where they are too many to enumerate."""
    steps = {"ternary": (-1, 0, 0, 1)}.get(matrix, (0, 1))
    if len(steps) ** len(entries) > _FEW:
        return None
    return Counter(
        sum(v * a for v, a in zip(entries, vector, strict=True))
        for vector in product(steps, repeat=len(entries))
    )


def value_range_is_right(result, given):
    if values := values_of(whole_numbers(given["form"]), given["matrix"]):
        assert result == (min(values), max(values))


def kept_range_is_right(result, given):
    entries, (low, high) = whole_numbers(given["form"]), result
    least, most = lwe.value_range(np.asarray(given["form"]), given["matrix"])
    squares = Fraction(float(given["deviations"])) ** 2 * sum(one**2 for one in entries)

    def kept(value):
        if given["matrix"] == "ternary":
            return 2 * value**2 <= squares
        return (2 * value - sum(entries)) ** 2 <= squares

    assert least <= low <= high <= most
    assert kept(low)
    assert kept(high)
    assert low == least or not kept(low - 1)
    assert high == most or not kept(high + 1)


def shares_of_residues(given):
    """P(<v, a> = r mod q) for every residue r, exactly; None where that is too much to enumerate."""
    values = values_of(whole_numbers(given["form"]), given["matrix"])
    if values is None:
        return None
    shares, total = [Fraction(0)] * given["modulus"], values.total()
    for value, times in values.items():
        shares[value % given["modulus"]] += Fraction(times, total)
    return shares


def residue_counts_are_right(result, given):
    steps = 4 if given["matrix"] == "ternary" else 2
    total = steps ** len(np.asarray(given["form"]))
    counts = [int(one) for one in result]
    assert len(counts) == given["modulus"]
    assert sum(counts) == total
    if shares := shares_of_residues(given):
        assert [Fraction(one, total) for one in counts] == shares


def distance_is_right(result, given):
    """The distance from uniform: exactly where it is a fraction, and else to rounding."""
    assert 0 <= result < 1
    if shares := shares_of_residues(given):
        distance = sum(abs(one - Fraction(1, given["modulus"])) for one in shares) / 2
        assert result == distance if isinstance(result, Fraction) else abs(result - float(distance)) < 1e-12


def ratio_is_right(result, given):
    squares = sum(one**2 for one in whole_numbers(given["form"]))
    variance = Fraction(squares, 2 if given["matrix"] == "ternary" else 4) / given["modulus"] ** 2
    assert math.isclose(result, math.sqrt(variance), rel_tol=1e-12)


def support_is_right(result, given):
    """Values are centred and increase; chances are positive and sum to 1."""
    values, chances = result
    assert np.all(np.diff(values) > 0)
    assert [centre(one, given["modulus"]) for one in values.tolist()] == values.tolist()
    assert np.all(chances > 0)
    assert abs(math.fsum(chances) - 1) < 1e-12


def draw_is_right(result, given, law):
    """As many numbers as were asked for, each of which the law can give."""
    modulus = given["modulus"]
    assert len(result) == given["size"]
    assert [centre(one, modulus) for one in result.tolist()] == result.tolist()
    assert law.allows(result, modulus)
    if not law.is_uniform(modulus) and law.kind != "sparse":
        assert set(result.tolist()) <= set(law.support(modulus)[0].tolist())
