"""The cost of searches: meeting in the middle, which takes no more than exhaustive search."""

import math

from lwe.costs.cost import Cost
from lwe.costs.deviations import deviations
from lwe.parameters import LWEParameters

__all__ = ["meet_in_the_middle_cost"]


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
    # a search uses all samples again where there are fewer than it would take
    samples = keys if parameters.m is None else min(keys, parameters.m)
    return Cost(
        "mitm",
        exponent,
        parameters,
        "addition mod q",
        "keys of cells",
        log2_mem=half,
        log2_m=math.log2(samples),
    )
