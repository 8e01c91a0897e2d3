"""How much of a label single covariates and pairs of them tell: its Fourier weight of degree exactly 1 and 2."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lwe.characters import characters, label_coefficients, label_moments, residue_blocks
from lwe.parameters import LWRParameters, require_form, require_parameters

__all__ = ["LowDegreeWeights", "low_degree_weights"]

_MOST_OPERATIONS = 1 << 37
_EPS = float(np.finfo(np.float64).eps)
_RESOLVED = 1e-8


@dataclass(frozen=True)
class LowDegreeWeights:
    """The weights of degree exactly 1 and 2, as shares of the centred label's second moment.

    Attributes
    ----------
    log2_first, log2_second : float
        log2 of W_1 and W_2; -inf where the weight is 0, as every term of it is.
    first_resolved, second_resolved : bool
        Whether the weight is right to a relative 1e-8. Where terms cancel it is not, and the logarithm is that of a
        bound, a whole number: the weight is at most that, and may be 0.
    """

    log2_first: float
    log2_second: float
    first_resolved: bool = True
    second_resolved: bool = True

    @property
    def first(self) -> float:
        """W_1; 0.0 also where it is below 1e-308."""
        return float(2.0**self.log2_first)

    @property
    def second(self) -> float:
        """W_2; 0.0 also where it is below 1e-308."""
        return float(2.0**self.log2_second)

    def __str__(self) -> str:
        first = f"= {self.first:.3g}" if self.first_resolved else f"<= 2^{self.log2_first:.0f}"
        second = f"= {self.second:.3g}" if self.second_resolved else f"<= 2^{self.log2_second:.0f}"
        return f"W_1 {first}, W_2 {second}"


def low_degree_weights(form: Int[np.ndarray, " n"], parameters: LWRParameters) -> LowDegreeWeights:
    """W_1 and W_2 of the label f(<v, a>), over uniform covariates a.

    Parameters
    ----------
    form : array of int (n,)
        The centred integer form v.
    parameters : LWRParameters
        Of what; without its noise.

    Returns
    -------
    LowDegreeWeights
        W_j is the sum over the sets S of j covariates of the squared part of the label that depends on just S, as a
        share of the second moment of f - (p - 1)/2; with p = 2 that of the label as -1 and 1. For bits the parts are
        its Fourier coefficients; a ternary covariate has two functions besides 1, sqrt 2 a and 2 a^2 - 1.

    Raises
    ------
    ValueError
        If q is above 2^22, n q above 2^28 or n^2 q above 2^37, the matrix is uniform, or the form is not one whole
        number for each covariate.

    Notes
    -----
    f = sum_w G(w) e^(2 pi i w T / q), so every coefficient is a sum over w of G(w) times a product over the
    covariates: with t = tan(pi w v_j / q), a covariate in S turns its factor e^(i u) cos u of the character into -i t
    times it (ternary: i sqrt 2 t and -t^2 times cos^2 u). Characters with one or two factors 0 count for sets that
    hold these covariates only. Everything is taken relative to the largest character that counts, so that a small
    weight costs no digits of itself: what costs them is cancelling between terms. By the triangle inequality the
    coefficients of one degree, as a vector, are off by at most the sum of their terms' norms, each times the rounding
    of its factors and of a sum of so many terms; `_roundings` has the constants. Where that leaves fewer than eight
    digits of the weight, a bound is given. It is a worst case: against exact rational weights of random secrets (n up
    to 200, q up to 64, weights down to 2^-400) log2 was off by at most 3e-13. O(n^2 q) operations, most of them in a
    matrix product.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=2, modulus=2, levels=2)
    >>> print(low_degree_weights(np.array([1, 1]), parameters), low_degree_weights(np.array([1, 0]), parameters))
    W_1 = 0, W_2 = 1 W_1 = 1, W_2 = 0
    """
    require_parameters(parameters)
    form = require_form(form, parameters.covariates)
    q, n, ternary = parameters.modulus, len(form), parameters.matrix == "ternary"
    if n * n * q > _MOST_OPERATIONS:
        raise ValueError(
            f"There are {n} covariates and the modulus is {q}: n^2 q must be at most 2^37 for the weights of pairs; "
            "take a smaller modulus."
        )
    own, coefficients = characters(form, q, parameters.matrix), label_coefficients(parameters)
    relevant = np.flatnonzero((own.zeros <= 2) & (coefficients != 0))
    moment = label_moments(form, parameters)[1]
    if not len(relevant) or moment <= 0:
        return LowDegreeWeights(-math.inf, -math.inf)
    # characters with two factors 0 count for pairs only, and beside them all others may underflow
    for_pairs = own.zeros[relevant] == 2
    logs = own.logs[relevant]
    scale, pair_scale = (float(logs[one].max(initial=-math.inf)) for one in (~for_pairs, for_pairs))
    frequencies = relevant + 1
    scales = np.where(for_pairs, pair_scale, scale)
    # with its conjugate, unless it is its own
    sizes = np.exp(logs - scales) * np.where(2 * frequencies == q, 1.0, 2.0)
    weights = (coefficients * own.phases)[relevant] * sizes
    errors = sizes * _roundings(
        coefficients[relevant], frequencies, parameters, n * (np.abs(logs) + np.abs(scales))
    )
    sums = _Sums(n, ternary, _tangents(q))
    for part, residues in residue_blocks(form, q, frequencies):
        sums.add(residues, q, own.zeros[relevant[part]], weights[part], errors[part])
    largest = max(scale, pair_scale)
    shares = math.exp(scale - largest), math.exp(pair_scale - largest)
    # the chances of q residues, each right to a few units
    of_moment = 8 * _EPS * q * parameters.centre**2 / moment
    first = _log2(sums.first(), sums.first_error, moment, of_moment, scale)
    second_error = shares[0] * sums.second_error + shares[1] * sums.error_of_two_zeros
    second = _log2(sums.second(*shares), second_error, moment, of_moment, largest)
    return LowDegreeWeights(first[0], second[0], first[1], second[1])


def _roundings(
    coefficients: np.ndarray, frequencies: np.ndarray, parameters: LWRParameters, logarithms: np.ndarray
) -> Float[np.ndarray, " h"]:
    """What each coefficient of the label, times all that goes with it, may be off by.

    A few units for the factors, one for each term that is summed, n for the logarithm of a product of n; and the error
    of the transform that the label's coefficient comes from.
    """
    q = parameters.modulus
    of_transform = 8 * math.log2(2 * q) * math.sqrt(q * parameters.levels)
    of_coefficient = of_transform / (2 * q * np.sin(np.pi * frequencies / q))
    return _EPS * (np.abs(coefficients) * (len(frequencies) + 64 + 2 * logarithms) + of_coefficient)


def _tangents(modulus: int) -> Float[np.ndarray, " h"]:
    """Tan(pi r / q) for r = 0, ..., floor(q/2), each right to a few units; 0 for the one that is infinite."""
    r = np.arange(modulus // 2 + 1)
    found = np.tan(np.where(4 * r <= modulus, r, 0) * (np.pi / modulus))
    steep = np.flatnonzero((4 * r > modulus) & (2 * r < modulus))
    found[steep] = 1 / np.tan((modulus - 2 * r[steep]) * (np.pi / (2 * modulus)))
    return found


class _Sums:
    """Coefficients of single covariates and of pairs: odd functions (t) and, if ternary, even ones (t^2)."""

    def __init__(self, n: int, ternary: bool, tangents: np.ndarray) -> None:
        self.ternary, self.tangents = ternary, tangents
        self.first_error = self.second_error = self.error_of_two_zeros = 0.0
        self.odd, self.even = np.zeros(n), np.zeros(n)
        self.odd_odd, self.of_two_zeros = np.zeros((n, n)), np.zeros((n, n))
        self.odd_even, self.even_even = (np.zeros((n, n)) if ternary else np.zeros((0, 0)) for _ in range(2))

    def add(
        self,
        residues: Int[np.ndarray, "n block"],
        modulus: int,
        zeros: Int[np.ndarray, " block"],
        weights: np.ndarray,
        errors: np.ndarray,
    ) -> None:
        at_zero = 2 * np.abs(residues) == modulus
        tangents = np.sign(residues) * self.tangents[np.abs(residues)]
        squares = tangents**2
        norms = np.sqrt((2 * squares + squares**2 if self.ternary else squares).sum(axis=0))
        none, one, two = (zeros == number for number in range(3))
        self.first_error += float(errors[none] @ norms[none] + errors[one].sum())
        self.second_error += float(errors[none] @ norms[none] ** 2 + errors[one] @ norms[one])
        self.error_of_two_zeros += float(errors[two].sum())
        for number, place in ((0, self._without_zeros), (1, self._with_one), (2, self._with_two)):
            chosen = zeros == number
            if chosen.any():
                place(tangents[:, chosen], at_zero[:, chosen], weights[chosen].real, weights[chosen].imag)

    def _without_zeros(self, t: np.ndarray, at_zero: np.ndarray, real: np.ndarray, imag: np.ndarray) -> None:
        self.odd += t @ imag
        self.odd_odd += (t * real) @ t.T
        if self.ternary:
            squares = t**2
            self.even += squares @ real
            self.even_even += (squares * real) @ squares.T
            self.odd_even += (t * imag) @ squares.T

    def _with_one(self, t: np.ndarray, at_zero: np.ndarray, real: np.ndarray, imag: np.ndarray) -> None:
        own = at_zero.argmax(axis=0)
        if not self.ternary:
            np.add.at(self.odd, own, imag)
            self._add_pairs(self.odd_odd, own, (t * real).T)
            return
        np.add.at(self.even, own, real)
        self._add_pairs(self.even_even, own, (t**2 * real).T)
        np.add.at(self.odd_even.T, own, (t * imag).T)

    def _with_two(self, t: np.ndarray, at_zero: np.ndarray, real: np.ndarray, imag: np.ndarray) -> None:
        own = at_zero.argmax(axis=0)
        other = len(at_zero) - 1 - at_zero[::-1].argmax(axis=0)
        np.add.at(self.of_two_zeros, (own, other), real)

    @staticmethod
    def _add_pairs(pairs: np.ndarray, own: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(pairs, own, rows)
        np.add.at(pairs.T, own, rows)

    def first(self) -> float:
        if not self.ternary:
            return float(self.odd @ self.odd)
        return float(2 * self.odd @ self.odd + self.even @ self.even)

    def second(self, share: float, share_of_two_zeros: float) -> float:
        two = share_of_two_zeros * self.of_two_zeros
        if not self.ternary:
            return _above_diagonal(share * self.odd_odd + two)
        mixed = self.odd_even - np.diag(np.diag(self.odd_even))
        alone = 4 * _above_diagonal(self.odd_odd) + 2 * np.sum(mixed**2)
        return float(share**2 * alone + _above_diagonal(share * self.even_even + two))


def _above_diagonal(pairs: Float[np.ndarray, "n n"]) -> float:
    return float(np.sum(np.triu(pairs, 1) ** 2))


def _log2(square: float, error: float, moment: float, of_moment: float, scale: float) -> tuple[float, bool]:
    """log2 of a weight, or of a bound on it, and whether it is the weight itself.

    `square` is that of the norm of the coefficients over e^scale, which is off by at most `error`.
    """
    if error == 0:  # no terms
        return -math.inf, True
    norm = math.sqrt(square)
    if norm > 0 and 2 * error / norm + of_moment <= _RESOLVED:
        return (math.log(square / moment) + 2 * scale) / math.log(2), True
    if of_moment >= 0.5:
        return 0.0, False
    bound = (math.log((norm + error) ** 2 / (moment * (1 - of_moment))) + 2 * scale) / math.log(2)
    return min(0.0, float(math.ceil(bound))), False  # a whole one, so that rounding does not show
