"""Costs of searches: exhaustive search, and meet in the middle."""

import math

from attention.validation import checked
from lwe.costs.cost import Cost
from lwe.costs.deviations import deviations, error_character
from lwe.parameters import LWRParameters

__all__ = ["exhaustive_cost", "meet_in_the_middle_cost"]

_LEAST_LEAD = 1e-14  # a smaller lead of the secret over chance is a rounding error


@checked
def exhaustive_cost(parameters: LWRParameters) -> Cost | None:
    """The cost of trying all secrets, n additions for each label used; None if labels do not depend on the secret.

    A wrong secret agrees with a label with probability near 1/p, so it is dropped after p/(p - 1) labels on average.
    With noise every secret needs a score from about 1/(lambda - 1/p)^2 labels, where lambda is the share that the
    secret itself predicts. If errors are wide, scores use cosines and need 4/phi^2 labels, phi = |E exp(2 pi i e / q)|.

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> print(exhaustive_cost(LWRParameters(secret_dim=14, modulus=17, levels=2, secret=TernaryLaw())))
    exhaustive: about 2^27.0 (LWR n=14 q=17 p=2 secret=ternary (d=15); secrets 2^22.2)
    """
    p = parameters.levels
    secrets = parameters.secret.secrets(parameters.secret_dim, parameters.modulus)
    labels = p / (p - 1)
    if parameters.noisy:
        lead = max(parameters.best_accuracy - 1 / p, error_character(parameters) / 2)
        if lead < _LEAST_LEAD or parameters.noise.is_uniform(parameters.modulus):
            return None
        labels = 1 / lead**2
    exponent = secrets + math.log2(labels * parameters.secret_dim)
    return Cost(
        "exhaustive",
        exponent,
        parameters,
        "addition mod q",
        "early abort",
        {"secrets": f"2^{secrets:.1f}"},
    )


@checked
def meet_in_the_middle_cost(parameters: LWRParameters) -> Cost | None:
    """The cost of meeting in the middle: the square root of the number of secrets, times the additions of a key.

    The halves are matched in k labels: A_1 s_1 is near b' - A_2 s_2 mod q, up to an error. Cells have half the modulus.
    So k = log2 sqrt(secrets) cells leave about one candidate for each half. An error moves at least one of the k keys
    into another cell with probability 1 - (1 - 2 E|e|/q)^k; the attack must then be repeated. Both halves are made
    entry by entry, with k additions each. The memory is sqrt(secrets) keys. None if that probability is within 2^-40 of
    1, or if errors are uniform. After Odlyzko's attack on NTRU (Howgrave-Graham, Silverman and Whyte 2003).

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> parameters = LWRParameters(secret_dim=20, modulus=17, levels=8, secret=TernaryLaw())
    >>> print(meet_in_the_middle_cost(parameters))  # doctest: +ELLIPSIS
    meet in the middle: about 2^2... (LWR n=20 q=17 p=8 secret=ternary (d=21); memory 2^15.8)
    """
    q = parameters.modulus
    half = parameters.secret.secrets(parameters.secret_dim, q) / 2
    keys = max(math.ceil(half), 1)
    missed = 2 * math.sqrt(3 / 4) * deviations(parameters).error / q  # E|e| of a uniform error
    if parameters.noise.is_uniform(q) or missed >= 1 or -keys * math.log2(1 - missed) > 40:
        return None
    exponent = half + math.log2(2 * keys) - keys * math.log2(1 - missed)
    return Cost(
        "meet in the middle",
        exponent,
        parameters,
        "addition mod q",
        "keys of cells",
        {"memory": f"2^{half:.1f}"},
    )
