"""Meeting in the middle: a table of half the secret, looked up for each other half; its time and its memory."""

import math

from lwe.costs.cost import Cost
from lwe.costs.deviations import deviations
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["meet_in_the_middle_cost"]


def meet_in_the_middle_cost(parameters: LWRParameters) -> Cost | None:
    """The square root of the secrets, times the additions of a key; None where labels have nothing to be matched by.

    Notes
    -----
    The halves are matched in k labels: A_1 s_1 is near b' - A_2 s_2 mod q, up to an error. With cells of half the
    modulus, k = log2 sqrt(secrets) cells leave about one candidate for each half, and an error moves at least one
    of them with probability 1 - (1 - 2 E|e|/q)^k, or it has to be tried again. Both halves are made entry by entry,
    k additions each. The memory is sqrt(secrets) keys. None if that probability is within 2^-40 of one, or errors are
    uniform. Derived here, after Odlyzko's attack on NTRU (Howgrave-Graham, Silverman and Whyte 2003).

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> parameters = LWRParameters(secret_dim=20, modulus=17, levels=8, secret=TernaryLaw())
    >>> print(meet_in_the_middle_cost(parameters))  # doctest: +ELLIPSIS
    meet in the middle: about 2^2... (LWR n=20 q=17 p=8 secret=ternary (d=21); memory 2^15.8)
    """
    require_parameters(parameters)
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
        "one addition mod q",
        "cells of half the modulus, repeated until no error crosses one",
        {"memory": f"2^{half:.1f}"},
    )
