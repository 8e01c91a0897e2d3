"""Costs of searches: exhaustive search, and meet in the middle."""

import math

from lwe.costs.cost import Cost
from lwe.costs.deviations import deviations, error_character
from lwe.parameters import LARGEST_MODULUS, LWEParameters

__all__ = ["exhaustive_cost", "meet_in_the_middle_cost"]

_LEAST_LEAD = 1e-14  # a smaller lead of the secret over chance is a rounding error


def exhaustive_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of trying all secrets, n additions for each label used; None if labels do not depend on the secret.

    A wrong secret agrees with a label with probability near 1/p, so it is dropped after p/(p - 1) labels on average.
    With noise every secret needs a score from about 1/(lambda - 1/p)^2 labels, where lambda is the share that the
    secret itself predicts. If errors are wide, scores use cosines and need 4/phi^2 labels, phi = |E exp(2 pi i e / q)|.

    Examples
    --------
    >>> from lwe.distributions import TERNARY
    >>> print(exhaustive_cost(LWEParameters(n=14, q=17, p=2, Xs=TERNARY)))
    exhaustive: about 2^27.0 (LWR n=14 q=17 p=2 secret=ternary (d=15); m 45, |S| 2^22.2)
    """
    p = parameters.p
    secrets = parameters.Xs.secrets(parameters.n, parameters.q)
    labels = p / (p - 1)
    if parameters.noisy:
        listed = parameters.q <= LARGEST_MODULUS and parameters.Xe.listed
        lead = max(parameters.best_accuracy - 1 / p if listed else 0.0, error_character(parameters) / 2)
        if lead < _LEAST_LEAD or parameters.Xe.is_uniform(parameters.q):
            return None
        labels = 1 / lead**2
    exponent = secrets + math.log2(labels * parameters.n)
    return Cost(
        "exhaustive",
        exponent,
        parameters,
        "addition mod q",
        "early abort",
        log2_m=_log2_samples(labels * max(secrets, 1), parameters),
        details={"|S|": secrets},
    )


def meet_in_the_middle_cost(parameters: LWEParameters) -> Cost | None:
    """The cost of meeting in the middle: the square root of the number of secrets, times the additions of a key.

    The halves are matched in k labels: A_1 s_1 is near b' - A_2 s_2 mod q, up to an error. Cells have half the modulus.
    So k = log2 sqrt(secrets) cells leave about one candidate for each half. An error moves at least one of the k keys
    into another cell with probability 1 - (1 - 2 E|e|/q)^k; the attack must then be repeated. Both halves are made
    entry by entry, with k additions each. The memory is sqrt(secrets) keys. None if that probability is within 2^-40 of
    1, or if errors are uniform. After Odlyzko's attack on NTRU (Howgrave-Graham, Silverman and Whyte 2003).

    Examples
    --------
    >>> from lwe.distributions import TERNARY
    >>> parameters = LWEParameters(n=20, q=17, p=8, Xs=TERNARY)
    >>> print(meet_in_the_middle_cost(parameters))  # doctest: +ELLIPSIS
    mitm: about 2^2... (LWR n=20 q=17 p=8 secret=ternary (d=21); mem 2^15.8, m 16)
    """
    q = parameters.q
    half = parameters.Xs.secrets(parameters.n, q) / 2
    keys = max(math.ceil(half), 1)
    missed = (
        2 * math.sqrt(3 / 4) * 2.0 ** (deviations(parameters).log2_error - math.log2(q))
    )  # E|e| of a uniform error
    if parameters.Xe.is_uniform(q) or missed >= 1 or -keys * math.log2(1 - missed) > 40:
        return None
    exponent = half + math.log2(2 * keys) - keys * math.log2(1 - missed)
    return Cost(
        "mitm",
        exponent,
        parameters,
        "addition mod q",
        "keys of cells",
        log2_mem=half,
        log2_m=_log2_samples(keys, parameters),
    )


def _log2_samples(needed: float | int, parameters: LWEParameters) -> float:
    """log2 of the samples of a search, which uses all again where there are fewer than it would take."""
    return math.log2(math.ceil(needed if parameters.m is None else min(needed, parameters.m)))
