"""Correlations of a label with single covariates, with pairs of them, and with the labels of another secret."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int
from numpy.typing import ArrayLike

from attention.validation import checked
from lwe.distributions import UNIFORM
from lwe.parameters import LWEParameters, require_form
from lwe.residues import product_quotient, rounded
from lwe.uniformity import Characters, characters, followed, residue_blocks, residue_deviations, tangents

_MOST_OPERATIONS = 1 << 37
_MOST_LEVELS = 1 << 22
_EPS = float(np.finfo(np.float64).eps)
_RESOLVED = 1e-8
# in place of a cosine that is 0, with the tangent 2^100: products of the two are exact, all else vanishes beside them
_ZERO = 2.0**-100


@dataclass(frozen=True)
class LowDegreeWeight:
    """The weight of one degree, as a share of the centred label's second moment."""

    log2: float  #: its logarithm; -inf where every term of the weight is 0
    #: Whether the weight is right to a relative 1e-8. Where terms cancel it is not, and the logarithm is that of a
    #: bound, a whole number: the weight is at most that, and may be 0.
    resolved: bool = True

    @property
    def value(self) -> float:
        """The weight; 0.0 also where it is below 1e-308."""
        return float(2.0**self.log2)


@checked
def low_degree_weights(form: ArrayLike, parameters: LWEParameters) -> tuple[LowDegreeWeight, LowDegreeWeight]:
    """W_1 and W_2 of the label f(<v, a>) without noise, over uniform covariates a, for the integer form v (n,).

    W_j is a share of the second moment of f - (p - 1)/2: the sum, over the sets S of j covariates, of the squared part
    of the label that depends on exactly S. For bits the parts are Fourier coefficients; a ternary covariate has two
    functions besides 1: sqrt 2 a and 2 a^2 - 1. ValueError if q is above 2^22, n q above 2^28 or n^2 q above 2^37, the
    matrix is uniform, or the form does not fit.

    Notes
    -----
    f = sum_w G(w) e^(2 pi i w T / q), so every coefficient is a sum over w of G(w) times a product over the covariates.
    With t = tan(pi w v_j / q), a covariate in S multiplies its factor e^(i u) cos u of the character by -i t (ternary:
    i sqrt 2 t and -t^2 times cos^2 u). All terms are relative to the largest character that contributes. So a small
    weight loses no digits by its size, only by cancellation between terms. By the triangle inequality the error of the
    vector of coefficients of one degree is at most the sum of the norms of its terms, each times the rounding error of
    its factors. If fewer than eight digits of the weight remain, the result is a bound. O(n^2 q) operations, most of
    them in a matrix product.

    Examples
    --------
    >>> [weight.value for weight in low_degree_weights([1, 1], LWEParameters(n=2, q=2, p=2))]
    [0.0, 1.0]
    """
    v, q = require_form(form, parameters.covariates), parameters.q
    if parameters.matrix == "uniform":
        raise ValueError(f"{parameters} has a uniform matrix: a binary, ternary or gadget one is needed.")
    if followed(len(v), q) and not weights_computable(len(v), q):
        raise ValueError(
            f"modulus is {q} and there are {len(v)} covariates: n^2 q of at most 2^37 is needed for the weights of "
            "pairs; take a smaller modulus."
        )
    own = characters(v, q, parameters.matrix)
    deviations, scale = residue_deviations(v, q, parameters.matrix)
    label = rounded(np.arange(q), q, parameters.p) - parameters.centre
    moment = float(np.maximum(1 / q + deviations * math.exp(scale), 0.0) @ label**2)
    return _weight(1, v, parameters, own, moment), _weight(2, v, parameters, own, moment)


def weights_computable(covariates: int, modulus: int) -> bool:
    """Whether the numbers are small enough for `low_degree_weights`."""
    return followed(covariates, modulus) and covariates**2 * modulus <= _MOST_OPERATIONS


def _weight(
    degree: int, form: Int[np.ndarray, " n"], parameters: LWEParameters, own: Characters, moment: float
) -> LowDegreeWeight:
    q, n, ternary = parameters.q, len(form), parameters.matrix == "ternary"
    coefficients = _label_coefficients(parameters)
    # a character with zero factors contributes only to sets that contain the covariates of all these factors
    kept = np.flatnonzero((own.zeros <= degree) & (coefficients != 0))
    if not len(kept) or moment <= 0:
        return LowDegreeWeight(-math.inf)
    logs, frequencies = own.logs[kept], kept + 1
    scale = float(logs.max())
    # with its conjugate, unless it is its own
    sizes = np.exp(logs - scale) * np.where(2 * frequencies == q, 1.0, 2.0)
    sizes *= _ZERO ** (own.zeros[kept] * (2 if ternary else 1))
    weights = (coefficients * own.phases)[kept] * sizes
    # a few units for the factors, one for each term of the sum, n for the logarithm of a product of n factors; and the
    # error of the transform that the label's coefficients come from
    units = len(kept) + 64 + 2 * n * (np.abs(logs) + abs(scale))
    of_transform = 4 * math.log2(2 * q) * math.sqrt(parameters.p / q) / np.sin(np.pi * frequencies / q)
    errors = _EPS * sizes * (np.abs(coefficients[kept]) * units + of_transform)

    table = tangents(q)
    table[2 * np.arange(len(table)) == q] = 1 / _ZERO
    sums, error = np.zeros(()), 0.0
    for part, residues in residue_blocks(form, q, frequencies):
        t = np.sign(residues) * table[np.abs(residues)]
        functions = [(math.sqrt(2) * 1j, t), (-1 + 0j, t**2)] if ternary else [(-1j, t)]
        sums = sums + _coefficients(degree, functions, weights[part])
        error += float(errors[part] @ _norms(degree, functions))
    if error == 0:  # no terms
        return LowDegreeWeight(-math.inf)
    norm = math.sqrt(np.sum(np.square(sums)) / degree)
    # the chances of q residues, each right to a few units
    of_moment = 8 * _EPS * q * parameters.centre**2 / moment
    if norm > 0 and 2 * error / norm + of_moment <= _RESOLVED:
        return LowDegreeWeight((math.log(norm**2 / moment) + 2 * scale) / math.log(2))
    if of_moment >= 0.5:
        return LowDegreeWeight(0.0, resolved=False)
    bound = (math.log((norm + error) ** 2 / (moment * (1 - of_moment))) + 2 * scale) / math.log(2)
    # a whole number, so that rounding has no effect
    return LowDegreeWeight(min(0.0, float(math.ceil(bound))), resolved=False)


_Functions = list[tuple[complex, Float[np.ndarray, "n block"]]]


def _coefficients(degree: int, functions: _Functions, weights: np.ndarray) -> np.ndarray:
    """The coefficients of all covariates and functions; each pair occurs twice, a covariate with itself has 0."""
    if degree == 1:
        return np.stack([values @ (weights * phase).real for phase, values in functions])
    found = np.stack(
        [
            (one * (weights * phase * other_phase).real) @ other.T
            for (phase, one), (other_phase, other) in itertools.product(functions, repeat=2)
        ]
    )
    found[:, range(found.shape[1]), range(found.shape[1])] = 0.0
    return found


def _norms(degree: int, functions: _Functions) -> Float[np.ndarray, " block"]:
    """For each character, a bound (nearly attained) on the norm of its contribution to the coefficients."""
    squares = np.sum([abs(phase) ** 2 * values**2 for phase, values in functions], axis=0)
    if degree == 1:
        return np.sqrt(np.sum(squares, axis=0))
    largest = np.max(squares, axis=0)
    others = np.sum(
        np.where(np.arange(len(squares))[:, None] == squares.argmax(axis=0), 0.0, squares), axis=0
    )
    return np.sqrt(largest * others + others**2 / 2)


def _label_coefficients(parameters: LWEParameters) -> Complex[np.ndarray, " h"]:
    """The Fourier coefficients of the label, (1/q) sum_t f(t) e^(-2 pi i w t / q), w = 1, ..., floor(q/2).

    Summation by parts: q G(w) (1 - e^(-2 pi i w / q)) is the transform of the label's upward steps, minus p. With
    g = gcd(p, q) the steps repeat every q/g residues, so their transform is exactly 0 unless g divides w. If it is
    exactly p, the coefficient is exactly 0. A transform of f itself would give 1e-17 there, which matters because
    characters of even frequencies can be large.
    """
    q, p = parameters.q, parameters.p
    g = math.gcd(p, q)
    steps = np.zeros(q // g)
    steps[-(-np.arange(p // g) * q // p)] = 1
    omega = np.arange(1, q // 2 + 1)
    # the transform of real numbers: coefficients past the middle are the conjugates of those before it
    rises = np.zeros(len(omega), dtype=np.complex128)
    whole = omega % g == 0
    rises[whole] = g * np.fft.fft(steps)[(omega[whole] // g) % (q // g)]
    angle = np.pi * omega / q
    return (rises - p) / (q * 2j * np.sin(angle) * np.exp(-1j * angle))


@checked
def root_mean_square_correlation(parameters: LWEParameters) -> float:
    """The root mean square correlation of the labels of two independent uniform secrets, for binary covariates.

    sqrt(E (E_a g(<v, a>) g(<v', a>))^2) over E g^2, where g is the label minus its mean on uniform residues: 2^(-n/2)
    exactly if p = 2 and q is even. ValueError for other matrices or secrets, or if p is above 2^22 and does
    not divide q.

    Notes
    -----
    The mean square is that over pairs a, a' of covariates of (E_v g(<v, a>) g(<v, a'>))^2. Two different a, a' != 0
    of bits have two coordinates where they make a matrix of determinant 1 or -1, so (<v, a>, <v, a'>) is uniform on
    pairs of residues and the inner expectation is 0; it is E g^2 for a = a' != 0, g(0)^2 for a = a' = 0, and 0 where
    one of them is 0. Hence it is ((2^n - 1)(E g^2)^2 + g(0)^4) / 4^n. Derived here. Statistical queries of tolerance
    well above it tell no two of these secrets apart, on average; that is no statement on other algorithms.

    Examples
    --------
    >>> root_mean_square_correlation(LWEParameters(n=24, q=64, p=2)) * 2**12
    1.0
    """
    if parameters.matrix != "binary" or parameters.Xs != UNIFORM:
        raise ValueError(f"parameters is {parameters}: a binary matrix and uniform secrets are needed.")
    q, p, n = parameters.q, parameters.p, parameters.covariates
    if q % p == 0:
        mean, square = (p - 1) / 2, (p * p - 1) / 12
    elif p <= _MOST_LEVELS:
        label = np.arange(p)
        runs = np.diff(-product_quotient(-np.arange(p + 1), q, p, (p + 1) * q)) / q
        mean = float(runs @ label)
        square = float(runs @ (label - mean) ** 2)
    else:
        raise ValueError(f"levels is {p} and does not divide modulus = {q}: at most 2^22 is needed then.")
    zero = mean**4 / square**2
    return float(2.0 ** (-n / 2) * np.sqrt(1 + (zero - 1) * 2.0**-n))
