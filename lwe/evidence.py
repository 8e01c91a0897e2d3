"""How labels bear out a secret or a prediction: their probabilities under a secret, and tests on fresh samples."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from lwe.attack import BudgetSpentError, RefusedError
from lwe.parameters import LWRParameters, rounded
from lwe.samples import LWRSamples, inner_products

__all__ = [
    "accuracy_bar",
    "as_likely_as_own",
    "error_support",
    "fits_in_order",
    "label_log_likelihoods",
    "label_probabilities",
    "label_residues",
    "pairing_evidence",
    "surpasses",
]

_LEAST = 1e-300
_MOST_ERRORS = 1 << 22
_DEVIATIONS = 4
_REFUSED = _DEVIATIONS**2 / 2  # Chernoff's bound for a normal variable that is so many deviations off is e^-8
_EXPONENTS = 2.0 ** np.arange(1, -11, -1)
_GROUPS = 256
_NEGLIGIBLE = 1e-13  # differences of cumulated probabilities are rounded to about that


def label_residues(
    labels: Int[np.ndarray, "*n"], parameters: LWRParameters
) -> tuple[Int[np.ndarray, "*n"], Int[np.ndarray, "*n"]]:
    """For each label, the first residue that is rounded to it and the first one after those.

    Examples
    --------
    >>> label_residues(np.array([0, 1, 2]), LWRParameters(secret_dim=1, modulus=8, levels=3))
    (array([0, 3, 6]), array([3, 6, 8]))
    """
    q, p = parameters.modulus, parameters.levels
    return -(-labels * q // p), -(-(labels + 1) * q // p)


def error_support(parameters: LWRParameters) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
    """The errors, centred mod q and in increasing order, and their probabilities.

    Raises
    ------
    RefusedError
        If there are more than 2^22.
    """
    told = f"The errors {parameters.noise} have more values mod {parameters.modulus} than the 2^22 that are listed."
    try:
        errors, weights = parameters.noise.support(parameters.modulus)
    except ValueError:
        raise RefusedError(told) from None
    if len(errors) > _MOST_ERRORS:
        raise RefusedError(told)
    return errors, weights


def label_probabilities(
    parameters: LWRParameters,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The function (T, b) -> P(label b | <a, s> = T mod q), of arrays that broadcast.

    Raises
    ------
    BudgetSpentError
        If there are more than 2^22 errors, and they are not uniform.

    Notes
    -----
    The errors that carry T to the label b follow one another mod q, so their probability is a difference of two
    cumulated ones. With s values of errors O(s) to prepare and O(log s) for each, whatever q.
    """
    q, noise = parameters.modulus, parameters.noise
    if noise.is_uniform(q):

        def share(residues: np.ndarray, labels: np.ndarray) -> np.ndarray:
            first, after = label_residues(labels, parameters)
            return np.broadcast_to((after - first) / q, np.broadcast_shapes(residues.shape, labels.shape))

        return share
    errors, weights = error_support(parameters)
    order = np.argsort(np.mod(errors, q))
    turn = np.mod(errors, q)[order]
    places = np.concatenate([turn, turn + q])
    mass = np.concatenate([[0.0], np.cumsum(np.tile(weights[order], 2))])

    def probabilities(residues: np.ndarray, labels: np.ndarray) -> np.ndarray:
        first, after = label_residues(labels, parameters)
        least = np.mod(first - residues, q)
        found: np.ndarray = mass[np.searchsorted(places, least + after - first)]
        return found - mass[np.searchsorted(places, least)]

    return probabilities


def label_log_likelihoods(
    samples: LWRSamples, parameters: LWRParameters
) -> Callable[[np.ndarray], np.ndarray]:
    """For a secret, log P(b | <a, s>) of every sample; at least log 1e-300.

    Raises
    ------
    BudgetSpentError
        As `label_probabilities`.
    """
    probabilities, q = label_probabilities(parameters), parameters.modulus

    def likelihoods(secret: np.ndarray) -> np.ndarray:
        found = probabilities(inner_products(samples.public, secret, q), samples.labels)
        return np.log(np.maximum(found, _LEAST))

    return likelihoods


def pairing_evidence(scores: Float[np.ndarray, "N N"]) -> float:
    """Evidence that labels go with their rows: the log of an E that is hardly ever large if they do not.

    Parameters
    ----------
    scores : array (N, N)
        How well label j fits row i: f_i(b_j) for any functions f_i >= 0 of a label that were fixed before the labels
        were seen, such as P(b_j | <a_i, s>); raised to 1e-300 where they are below it.

    Notes
    -----
    E = prod_i f_i(b_i) / ((f_i(b_1) + ... + f_i(b_i)) / i): each label is held against those before it and itself.

    If labels are independent of rows, of whatever law, then P(E >= 1/level) <= level. For then the labels are
    exchangeable given the rows: given which i labels come first, in any order, and all later ones, b_i is each of
    those i alike. So the i-th factor has mean 1 given them; and they determine the factors after it, each of which is
    a function of its own label and of which labels come before it. The factors therefore come off from the first to
    the last, each by its mean given what determines those that are left: E has mean 1, and Markov's inequality is the
    rest. No law of the labels is fitted, so none can be fitted badly: constant labels give E = 1, and N labels at
    most N!.

    O(N^2).

    References
    ----------
    Derived here, in the manner of tests of exchangeability by martingales: Vovk, Gammerman and Shafer 2005,
    "Algorithmic Learning in a Random World", chapter 7.

    Examples
    --------
    >>> round(float(np.exp(pairing_evidence(np.eye(4))))), pairing_evidence(np.full((4, 4), 0.3))
    (24, 0.0)
    """
    scores = np.maximum(scores, _LEAST)
    earlier = np.tril(scores).sum(axis=1) / np.arange(1, len(scores) + 1)
    return float(np.sum(np.log(np.diagonal(scores) / earlier)))


def fits_in_order(
    secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWRParameters, *, level: float
) -> bool:
    """Whether labels go with their rows as this secret says, at that level, by `pairing_evidence`.

    Raises
    ------
    BudgetSpentError
        As `label_probabilities`.
    """
    probabilities = label_probabilities(parameters)
    products = inner_products(samples.public, secret, parameters.modulus)
    labels, places = np.unique(samples.labels, return_inverse=True)
    return pairing_evidence(probabilities(products[:, None], labels)[:, places]) >= -math.log(level)


def as_likely_as_own(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWRParameters) -> bool:
    """Whether the labels are as likely under a secret as labels made with it are; the true one passes but in e^-8.

    Raises
    ------
    BudgetSpentError
        As `label_probabilities`.

    Notes
    -----
    L = sum_i log P(b_i | T_i) with T_i = <a_i, s> is held against the law that it has for labels drawn with s on these
    rows: by Chernoff's bound P(L <= l) <= exp(c l) prod_i E exp(-c log P(b | T_i)) for each c > 0. The secret is
    refused where one of twelve c makes that less than e^-8, or a label has a probability below 1e-13. So the secret
    itself is refused with a probability of about e^-8 at the most, however skew the law of L; where L is normal, this
    is about four standard deviations. A secret that is off spreads b_i - T_i, and L falls behind what it promises; the
    number of right labels does not tell where errors are wide. Expectations are sums over the errors; more than 256 are
    put together in so many groups of neighbours, and the bound is then one up to that approximation. Derived here.
    O(N s) with s errors, at most 256.

    References
    ----------
    Chernoff 1952, "A measure of asymptotic efficiency for tests of a hypothesis based on the sum of observations".

    Examples
    --------
    >>> from lwe.laws import GaussianLaw
    >>> from lwe.samples import make_samples
    >>> wide = LWRParameters(secret_dim=4, modulus=4096, levels=4096, noise=GaussianLaw(200.0))
    >>> samples, secret = make_samples(wide, 400, rng=0)
    >>> as_likely_as_own(secret, samples, wide), as_likely_as_own(secret + 300, samples, wide)
    (True, False)
    """
    q, p = parameters.modulus, parameters.levels
    if parameters.noise.is_uniform(q):
        return True  # of whatever secret
    probabilities = label_probabilities(parameters)
    errors, weights = _grouped(*error_support(parameters))
    products = inner_products(samples.public, secret, q)

    found = probabilities(products, samples.labels)
    if found.min() < _NEGLIGIBLE:
        return False

    # without rounding, what is expected of L is the same whatever T
    expected = products if p < q else products[:1]
    moments = np.zeros(len(_EXPONENTS))
    for residues in np.array_split(expected, -(-len(expected) // 256)):
        own = probabilities(residues[:, None], rounded(residues[:, None] + errors, q, p))
        own = np.log(np.maximum(own, _NEGLIGIBLE))
        for place, exponent in enumerate(_EXPONENTS):
            # from the largest on, so that nothing overflows
            largest = (-exponent * own).max(axis=1, keepdims=True)
            moments[place] += np.sum(largest[:, 0] + np.log(np.exp(-exponent * own - largest) @ weights))
    moments *= len(products) / len(expected)
    return bool(np.min(_EXPONENTS * np.log(found).sum() + moments) >= -_REFUSED)


def _grouped(errors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 256 errors, each for a group of neighbours with all of their weight."""
    if len(errors) <= _GROUPS:
        return errors, weights
    starts = np.arange(_GROUPS) * len(errors) // _GROUPS
    middles = (starts + np.append(starts[1:], len(errors))) // 2
    return errors[middles], np.add.reduceat(weights, starts)


def accuracy_bar(parameters: LWRParameters, number: int) -> float:
    """The share of so many labels that the secret itself predicts at the least, up to four standard deviations.

    At most 0 where errors are wide: then the share says nothing. 1 without errors, and where they have too many values
    to list, so that nothing less is known to be enough.
    """
    if not parameters.noisy:
        return 1.0
    try:
        if not parameters.noise.is_uniform(parameters.modulus):
            error_support(parameters)
    except BudgetSpentError:
        return 1.0
    share = parameters.best_accuracy
    return share - _DEVIATIONS * math.sqrt(share * (1 - share) / number)


def surpasses(right: Bool[np.ndarray, " N"], other: Bool[np.ndarray, " N"], *, level: float) -> bool:
    """Whether one prediction is right more often than another on the same samples, at that level.

    Notes
    -----
    McNemar's test, exact: of the samples on which only one of the two is right, the prediction has to have more
    than a fair coin would.

    References
    ----------
    McNemar 1947, "Note on the sampling error of the difference between correlated proportions".
    """
    from scipy.stats import binom

    only, only_other = int(np.sum(right & ~other)), int(np.sum(other & ~right))
    return bool(binom.sf(only - 1, only + only_other, 0.5) <= level)
