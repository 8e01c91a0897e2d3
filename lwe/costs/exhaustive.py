"""Exhaustive search's cost: every secret that the law can draw, given up at the first label that disagrees."""

import math

from lwe.costs.cost import Cost
from lwe.costs.deviations import error_character
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["exhaustive_cost"]


_LEAST_LEAD = 1e-14
"""Of the secret over chance, for a score: what is below it is rounding."""


def exhaustive_cost(parameters: LWRParameters) -> Cost | None:
    """log2 of the secrets, times n additions for each label looked at; None where labels do not depend on the secret.

    Notes
    -----
    A wrong secret agrees with a label with probability near 1/p and is given up after p/(p - 1) labels on average; with
    noise each has to be looked at for as long as its score takes, about 1/(lambda - 1/p)^2 labels, lambda the share
    that the secret itself predicts, or 4/phi^2, phi = |E exp(2 pi i e / q)|, for scores by cosines where errors are
    wide. Derived here.

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> print(exhaustive_cost(LWRParameters(secret_dim=14, modulus=17, levels=2, secret=TernaryLaw())))
    exhaustive: about 2^27.0 (LWR n=14 q=17 p=2 secret=ternary (d=15); secrets 2^22.2)
    """
    require_parameters(parameters)
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
        "one addition mod q",
        "all secrets, early abort",
        {"secrets": f"2^{secrets:.1f}"},
    )
