"""Evidence for a secret or a prediction: probabilities of labels under a secret, and of such labels by chance."""

import math
from collections.abc import Callable

import numpy as np
import scipy
from jaxtyping import Int

from attention.validation import checked
from lwe.parameters import LWEParameters
from lwe.residues import centred, product_quotient
from lwe.samples import LWRSamples, Rounding, inner_products, rounded_labels

LEVEL = 1e-4
"""The bound on the probability that random labels count as predicted."""

_LEAST = 1e-300
_DEVIATIONS = 4
_REFUSED = _DEVIATIONS**2 / 2  # Chernoff's bound for a normal variable so many deviations off is e^-8
_EXPONENTS = 2.0 ** np.arange(1, -11, -1)
_GROUPS, _MOST_TERMS = 256, 1 << 22
_NEGLIGIBLE = 1e-13  # about the rounding error of differences of cumulative probabilities


@checked
def secret_predictor(
    secret: Int[np.ndarray, " n"], parameters: LWEParameters, rounding: Rounding = "down"
) -> Callable[[np.ndarray], np.ndarray]:
    """The predictions of a secret on rows of a public matrix: floor(p (<a, s> mod q) / q), or to the nearest."""
    q = parameters.q
    return lambda public: rounded_labels(inner_products(public, secret, q), parameters, rounding)


def share_right(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters) -> float:
    """The share of labels that a secret predicts."""
    predict = secret_predictor(secret, parameters, samples.rounding)
    return float(np.mean(predict(samples.public) == samples.labels))


def label_residues(
    labels: Int[np.ndarray, "*n"], parameters: LWEParameters, rounding: Rounding = "down"
) -> tuple[Int[np.ndarray, "*n"], Int[np.ndarray, "*n"]]:
    """For each label, the first residue that rounds to it, and the first residue after those, not reduced mod q."""
    q, p = parameters.q, parameters.p
    if rounding == "nearest":
        labels, p = 2 * labels - 1, 2 * p
        return -product_quotient(-labels, q, p, p * q), -product_quotient(-(labels + 2), q, p, p * q)
    return -product_quotient(-labels, q, p, p * q), -product_quotient(-(labels + 1), q, p, p * q)


def errors_listed(parameters: LWEParameters) -> bool:
    """Whether labels have errors, and few enough values of them for `label_probabilities`."""
    return parameters.noisy and (parameters.Xe.listed or parameters.Xe.is_uniform(parameters.q))


def label_probabilities(
    parameters: LWEParameters, rounding: Rounding = "down"
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The function (T, b) -> P(label b | <a, s> = T mod q), of arrays that broadcast.

    The errors that take T to the label b are consecutive mod q, so their probability is a difference of two cumulative
    probabilities. With s values of errors the cost is O(s) to prepare and O(log s) for each label, whatever q.
    ValueError if errors have more than 2^22 values and are not uniform.
    """
    q, noise = parameters.q, parameters.Xe
    if noise.is_uniform(q):

        def share(residues: np.ndarray, labels: np.ndarray) -> np.ndarray:
            first, after = label_residues(labels, parameters, rounding)
            return np.broadcast_to((after - first) / q, np.broadcast_shapes(residues.shape, labels.shape))

        return share
    errors, weights = parameters.error_support()
    order = np.argsort(np.mod(errors, q))
    turn = np.mod(errors, q)[order]
    places = np.concatenate([turn, turn + q])
    mass = np.concatenate([[0.0], np.cumsum(np.tile(weights[order], 2))])

    def probabilities(residues: np.ndarray, labels: np.ndarray) -> np.ndarray:
        first, after = label_residues(labels, parameters, rounding)
        least = np.mod(first - residues, q)
        upper: np.ndarray = mass[np.searchsorted(places, least + after - first)]
        return upper - mass[np.searchsorted(places, least)]

    return probabilities


def secret_score(samples: LWRSamples, parameters: LWEParameters) -> Callable[[np.ndarray], float]:
    """The score that compares candidates: the log-likelihood of labels if errors are listed, else the share right."""
    if not errors_listed(parameters):
        return lambda secret: share_right(secret, samples, parameters)
    probabilities, q = label_probabilities(parameters, samples.rounding), parameters.q

    def score(secret: np.ndarray) -> float:
        likelihoods = probabilities(inner_products(samples.public, secret, q), samples.labels)
        return float(np.log(np.maximum(likelihoods, _LEAST)).sum())

    return score


def log10_false_secret(
    secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters
) -> float:
    """log10 of a bound on the probability that random labels have any secret as convincing as this one; at most 0.

    Notes
    -----
    Proved: if the labels are independent of one another and of the rows, and those of uniform residues, then this
    number is at most -x for some secret with probability at most 10^-x, however many secrets were tried and however
    they were chosen from the same samples. Proof: let w be a probability distribution of secrets, E_s(b) the ratio of
    two probability distributions of all labels, one that depends on s in the numerator, that of random labels in the
    denominator. Each E_s has mean 1 on random labels, so their mean over w has mean 1 too, and each w(s) E_s is at most
    that mean. Markov's inequality gives the bound. Here w is the distribution of the secret (with weight 1/64 uniform
    mod q), so the search is charged for all secrets. `log_evidence` is log E_s or less.

    It bounds also the probability that any but the true secret is so convincing, for errors without rounding, uniform
    rows and a prime modulus: then the residues of a wrong secret are uniform, and independent of the errors and of one
    another. With rounding, other moduli or small rows another secret may have nearly the labels of the true one, and
    the bound says only that the labels are not random.

    Examples
    --------
    >>> from lwe.distributions import TERNARY
    >>> from lwe.samples import make_samples
    >>> puzzle = LWEParameters(16, q=251, p=251, matrix="uniform", Xs=TERNARY)
    >>> samples, secret = make_samples(puzzle, 5, rng=0)
    >>> round(log10_false_secret(secret, samples, puzzle), 2)  # 3^16 secrets and 5 labels: 3^16 / 251^5
    -4.35
    """
    evidence = log_evidence(
        secret_predictor(secret, parameters, samples.rounding)(samples.public), samples, parameters, secret
    )
    return min(0.0, -(evidence + _log_prior(secret, parameters)) / math.log(10))


def log_evidence(
    predicted: Int[np.ndarray, " N"],
    samples: LWRSamples,
    parameters: LWEParameters,
    secret: Int[np.ndarray, " n"] | None = None,
) -> float:
    """Evidence that labels are not random: the log of a value E of mean at most 1 for a prediction fixed before.

    Notes
    -----
    E is the probability of the labels given the prediction over their probability if they are random. Given the
    prediction: each label is right at an unknown rate, the rest uniform over the other labels (the rate is averaged
    over Jeffreys's prior, and counts only if more labels are right than a constant has); for a secret also its
    likelihood, with weight 63/64. If they are random: the largest of three probabilities, uniform residues; labels of
    one unknown distribution (averaged over Jeffreys's prior); one unknown label at an unknown rate and the others
    uniform. The largest can only make E less than with the first alone, and takes no uneven labels for predicted ones.
    """
    number, levels = len(samples), parameters.p
    _, counts = np.unique(samples.labels, return_counts=True)
    most = int(counts.max())
    first, after = label_residues(samples.labels, parameters, samples.rounding)
    random = max(
        float(np.log((after - first) / parameters.q).sum()),
        float(
            (scipy.special.gammaln(counts + 0.5) - scipy.special.gammaln(0.5)).sum()
            - np.log(levels / 2 + np.arange(number)).sum()
        ),
        _log_share(most, number, levels) - math.log(levels),
    )
    right = int(np.sum(predicted == samples.labels))
    fit = _log_share(right, number, levels) if right > most else -math.inf
    if secret is not None:
        own = 0.0 if right == number else -math.inf
        if errors_listed(parameters):
            probabilities = label_probabilities(parameters, samples.rounding)
            likelihoods = probabilities(inner_products(samples.public, secret, parameters.q), samples.labels)
            own = float(np.log(np.maximum(likelihoods, _LEAST)).sum()) if likelihoods.min() > 0 else -math.inf
        fit = _mixed(own, fit)
    return fit - random


def _log_share(right: int, number: int, levels: int) -> float:
    """Log of the probability of labels of which so many are right, at a rate of Jeffreys's prior, the rest uniform."""
    wrong = number - right
    return float(
        scipy.special.betaln(right + 0.5, wrong + 0.5) - scipy.special.betaln(0.5, 0.5)
    ) - wrong * math.log(levels - 1)


def _log_prior(secret: Int[np.ndarray, " n"], parameters: LWEParameters) -> float:
    """Log of a probability of the secret: that of its distribution, or uniform mod q."""
    n, q, distribution = parameters.n, parameters.q, parameters.Xs
    uniform = -n * math.log(q)
    if distribution.is_uniform(q):
        return uniform
    if not distribution.allows(secret, q):
        return _mixed(-math.inf, uniform)
    try:
        values, weights = distribution.support(q)
        own = float(np.log(weights[np.searchsorted(values, centred(secret, q))]).sum())
    except ValueError:  # entries that depend on one another: all secrets of the distribution are as likely
        own = -distribution.secrets(n, q) * math.log(2)
    return _mixed(own, uniform)


def _mixed(own: float, other: float) -> float:
    """Log of 63/64 of one probability and 1/64 of another, from their logs."""
    return float(np.logaddexp(own + math.log(63 / 64), other + math.log(1 / 64)))


def as_likely_as_own(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters) -> bool:
    """Whether labels are as likely under a secret as labels made with it; the true one fails with chance e^-8.

    Notes
    -----
    L = sum_i log P(b_i | T_i) with T_i = <a_i, s> is compared with its distribution for labels drawn with s on these
    rows. By Chernoff's bound P(L <= l) <= exp(c l) prod_i E exp(-c log P(b | T_i)) for each c > 0. The secret is
    refused if one of twelve c makes this bound less than e^-8, or a label has a probability below 1e-13. This is about
    four standard deviations if L is normal. A wrong secret spreads b_i - T_i, and L is smaller than expected; with
    wide errors the number of right labels does not show that. More than 256 errors are merged into 256 groups of
    neighbours, and then the bound is approximate. O(N s) with s errors, at most 256; with more than 2^22 terms the
    first samples stand for all.
    """
    q = parameters.q
    if parameters.Xe.is_uniform(q):
        return True  # of whatever secret
    probabilities = label_probabilities(parameters, samples.rounding)
    errors, weights = _grouped(*parameters.error_support())
    samples = samples.take(min(len(samples), _MOST_TERMS // len(errors)))
    products = inner_products(samples.public, secret, q)

    likelihoods = probabilities(products, samples.labels)
    if likelihoods.min() < _NEGLIGIBLE:
        return False

    # without rounding, the expectation for L is the same for every T
    expected = products if parameters.p < q else products[:1]
    moments = np.zeros(len(_EXPONENTS))
    for residues in np.array_split(expected, -(-len(expected) // 256)):
        moved = residues[:, None] + errors
        own = probabilities(residues[:, None], rounded_labels(moved, parameters, samples.rounding))
        own = np.log(np.maximum(own, _NEGLIGIBLE))
        for place, exponent in enumerate(_EXPONENTS):
            # relative to the largest, so that nothing overflows
            largest = (-exponent * own).max(axis=1, keepdims=True)
            moments[place] += np.sum(largest[:, 0] + np.log(np.exp(-exponent * own - largest) @ weights))
    moments *= len(products) / len(expected)
    return bool(np.min(_EXPONENTS * np.log(likelihoods).sum() + moments) >= -_REFUSED)


def accuracy_bar(parameters: LWEParameters, number: int) -> float:
    """The least share of `number` labels that the secret itself predicts, up to four standard deviations.

    At most 0 if errors are wide: then the share says nothing. 1 without errors, and also if errors have too many values
    to list, because then no smaller share is known to be enough.
    """
    if not errors_listed(parameters):
        return 1.0
    share = parameters.best_accuracy
    return share - _DEVIATIONS * math.sqrt(share * (1 - share) / number)


def _grouped(errors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 256 errors; each stands for a group of neighbours and has their total weight."""
    if len(errors) <= _GROUPS:
        return errors, weights
    starts = np.arange(_GROUPS) * len(errors) // _GROUPS
    middles = (starts + np.append(starts[1:], len(errors))) // 2
    return errors[middles], np.add.reduceat(weights, starts)
