"""Evidence for a secret or a prediction: probabilities of labels under a secret, and tests on fresh samples."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from attention.validation import checked
from lwe.attacks.outcome import AttackOutcome, RefusedError
from lwe.parameters import LWEParameters, rounded
from lwe.residues import product_quotient
from lwe.samples import LWRSamples, inner_products

__all__ = [
    "LEVEL",
    "accuracy_bar",
    "as_likely_as_own",
    "common_label",
    "error_support",
    "errors_listed",
    "fits_in_order",
    "judged",
    "label_probabilities",
    "label_residues",
    "pairing_evidence",
    "secret_predictor",
    "secret_score",
    "share_right",
    "surpasses",
]

LEVEL = 1e-4
"""The most probable false alarm of each test: a prediction without information counts as better than chance."""

_LEAST = 1e-300
_MOST_ERRORS = 1 << 22
_DEVIATIONS = 4
_REFUSED = _DEVIATIONS**2 / 2  # Chernoff's bound for a normal variable so many deviations off is e^-8
_EXPONENTS = 2.0 ** np.arange(1, -11, -1)
_GROUPS = 256
_NEGLIGIBLE = 1e-13  # about the rounding error of differences of cumulative probabilities


@checked
def secret_predictor(
    secret: Int[np.ndarray, " n"], parameters: LWEParameters
) -> Callable[[np.ndarray], np.ndarray]:
    """The predictions of a secret on rows of a public matrix: floor(p (<a, s> mod q) / q)."""
    q, p = parameters.q, parameters.p
    return lambda public: rounded(inner_products(public, secret, q), q, p)


def share_right(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters) -> float:
    """The share of labels that a secret predicts."""
    return float(np.mean(secret_predictor(secret, parameters)(samples.public) == samples.labels))


def label_residues(
    labels: Int[np.ndarray, "*n"], parameters: LWEParameters
) -> tuple[Int[np.ndarray, "*n"], Int[np.ndarray, "*n"]]:
    """For each label, the first residue that rounds to it, and the first residue after those."""
    q, p = parameters.q, parameters.p
    return -product_quotient(-labels, q, p, p * q), -product_quotient(-(labels + 1), q, p, p * q)


def error_support(parameters: LWEParameters) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"]]:
    """The errors, centred mod q and in increasing order, and their probabilities; RefusedError above 2^22 of them."""
    told = f"The errors {parameters.Xe} have more values mod {parameters.q} than the 2^22 that are listed."
    try:
        errors, weights = parameters.error_support()
    except ValueError:
        raise RefusedError(told) from None
    if len(errors) > _MOST_ERRORS:
        raise RefusedError(told)
    return errors, weights


def errors_listed(parameters: LWEParameters) -> bool:
    """Whether labels have errors, and few enough values of them for `label_probabilities`."""
    if not parameters.noisy or parameters.Xe.is_uniform(parameters.q):
        return parameters.noisy
    try:
        error_support(parameters)
    except RefusedError:
        return False
    return True


def label_probabilities(parameters: LWEParameters) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The function (T, b) -> P(label b | <a, s> = T mod q), of arrays that broadcast.

    The errors that take T to the label b are consecutive mod q, so their probability is a difference of two cumulative
    probabilities. With s values of errors the cost is O(s) to prepare and O(log s) for each label, whatever q.
    `RefusedError` if errors have more than 2^22 values and are not uniform.
    """
    q, noise = parameters.q, parameters.Xe
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


def secret_score(samples: LWRSamples, parameters: LWEParameters) -> Callable[[np.ndarray], float]:
    """The score that compares candidates: the log-likelihood of labels if errors are listed, else the share right."""
    if not errors_listed(parameters):
        return lambda secret: share_right(secret, samples, parameters)
    probabilities, q = label_probabilities(parameters), parameters.q

    def score(secret: np.ndarray) -> float:
        found = probabilities(inner_products(samples.public, secret, q), samples.labels)
        return float(np.log(np.maximum(found, _LEAST)).sum())

    return score


def common_label(samples: LWRSamples) -> int:
    """The most frequent label."""
    values, counts = np.unique(samples.labels, return_counts=True)
    return int(values[np.argmax(counts)])


def judged(
    predicted: Int[np.ndarray, " N"],
    samples: LWRSamples,
    parameters: LWEParameters,
    constant: int,
    secret: Int[np.ndarray, " n"] | None = None,
) -> AttackOutcome:
    """The verdict on a prediction, and on its secret if it has one, by samples that were not used to make it.

    BROKEN: the prediction is right on all of them and better than chance; with errors, which nobody can predict, it is
    as good as that of the secret itself. PREDICTS: better than chance, by one of two tests; a prediction without
    information passes each test with probability at most 1e-4. Otherwise NOTHING.

    Notes
    -----
    A prediction is better than chance if it is right more often than a constant that was fixed before, by McNemar's
    test (`surpasses`), and more often than the most frequent label. This needs at least fourteen samples on which the
    two differ.

    With wide errors few labels are right, whatever the secret. So the second test uses the likelihood of the labels:
    the secret must fit them in their order far better than in other orders (`fits_in_order`). Labels that are
    independent of the rows hardly ever pass this test, whatever their law. A secret that predicts only one label gets
    only the first test, which it cannot pass. If errors have too many values to list, they are ignored.

    With errors, "as good as the secret itself" means two things, both up to four standard deviations: as many labels
    are right as the secret would have right (`accuracy_bar`), and the labels are as likely as labels made with the
    found secret (`as_likely_as_own`). A prediction without a secret has no likelihood. For it only the share of right
    labels counts, so the bar must be above the share of the most frequent label.
    """
    right, by_likelihood = predicted == samples.labels, errors_listed(parameters)
    accuracy, chance = np.mean(right), np.mean(samples.labels == common_label(samples))
    better = accuracy > chance and surpasses(right, samples.labels == constant, level=LEVEL)
    if not better and secret is not None and by_likelihood and np.any(predicted != predicted[0]):
        better = fits_in_order(secret, samples, parameters, level=LEVEL)
    if not better:
        return AttackOutcome.NOTHING
    bar = accuracy_bar(parameters, len(samples))
    broken = accuracy >= bar
    if broken and by_likelihood:
        broken = bar > chance if secret is None else as_likely_as_own(secret, samples, parameters)
    return AttackOutcome.BROKEN if broken else AttackOutcome.PREDICTS


def pairing_evidence(scores: Float[np.ndarray, "N N"]) -> float:
    """Evidence that labels belong to their rows: the log of a value E that is rarely large if they do not.

    `scores[i, j]` measures how well label j fits row i: f_i(b_j) for any functions f_i >= 0 that were fixed before the
    labels were seen, such as P(b_j | <a_i, s>).

    Notes
    -----
    E = prod_i f_i(b_i) / ((f_i(b_1) + ... + f_i(b_i)) / i): each label is compared with the earlier ones and itself.

    If labels are independent of rows, whatever their law, then P(E >= 1/level) <= level. Proof: condition on the set of
    the first i labels, without their order, and on all later labels. Then b_i is each of these i labels with equal
    probability, so the i-th factor has mean 1. The condition determines the later factors, so E has mean 1, and
    Markov's inequality gives the bound. No law of the labels is fitted. Constant labels give E = 1, and N labels give
    at most N!. O(N^2). The method follows Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World",
    chapter 7.
    """
    scores = np.maximum(scores, _LEAST)
    earlier = np.tril(scores).sum(axis=1) / np.arange(1, len(scores) + 1)
    return float(np.sum(np.log(np.diagonal(scores) / earlier)))


def fits_in_order(
    secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters, *, level: float
) -> bool:
    """Whether labels belong to their rows under this secret, at that level, by `pairing_evidence`."""
    probabilities = label_probabilities(parameters)
    products = inner_products(samples.public, secret, parameters.q)
    labels, places = np.unique(samples.labels, return_inverse=True)
    return pairing_evidence(probabilities(products[:, None], labels)[:, places]) >= -math.log(level)


def as_likely_as_own(secret: Int[np.ndarray, " n"], samples: LWRSamples, parameters: LWEParameters) -> bool:
    """Whether labels are as likely under a secret as labels made with it; the true one fails with chance e^-8.

    Notes
    -----
    L = sum_i log P(b_i | T_i) with T_i = <a_i, s> is compared with its law for labels drawn with s on these rows. By
    Chernoff's bound P(L <= l) <= exp(c l) prod_i E exp(-c log P(b | T_i)) for each c > 0. The secret is refused if one
    of twelve c makes this bound less than e^-8, or a label has a probability below 1e-13. This is about four standard
    deviations if L is normal. A wrong secret spreads b_i - T_i, and L is smaller than expected; with wide errors the
    number of right labels does not show that. More than 256 errors are merged into 256 groups of neighbours, and then
    the bound is approximate. O(N s) with s errors, at most 256.
    """
    q, p = parameters.q, parameters.p
    if parameters.Xe.is_uniform(q):
        return True  # of whatever secret
    probabilities = label_probabilities(parameters)
    errors, weights = _grouped(*error_support(parameters))
    products = inner_products(samples.public, secret, q)

    found = probabilities(products, samples.labels)
    if found.min() < _NEGLIGIBLE:
        return False

    # without rounding, the expectation for L is the same for every T
    expected = products if p < q else products[:1]
    moments = np.zeros(len(_EXPONENTS))
    for residues in np.array_split(expected, -(-len(expected) // 256)):
        own = probabilities(residues[:, None], rounded(residues[:, None] + errors, q, p))
        own = np.log(np.maximum(own, _NEGLIGIBLE))
        for place, exponent in enumerate(_EXPONENTS):
            # relative to the largest, so that nothing overflows
            largest = (-exponent * own).max(axis=1, keepdims=True)
            moments[place] += np.sum(largest[:, 0] + np.log(np.exp(-exponent * own - largest) @ weights))
    moments *= len(products) / len(expected)
    return bool(np.min(_EXPONENTS * np.log(found).sum() + moments) >= -_REFUSED)


def accuracy_bar(parameters: LWEParameters, number: int) -> float:
    """The least share of `number` labels that the secret itself predicts, up to four standard deviations.

    At most 0 if errors are wide: then the share says nothing. 1 without errors, and also if errors have too many values
    to list, because then no smaller share is known to be enough.
    """
    if not errors_listed(parameters):
        return 1.0
    share = parameters.best_accuracy
    return share - _DEVIATIONS * math.sqrt(share * (1 - share) / number)


def surpasses(right: Bool[np.ndarray, " N"], other: Bool[np.ndarray, " N"], *, level: float) -> bool:
    """Whether one prediction is right more often than another on the same samples, at that level.

    McNemar's exact test (1947, "Note on the sampling error of the difference between correlated proportions"): among
    the samples on which only one of the two is right, the prediction must be right more often than a fair coin.
    """
    from scipy.stats import binom

    only, only_other = int(np.sum(right & ~other)), int(np.sum(other & ~right))
    return bool(binom.sf(only - 1, only + only_other, 0.5) <= level)


def _grouped(errors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 256 errors; each stands for a group of neighbours and has their total weight."""
    if len(errors) <= _GROUPS:
        return errors, weights
    starts = np.arange(_GROUPS) * len(errors) // _GROUPS
    middles = (starts + np.append(starts[1:], len(errors))) // 2
    return errors[middles], np.add.reduceat(weights, starts)
