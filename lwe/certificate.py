"""The facts of a certificate: its assumption, the numbers of its secret, and the estimates of attacks."""

import math

import numpy as np
from jaxtyping import Int

from lower import Fact, Heads, Key, Status, Word
from lower.certificate import BOUND_ROOM
from lwe.distributions import UNIFORM
from lwe.heads import kept_range, truncation_failure, value_range
from lwe.labels import low_degree_weights, root_mean_square_correlation, weights_computable
from lwe.parameters import LWEParameters
from lwe.uniformity import followed, log2_distance_from_uniform, total_variation_from_uniform, wrap_ratio

__all__ = ["lwr_estimates", "lwr_facts"]

_MOST_EXACT = 1 << 22
_FEW_MONOMIALS = 1 << 16  # a linearisation of so many is done in minutes
_PROBLEM = (
    "Banerjee, Peikert and Rosen 2012; Regev 2005; Blum, Furst, Kearns and Lipton 1993; on small secrets Applebaum, "
    "Cash, Peikert and Sahai 2009"
)


def lwr_facts(
    form: Int[np.ndarray, " n"],
    heads: Heads,
    error: float,
    parameters: LWEParameters,
    deviations: float | None,
) -> list[Fact]:
    """The facts about an instance: the covariate form of its secret, its heads and its error."""
    q, p = parameters.q, parameters.p
    binary = parameters.matrix == "binary" and parameters.Xs == UNIFORM
    spread = int(np.abs(form).astype(object).sum()) * p
    facts = [
        Fact(Key.ASSUMPTION, parameters.assumption, Status.ASSUMED, _PROBLEM),
        Fact(
            Key.SECRETS,
            parameters.Xs.secrets(parameters.n, q),
            Status.COMPUTED,
            "lwe.Distribution.secrets",
        ),
        *_easy(parameters),
        Fact(Key.RHO, wrap_ratio(form, q, parameters.matrix), Status.DERIVED, "lwe.uniformity.wrap_ratio"),
        *_distance(form, parameters, binary),
        *_weights(form, parameters),
        Fact(Key.HEADS, len(heads), Status.DERIVED, "exact for this secret"),
        Fact(Key.JUMPS, (spread, q), Status.DERIVED, "exact for this secret"),
        Fact(Key.REALISATION_ERROR, error, Status.PROVED, "lower.Heads.one_slope_error"),
    ]
    if binary:
        correlation, source = root_mean_square_correlation(parameters), "lwe.root_mean_square_correlation"
        facts.append(Fact(Key.SECRET_CORRELATION, correlation, Status.COMPUTED, source))
    if deviations is not None:
        ranges = (*kept_range(form, parameters.matrix, deviations), *value_range(form, parameters.matrix))
        facts += [
            Fact(
                Key.TRUNCATION,
                truncation_failure(deviations),
                Status.PROVED,
                "Hoeffding's inequality; lwe.heads.truncation_failure",
            ),
            Fact(Key.RANGE, tuple(map(int, ranges)), Status.DERIVED, "exact for this secret"),
        ]
    if parameters.noisy:
        source = "lwe.LWEParameters.best_accuracy; for a uniform inner product"
        facts.append(Fact(Key.BEST_ACCURACY, parameters.best_accuracy, Status.COMPUTED, source))
    return facts


def lwr_estimates(parameters: LWEParameters) -> list[Fact]:
    """The cheapest attack that finds a secret, as this version estimates it; none if there is nothing to find."""
    if parameters.Xs.secrets(parameters.n, parameters.q) == 0:
        return []
    from lwe.costs import estimate

    finders = [cost for cost in estimate(parameters) if cost.attack != "dual" and not cost.failure]
    return [Fact(Key.OPERATIONS, float(cost.log2_rop), Status.ESTIMATE, cost.attack) for cost in finders[:1]]


def _easy(parameters: LWEParameters) -> list[Fact]:
    """Why the problem is easy whatever its size, or that labels without errors make linear equations."""
    q = parameters.q
    source = "the parameters"
    if parameters.Xe.is_uniform(q):
        return [Fact(Key.BROKEN_BY, Word.COINS, Status.PROVED, source)]
    if parameters.Xs.secrets(parameters.n, q) == 0:
        return [Fact(Key.BROKEN_BY, Word.ONE_SECRET, Status.PROVED, source)]
    if parameters.noisy:
        return []
    if parameters.p == q:
        word = Word.GF2_ELIMINATION if q == 2 else Word.ELIMINATION
        return [Fact(Key.BROKEN_BY, word, Status.PROVED, "labels are linear without errors")]
    from lwe.attacks.linearisation import label_degree, label_monomials

    degree = label_degree(parameters)
    if degree is None or (monomials := label_monomials(parameters, degree).size) > _FEW_MONOMIALS:
        return []
    return [
        Fact(Key.BROKEN_BY, Word.LINEARISATION, Status.DERIVED, "lwe.LinearisationAttack"),
        Fact(Key.MONOMIALS, int(monomials), Status.DERIVED, "lwe.LinearisationAttack"),
    ]


def _distance(form: np.ndarray, parameters: LWEParameters, binary: bool) -> list[Fact]:
    q, n, matrix = parameters.q, len(form), parameters.matrix
    source = "lwe.total_variation_from_uniform, exact dynamic programming"
    if followed(n, q) and n * q <= _MOST_EXACT:
        exact = total_variation_from_uniform(form, q, matrix)
        value = math.log2(exact.numerator) - math.log2(exact.denominator) if exact else Word.ZERO
        return [Fact(Key.DISTANCE, value, Status.COMPUTED, source)]
    if followed(n, q) or matrix == "gadget":  # of the gadget, <v, a> = <s, G a> with G a uniform
        log2 = log2_distance_from_uniform(form, q, matrix if followed(n, q) else "uniform")
        value = Word.ZERO if log2 == -math.inf else log2
        return [Fact(Key.DISTANCE, value, Status.COMPUTED, "lwe.log2_distance_from_uniform")]
    facts = [Fact(Key.DISTANCE, Word.NOT_COMPUTED, Status.COMPUTED, source)]
    if binary:
        bound = (math.log2(q - 1) - n) / 2 - 1
        facts.append(Fact(Key.MEAN_DISTANCE, bound, Status.PROVED, "Cauchy and Schwarz; derived here"))
    return facts


def _weights(form: np.ndarray, parameters: LWEParameters) -> list[Fact]:
    source, degrees = "lwe.low_degree_weights", (1, 2)
    if not weights_computable(len(form), parameters.q):
        return [Fact(Key.WEIGHT, Word.NOT_COMPUTED, Status.COMPUTED, source, at=one) for one in degrees]
    weights = low_degree_weights(form, parameters)
    found = (weights.log2_first, weights.first_resolved), (weights.log2_second, weights.second_resolved)
    facts = []
    for degree, (log2, resolved) in zip(degrees, found, strict=True):
        if resolved:
            value = Word.ZERO if log2 == -math.inf else log2
            facts.append(Fact(Key.WEIGHT, value, Status.COMPUTED, source, at=degree))
        else:  # room for the bounds that other machines find, so that each of them proves this one
            bound = min(0, int(log2) + BOUND_ROOM)
            facts.append(Fact(Key.WEIGHT_BOUND, bound, Status.COMPUTED, source, at=degree))
    return facts
