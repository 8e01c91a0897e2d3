"""The characters of <v, a> mod q, and from them, in floating point, what is far below its precision otherwise."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Complex, Float, Int

from attention.validation import count
from lwe.parameters import LWRParameters, Matrix, require_form, require_matrix, require_parameters, rounded
from lwe.residues import LARGEST_MODULUS
from lwe.uniformity import require_residues, require_small

__all__ = [
    "Characters",
    "characters",
    "distance_from_uniform",
    "label_coefficients",
    "label_moments",
    "log2_distance_from_uniform",
    "residue_blocks",
    "residue_deviations",
]

_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Characters:
    """E e^(2 pi i w <v, a> / q) for w = 1, ..., floor(q/2), as logarithms; those of q - w are their conjugates.

    A coordinate contributes e^(i t) cos t (binary) or cos^2 t (ternary) with t = pi w v_j / q. Factors that are
    exactly 0 are left out of the logarithm and counted.

    Attributes
    ----------
    logs : array (h,)
        ln of the product of the factors that are not 0.
    phases : array of complex (h,)
        Its phase, of modulus 1; that of the factors 0 included, as if their cosine were 1.
    zeros : array of int (h,)
        How many factors are exactly 0; the character is 0 if there is one.
    """

    logs: Float[np.ndarray, " h"]
    phases: Complex[np.ndarray, " h"]
    zeros: Int[np.ndarray, " h"]

    @property
    def nonzero(self) -> Bool[np.ndarray, " h"]:
        """Which are not 0."""
        return self.zeros == 0


def characters(form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary") -> Characters:
    """The characters of <v, a> mod q.

    Parameters
    ----------
    form : array of int (n,)
        v.
    modulus : int
        q.
    matrix : {"binary", "ternary", "gadget"}
        What a is; see `LWRParameters`.

    Raises
    ------
    ValueError
        If q is above 2^22 or n q above 2^28, the matrix is uniform, or the form holds no whole numbers.

    Notes
    -----
    w v_j is reduced mod q in whole numbers, so zeros are exact, phases are those of whole multiples of pi/q, and each
    factor is right to a few units of 1e-16: a logarithm is off by at most about n |ln| 1e-16. O(n q).

    References
    ----------
    Derived here.
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    form, q = require_small(form, modulus, matrix)
    log_cosines, half = _log_cosines(q), q // 2
    logs, turns, zeros = np.zeros(half), np.zeros(half, dtype=np.int64), np.zeros(half, dtype=np.int64)
    for part, residues in residue_blocks(form, q):
        logs[part] = log_cosines[np.abs(residues)].sum(axis=0)
        zeros[part] = (2 * np.abs(residues) == q).sum(axis=0)
        turns[part] = residues.sum(axis=0)
    if matrix == "ternary":
        return Characters(2 * logs, np.ones(half, dtype=np.complex128), zeros)
    return Characters(logs, np.exp(1j * np.pi / q * np.mod(turns, 2 * q)), zeros)


def residue_blocks(
    form: Int[np.ndarray, " n"], modulus: int, frequencies: Int[np.ndarray, " h"] | None = None
) -> Iterator[tuple[slice, Int[np.ndarray, "n block"]]]:
    """The residues w v_j mod q, centred, for w = 1, ..., floor(q/2) or those given, in blocks of frequencies."""
    if frequencies is None:
        frequencies = np.arange(1, modulus // 2 + 1)
    size = max(1, _BLOCK // max(1, len(form)))
    for start in range(0, len(frequencies), size):
        part = slice(start, min(start + size, len(frequencies)))
        residues = np.multiply.outer(form, frequencies[part]) % modulus
        residues[2 * residues > modulus] -= modulus
        yield part, residues


def residue_deviations(
    form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary"
) -> tuple[Float[np.ndarray, " modulus"], float]:
    """P(<v, a> = r mod q) - 1/q for every residue r, divided by e^scale, and that scale; -inf if all are exactly 0.

    Built from the characters w != 0 alone, so 1/q is never subtracted and a largest deviation of 1e-200 has as many
    digits as one of 1e-2. All are right to about 1e-16 (4 log2 q + n |ln of the largest character|) of the root of
    their sum of squares: one that is far smaller than the others has fewer digits, and where characters cancel it
    comes out as such a rounding error and not as 0.
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    own = characters(form, modulus, matrix)
    if not own.nonzero.any():
        return np.zeros(modulus), -math.inf
    scale = float(own.logs[own.nonzero].max())
    spectrum = np.zeros(modulus // 2 + 1, dtype=np.complex128)
    relative = np.where(own.nonzero, own.logs - scale, -math.inf)
    spectrum[1:] = np.exp(relative) * own.phases.conj()
    return np.fft.irfft(spectrum, n=modulus), scale


def log2_distance_from_uniform(form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary") -> float:
    """log2 of the total variation distance between <v, a> mod q and uniform; -inf where it is exactly 0.

    Parameters
    ----------
    form : array of int (n,)
        v.
    modulus : int
        q.
    matrix : {"binary", "ternary", "gadget", "uniform"}
        What a is; see `LWRParameters`.

    Raises
    ------
    ValueError
        If q is above 2^22 or n q above 2^28, or the form holds no whole numbers.

    Notes
    -----
    The distance is right to a relative error of about 1e-16 (4 sqrt(q) log2 q + n |ln of the largest character|): the
    transform of length q has that error in Euclidean norm, which is at most sqrt(q) times as much in the sum of
    absolute values, and that sum is no smaller than the norm. O(n q + q log q): n = 1024 and q = 4096 take well below a
    second. `total_variation_from_uniform` is exact.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> log2_distance_from_uniform(np.array([1, 2]), 4), round(log2_distance_from_uniform(np.array([1]), 4), 12)
    (-inf, -1.0)
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    if matrix == "uniform":
        form = require_form(form, matrix=matrix)
        divisor = math.gcd(modulus, *(int(one) for one in form))
        return math.log2(1 - 1 / divisor) if divisor > 1 else -math.inf
    deviations, scale = residue_deviations(form, modulus, matrix)
    if scale == -math.inf:
        return -math.inf
    return float((scale + math.log(np.abs(deviations).sum() / 2)) / math.log(2))


def distance_from_uniform(form: Int[np.ndarray, " n"], modulus: int, matrix: Matrix = "binary") -> float:
    """The total variation distance between <v, a> mod q and uniform, in floating point.

    See `log2_distance_from_uniform`. 0.0 stands for an exact 0 and for what is below 1e-308.

    Examples
    --------
    >>> round(distance_from_uniform(np.array([1]), 4), 12)
    0.5
    """
    modulus = count("modulus", modulus, least=2, most=LARGEST_MODULUS)
    require_matrix(matrix)
    return float(2.0 ** log2_distance_from_uniform(form, modulus, matrix))


def label_coefficients(parameters: LWRParameters) -> Complex[np.ndarray, " h"]:
    """The Fourier coefficients of the label, (1/q) sum_t f(t) e^(-2 pi i w t / q), w = 1, ..., floor(q/2).

    Raises
    ------
    ValueError
        If q is above 2^22.

    Notes
    -----
    Summation by parts: q G(w) (1 - e^(-2 pi i w / q)) is the transform of the label's steps up minus p. With
    g = gcd(p, q) the steps repeat every q/g residues, so their transform is exactly 0 unless g divides w; where it is
    exactly p, the coefficient is exactly 0. A transform of f itself would put 1e-17 there, and characters of even
    frequencies can be large.
    """
    require_parameters(parameters)
    q, p = require_residues(parameters.modulus), parameters.levels
    g = math.gcd(p, q)
    steps = np.zeros(q // g)
    steps[-(-np.arange(p // g) * q // p)] = 1
    omega = np.arange(1, q // 2 + 1)
    # transforms of real numbers: those past the middle are the conjugates of those before
    rises = np.zeros(len(omega), dtype=np.complex128)
    whole = omega % g == 0
    rises[whole] = g * np.fft.fft(steps)[(omega[whole] // g) % (q // g)]
    angle = np.pi * omega / q
    return (rises - p) / (q * 2j * np.sin(angle) * np.exp(-1j * angle))


def label_moments(form: Int[np.ndarray, " n"], parameters: LWRParameters) -> tuple[float, float]:
    """E g and E g^2 of the centred label g = f(<v, a>) - (p - 1)/2."""
    form, q = require_form(form, parameters.covariates), parameters.modulus
    deviations, scale = residue_deviations(form, q, parameters.matrix)
    label = rounded(np.arange(q), q, parameters.levels) - parameters.centre
    chances = np.maximum(1 / q + deviations * math.exp(scale), 0.0)
    return float(chances @ label), float(chances @ label**2)


def _log_cosines(modulus: int) -> Float[np.ndarray, " h"]:
    """The logarithms ln cos(pi r / q) for r = 0, ..., floor(q/2), and 0 for the cosine that is 0."""
    r = np.arange(modulus // 2 + 1)
    small = 4 * r <= modulus
    found = np.empty(len(r))
    found[small] = np.log1p(-2 * np.sin(np.pi * r[small] / (2 * modulus)) ** 2)
    left = modulus - 2 * r[~small]  # exact, where the cosine itself would cancel
    found[~small] = np.log(np.sin(np.pi * np.where(left > 0, left, modulus) / (2 * modulus)))
    return found
