"""Distance of the inner product <v, a> mod q from uniform: exact, or by characters for values far below 1e-16."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Complex, Float, Int
from numpy.typing import ArrayLike

from attention.validation import checked
from lwe.parameters import Matrix, require_form
from lwe.residues import Modulus, centred

_MOST_TERMS = 1 << 28
_MOST_RESIDUES = 1 << 22
_BLOCK = 1 << 20


@checked
def total_variation_from_uniform(form: ArrayLike, modulus: Modulus, matrix: Matrix = "binary") -> Fraction:
    """The total variation distance between <v, a> mod q and the uniform distribution, exactly, for the form v (n,).

    It is in [0, 1), and can be far below 1e-16, or 0. ValueError if the form has other than whole numbers or, unless
    the matrix is uniform, q is above 2^22 or n q above 2^28.

    Notes
    -----
    Dynamic programming over the coordinates, O(n q) additions of integers of up to n (ternary 2n) bits: seconds for
    n = 1024 and q = 4096. With a uniform matrix <v, a> is uniform on the multiples of g = gcd(v, q), so the distance is
    1 - 1/g. `log2_distance_from_uniform` is the same in floating point, for larger sizes.

    Examples
    --------
    >>> total_variation_from_uniform([1, 2], 4), total_variation_from_uniform([1], 4)
    (Fraction(0, 1), Fraction(1, 2))
    >>> total_variation_from_uniform([2, 4], 8, "uniform")
    Fraction(1, 2)
    """
    v = require_form(form)
    if matrix == "uniform":
        return 1 - Fraction(1, math.gcd(modulus, *v.tolist()))
    _require_small(v, modulus)
    bits = len(v) * (2 if matrix == "ternary" else 1)
    # Python's own integers where int64 could overflow
    counts = np.zeros(modulus, dtype=np.int64 if bits <= 62 else object)
    counts[0] = 1
    for step in v.tolist():
        counts = counts + np.roll(counts, step % modulus)
        if matrix == "ternary":  # (1 + z^v)(1 + z^-v) = z^-v + 2 + z^v
            counts = counts + np.roll(counts, -step % modulus)
    off = sum(abs(modulus * int(one) - (1 << bits)) for one in counts)
    return Fraction(off, 2 * modulus << bits)


@checked
def log2_distance_from_uniform(form: ArrayLike, modulus: Modulus, matrix: Matrix = "binary") -> float:
    """log2 of the total variation distance between <v, a> mod q and uniform; -inf where it is exactly 0.

    See `total_variation_from_uniform` for the parameters and errors.

    Notes
    -----
    The relative error of the distance is about 1e-16 (4 sqrt(q) log2 q + n |ln of the largest character|). The
    transform of length q has its error in Euclidean norm; in the sum of absolute values it is at most sqrt(q) times as
    large. O(n q + q log q): n = 1024 and q = 4096 take well below a second.

    Examples
    --------
    >>> log2_distance_from_uniform([1, 2], 4), round(log2_distance_from_uniform([1], 4), 12)
    (-inf, -1.0)
    """
    if matrix == "uniform":
        distance = float(total_variation_from_uniform(form, modulus, matrix))
        return math.log2(distance) if distance else -math.inf
    deviations, scale = residue_deviations(require_form(form), modulus, matrix)
    if scale == -math.inf:
        return -math.inf
    return float((scale + math.log(np.abs(deviations).sum() / 2)) / math.log(2))


@checked
def wrap_ratio(form: ArrayLike, modulus: Modulus, matrix: Matrix = "binary") -> float:
    """Rho: the standard deviation of <v, a> in units of the modulus; |v|_2 / (2 q) with binary covariates.

    With ternary covariates it is |v|_2 / (sqrt 2 q). The distance from uniform falls like e^(-2 pi^2 rho^2); below
    about 1/2 the sum hardly wraps around. A ValueError if the matrix is uniform: then there is no such ratio.
    """
    v = require_form(form)
    if matrix == "uniform":
        raise ValueError(
            "matrix is 'uniform', where every sum wraps around: binary, ternary or gadget is needed."
        )
    squares = sum(entry * entry for entry in v.tolist())  # whole: every machine has the same ratio
    return math.sqrt(squares) * (math.sqrt(0.5) if matrix == "ternary" else 0.5) / modulus


@dataclass(frozen=True, eq=False)
class Characters:
    """E e^(2 pi i w <v, a> / q) for w = 1, ..., floor(q/2), as logarithms; those of q - w are their conjugates.

    A coordinate contributes e^(i t) cos t (binary) or cos^2 t (ternary) with t = pi w v_j / q. Factors that are
    exactly 0 are counted and do not enter the logarithm.
    """

    logs: Float[np.ndarray, " h"]  #: ln of the product of the factors that are not 0
    #: its phase, of modulus 1; that of the factors 0 included, as if their cosine were 1
    phases: Complex[np.ndarray, " h"]
    zeros: Int[np.ndarray, " h"]  #: how many factors are exactly 0; the character is 0 if there is one


def characters(form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary") -> Characters:
    """The characters of <v, a> mod q, of bits or trits a; O(n q).

    w v_j is reduced mod q in whole numbers, so zeros are exact, phases are those of whole multiples of pi/q, and a
    logarithm is off by at most about n |ln| 1e-16.
    """
    q, half = modulus, modulus // 2
    _require_small(form, q)
    log_cosines = _log_cosines(q)
    logs, turns, zeros = np.zeros(half), np.zeros(half, dtype=np.int64), np.zeros(half, dtype=np.int64)
    for part, residues in residue_blocks(form, q, np.arange(1, half + 1)):
        logs[part] = log_cosines[np.abs(residues)].sum(axis=0)
        zeros[part] = (2 * np.abs(residues) == q).sum(axis=0)
        turns[part] = residues.sum(axis=0)
    if matrix == "ternary":
        return Characters(2 * logs, np.ones(half, dtype=np.complex128), zeros)
    return Characters(logs, np.exp(1j * np.pi / q * np.mod(turns, 2 * q)), zeros)


def residue_blocks(
    form: Int[np.ndarray, " n"], modulus: int, frequencies: Int[np.ndarray, " h"]
) -> Iterator[tuple[slice, Int[np.ndarray, "n block"]]]:
    """The residues w v_j mod q, centred, in blocks of frequencies w."""
    form, size = centred(form, modulus), max(1, _BLOCK // len(form))
    for start in range(0, len(frequencies), size):
        part = slice(start, start + size)
        residues = np.multiply.outer(form, frequencies[part]) % modulus
        residues[2 * residues > modulus] -= modulus
        yield part, residues


def residue_deviations(
    form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary"
) -> tuple[Float[np.ndarray, " modulus"], float]:
    """P(<v, a> = r mod q) - 1/q for every residue r, divided by e^scale, and that scale; -inf if all are exactly 0.

    The result uses only the characters w != 0, so 1/q is never subtracted. A largest deviation of 1e-200 has as many
    correct digits as one of 1e-2.
    """
    own = characters(form, modulus, matrix)
    nonzero = own.zeros == 0
    if not nonzero.any():
        return np.zeros(modulus), -math.inf
    scale = float(own.logs[nonzero].max())
    spectrum = np.zeros(modulus // 2 + 1, dtype=np.complex128)
    spectrum[1:] = np.exp(np.where(nonzero, own.logs - scale, -math.inf)) * own.phases.conj()
    return np.fft.irfft(spectrum, n=modulus), scale


def tangents(modulus: int) -> Float[np.ndarray, " h"]:
    """Tan(pi r / q) for r = 0, ..., floor(q/2), each right to a few units; infinite for r = q/2."""
    r = np.arange(modulus // 2 + 1)
    with np.errstate(divide="ignore"):
        # the cosine as the sine of an angle that is exact if it is small
        return np.sin(np.pi * r / modulus) / np.sin(np.pi * (modulus - 2 * r) / (2 * modulus))


def _log_cosines(modulus: int) -> Float[np.ndarray, " h"]:
    """The logarithms ln cos(pi r / q) for r = 0, ..., floor(q/2), and 0 for the cosine that is 0."""
    found = tangents(modulus)
    return np.where(np.isfinite(found), -np.log1p(found**2) / 2, 0.0)


def followed(covariates: int, modulus: int) -> bool:
    """Whether q is at most 2^22 and n q at most 2^28, so that inner products are followed residue by residue."""
    return modulus <= _MOST_RESIDUES and covariates * modulus <= _MOST_TERMS


def _require_small(form: Int[np.ndarray, " n"], modulus: int) -> None:
    if not followed(len(form), modulus):
        raise ValueError(
            f"modulus is {modulus} and there are {len(form)} covariates: at most 2^22, and 2^28 for their product, is "
            "needed to follow the inner product residue by residue; take a smaller modulus."
        )
