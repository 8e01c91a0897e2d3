"""How alike the labels of two secrets are: exactly for two, on average for all pairs."""

import numpy as np
from jaxtyping import Float, Int

from attention._arrays import shown
from attention.inputs import Rng
from attention.memory import require_memory
from attention.validation import count, random_generator
from lwe.characters import label_coefficients, label_moments
from lwe.laws import UniformLaw
from lwe.parameters import LWRParameters, centred, covariate_form, require_form, require_parameters

__all__ = ["label_correlation", "root_mean_square_correlation", "sampled_correlations"]

_MOST_OPERATIONS = 1 << 31
_MOST_LEVELS = 1 << 22
_BLOCK = 1 << 18


def label_correlation(
    form: Int[np.ndarray, " n"], other: Int[np.ndarray, " n"], parameters: LWRParameters
) -> float:
    """The correlation coefficient of f(<v, a>) and f(<v', a>) over the covariates a, without noise.

    Parameters
    ----------
    form, other : array of int (n,)
        v and v'; of gadget secrets, their covariate forms.
    parameters : LWRParameters
        The modulus, the levels and the matrix.

    Returns
    -------
    float
        The covariance over the two standard deviations; 0 where a label is constant.

    Raises
    ------
    ValueError
        If the forms are not one whole number for each covariate, n q^2 is above 2^31, or the matrix is uniform.

    Notes
    -----
    The covariance is the sum over pairs of frequencies w, w' != 0 of G(w) G(w') times the joint character minus the
    product of the two, so that nothing of the order of the means is subtracted. O(n q^2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> parameters = LWRParameters(secret_dim=2, modulus=4, levels=2)
    >>> same, apart = (np.array([1, 1]), np.array([1, -1]))
    >>> round(label_correlation(same, same, parameters), 12), round(label_correlation(same, apart, parameters), 12)
    (1.0, -0.333333333333)
    """
    require_parameters(parameters)
    q = parameters.modulus
    form, other = (centred(require_form(one, parameters.covariates), q) for one in (form, other))
    if len(form) * q * q > _MOST_OPERATIONS:
        raise ValueError(
            f"There are {len(form)} covariates and the modulus is {q}: n q^2 must be at most 2^31 for the exact "
            "correlation of two labels; take a smaller modulus."
        )
    spreads = 1.0
    for one in (form, other):
        mean, square = label_moments(one, parameters)
        spread = square - mean**2
        if spread < 1e-13 * (1 + square):  # no more than rounding leaves of a constant
            return 0.0
        spreads *= spread
    table = _factors(q, parameters.matrix == "ternary")
    omega = np.arange(1, q)
    half = omega[: q // 2]
    coefficients = label_coefficients(parameters)
    # of a real function: G(q - w) is the conjugate of G(w)
    later = coefficients[: (q - 1) // 2][::-1].conj()
    every = np.concatenate([coefficients, later])
    # frequencies past the middle give the conjugates of those before it
    doubled = np.where(2 * half == q, 1.0, 2.0)
    apart = _products(table, np.zeros_like(omega), omega, other, other, q)[0]
    total = 0.0
    size = max(1, _BLOCK // q)
    for start in range(0, len(half), size):
        part = slice(start, start + size)
        alone = _products(table, half[part], np.zeros(1, dtype=np.int64), form, form, q)
        joint = _products(table, half[part], omega, form, other, q) - alone * apart
        total += float((doubled[part] * coefficients[part] * (joint @ every)).real.sum())
    return total / spreads**0.5


def root_mean_square_correlation(parameters: LWRParameters) -> float:
    """The root mean square, over two independent uniform secrets, of how the labels of binary covariates correlate.

    Parameters
    ----------
    parameters : LWRParameters
        With a binary matrix and uniform secrets.

    Returns
    -------
    float
        sqrt(E (E_a g(<v, a>) g(<v', a>))^2) over E g^2, where g is the label minus its mean on uniform residues and
        the last expectation is over these. 2^(-n/2) exactly if p = 2 and q is even.

    Raises
    ------
    ValueError
        If the matrix is another or secrets are not uniform; `sampled_correlations` is for these. If p is above 2^22
        and does not divide q.

    Notes
    -----
    The mean square is that over pairs a, a' of covariates of (E_v g(<v, a>) g(<v, a'>))^2. Two different a, a' != 0
    of bits have two coordinates where they make a matrix of determinant 1 or -1, so (<v, a>, <v, a'>) is uniform on
    pairs of residues and the inner expectation is 0; it is E g^2 for a = a' != 0, g(0)^2 for a = a' = 0, and 0 where
    one of them is 0. Hence it is ((2^n - 1)(E g^2)^2 + g(0)^4) / 4^n. Correlations of most pairs are much smaller:
    few pairs make up the mean.

    Statistical queries of tolerance well above it tell no two of these secrets apart, on average; that is no
    statement on other algorithms.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> root_mean_square_correlation(LWRParameters(secret_dim=24, modulus=64, levels=2)) * 2**12
    1.0
    """
    require_parameters(parameters)
    if parameters.matrix != "binary" or not isinstance(parameters.secret, UniformLaw):
        raise ValueError(
            f"{parameters} has another matrix or secrets that are not uniform: the closed form is for uniform secrets "
            "and binary covariates; take sampled_correlations."
        )
    q, p, n = parameters.modulus, parameters.levels, parameters.covariates
    if q % p == 0:
        mean, square = (p - 1) / 2, (p * p - 1) / 12
    elif p <= _MOST_LEVELS:
        label = np.arange(p)
        runs = np.diff(-(-np.arange(p + 1) * q // p)) / q
        mean = float(runs @ label)
        square = float(runs @ (label - mean) ** 2)
    else:
        raise ValueError(
            f"{parameters} has more than 2^22 levels, and they do not divide the modulus: take fewer levels."
        )
    zero = mean**4 / square**2
    return float(2.0 ** (-n / 2) * np.sqrt(1 + (zero - 1) * 2.0**-n))


def sampled_correlations(
    parameters: LWRParameters, pairs: int, *, rng: Rng = None
) -> Float[np.ndarray, " pairs"]:
    """The correlations of the labels of so many random pairs of secrets, each of them exact.

    Raises
    ------
    ValueError
        See `label_correlation`.
    """
    require_parameters(parameters)
    pairs = count("pairs", pairs, least=1)
    require_memory(f"pairs is {shown(pairs)}: their correlations", 64 * pairs, advice="draw fewer")
    generator = random_generator(rng)
    n, q = parameters.secret_dim, parameters.modulus
    found = np.empty(pairs)
    for index in range(pairs):
        one, other = (
            covariate_form(parameters.secret.draw(n, q, rng=generator), parameters) for _ in range(2)
        )
        found[index] = label_correlation(one, other, parameters)
    return found


def _factors(modulus: int, ternary: bool) -> np.ndarray:
    """E e^(2 pi i r a / q) of one covariate a, for every residue r."""
    r = np.arange(modulus)
    cosines = np.cos(np.pi * r / modulus)
    cosines[2 * r == modulus] = 0.0
    return cosines**2 + 0j if ternary else np.exp(1j * np.pi * r / modulus) * cosines


def _products(
    table: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    form: np.ndarray,
    other: np.ndarray,
    modulus: int,
) -> np.ndarray:
    """E e^(2 pi i (w T + w' T') / q) for every w of `rows` and w' of `columns`."""
    found = np.ones((len(rows), len(columns)), dtype=np.complex128)
    for v, v_other in zip(form, other, strict=True):
        found *= table[np.add.outer(rows * v, columns * v_other) % modulus]
    return found
