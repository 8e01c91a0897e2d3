"""How much of a label single covariates and pairs of them tell: its Fourier weight of degree exactly 1 and 2."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from lwe.characters import characters, label_coefficients, label_moments, residue_blocks
from lwe.parameters import LWRParameters, require_form, require_parameters

__all__ = ["LowDegreeWeights", "low_degree_weights"]

_MOST_OPERATIONS = 1 << 37


@dataclass(frozen=True)
class LowDegreeWeights:
    """The weights of degree exactly 1 and 2, as shares of the centred label's second moment.

    Attributes
    ----------
    log2_first, log2_second : float
        log2 of W_1 and W_2. Where it is -inf the weight is 0, as every term of it is; a weight whose terms cancel
        comes out as the rounding they leave, some 2^-95 of the largest of them squared.
    """

    log2_first: float
    log2_second: float

    @property
    def first(self) -> float:
        """W_1; 0.0 also where it is below 1e-308."""
        return float(2.0**self.log2_first)

    @property
    def second(self) -> float:
        """W_2; 0.0 also where it is below 1e-308."""
        return float(2.0**self.log2_second)

    def __str__(self) -> str:
        return f"W_1 = {self.first:.3g}, W_2 = {self.second:.3g}"


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
    weight costs no digits of itself: what costs them is cancelling between terms. A coefficient is right to about
    1e-15 sqrt(q) plus 1e-16 n |ln of the character| of the sum of its terms' sizes. Against exact rational weights of
    random secrets (n up to 200, q up to 64, weights down to 2^-400) log2 was off by at most 3e-13.
    O(n^2 q) operations, most of them in a matrix product.

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
    weights = (coefficients * own.phases)[relevant] * np.exp(logs - np.where(for_pairs, pair_scale, scale))
    weights *= np.where(2 * frequencies == q, 1.0, 2.0)  # with its conjugate, unless it is its own
    sums = _Sums(n, ternary)
    for part, residues in residue_blocks(form, q, frequencies):
        sums.add(residues, q, own.zeros[relevant[part]], weights[part])
    largest = max(scale, pair_scale)
    second = sums.second(math.exp(scale - largest), math.exp(pair_scale - largest))
    return LowDegreeWeights(_log2(sums.first() / moment, scale), _log2(second / moment, largest))


class _Sums:
    """Coefficients of single covariates and of pairs: odd functions (t) and, if ternary, even ones (t^2)."""

    def __init__(self, n: int, ternary: bool) -> None:
        self.ternary = ternary
        self.odd, self.even = np.zeros(n), np.zeros(n)
        self.odd_odd, self.of_two_zeros = np.zeros((n, n)), np.zeros((n, n))
        self.odd_even, self.even_even = (np.zeros((n, n)) if ternary else np.zeros((0, 0)) for _ in range(2))

    def add(
        self,
        residues: Int[np.ndarray, "n block"],
        modulus: int,
        zeros: Int[np.ndarray, " block"],
        weights: np.ndarray,
    ) -> None:
        at_zero = 2 * np.abs(residues) == modulus
        tangents = np.tan(np.where(at_zero, 0, residues) * (np.pi / modulus))
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


def _log2(share: float, scale: float) -> float:
    return (math.log(share) + 2 * scale) / math.log(2) if share > 0 else -math.inf
