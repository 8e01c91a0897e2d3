"""Objections to the hardness of a secret, by the measures computed here: reasons with numbers."""

import math
from dataclasses import dataclass
from functools import lru_cache

from numpy.typing import ArrayLike

from attention.validation import checked
from lower.certificate import FEW_OPERATIONS, LEAST_RHO
from lwe.attacks.linearisation import label_degree, label_monomials
from lwe.costs import estimate
from lwe.labels import LowDegreeWeights, low_degree_weights, weights_computable
from lwe.parameters import LWEParameters, covariate_form
from lwe.uniformity import followed, log2_distance_from_uniform, wrap_ratio

__all__ = ["FEW_MONOMIALS", "Verdict", "judge_secret"]

_MOST_DISTANCE = 1e-2
_MOST_WEIGHT = 1e-3
FEW_MONOMIALS = 1 << 16


@dataclass(frozen=True)
class Verdict:
    """The objections to the hardness of an instance.

    Notes
    -----
    The absence of objections is no claim of security: these measures detect only some ways of learning a label.
    """

    objections: tuple[str, ...]  #: why it looks easy, each with its number; empty if no measure objects
    #: the standard deviation of the inner product in units of the modulus; None for a uniform matrix
    rho: float | None
    #: log2 of the total variation distance of the inner product mod q from uniform; -inf where it is 0; None where the
    #: modulus is too large to compute it
    log2_distance: float | None
    #: the label's weights of degree 1 and 2; None for a uniform matrix, or where the modulus is too large
    weights: LowDegreeWeights | None
    #: whether errors are uniform mod q, so that labels do not depend on the secret and there is nothing to learn
    coins: bool = False

    @property
    def passes(self) -> bool:
        """Whether no measure objects."""
        return not self.objections

    def __str__(self) -> str:
        if self.passes:
            missing = self.rho is not None and (self.log2_distance is None or self.weights is None)
            left = " Those that follow all residues mod q are not computed." if missing else ""
            return f"No objection by these measures, which is no claim of security.{left}"
        return f"{'Nothing to learn' if self.coins else 'Objections'}: {'; '.join(self.objections)}."


@checked
def judge_secret(secret: ArrayLike, parameters: LWEParameters) -> Verdict:
    """The objections to one secret, given by any representatives mod q: its problem, its wrap, its low degrees.

    ValueError if the secret does not fit. For heads with q above 2^22, n q above 2^28 or n^2 q above 2^37 the measures
    that follow all residues are not computed: the distance from uniform (but that of the gadget is known for every q)
    and the weights.

    Notes
    -----
    Objections, to heads: rho < 0.5, a total variation above 1e-2, weights of degree 1 or 2 above 1e-3. To any
    problem: labels that are linear without errors; at most 2^16 monomials for the linearisation that
    `LinearisationAttack` does, whatever the matrix and p; errors so rare that enough labels without any are guessed and
    solved within 2^40 operations; fewer than 2^40 secrets; an attack that `estimate` puts below 2^40 operations; in
    place of them all, that errors are uniform mod q, so that labels are coins. These limits are conventions of this
    project and no theorem, and estimates are heuristic. O(n^2 q) for heads.

    Examples
    --------
    >>> small = LWEParameters(n=40, q=17, p=2)
    >>> print(judge_secret([1, -1, 0, 1] * 10, small).objections[0])
    wrap too weak: rho = 0.16 < 0.5
    """
    form = covariate_form(secret, parameters)
    q, matrix = parameters.q, parameters.matrix
    log2_distance = rho = weights = None
    if matrix == "uniform" or followed(len(form), q):
        log2_distance = log2_distance_from_uniform(form, q, matrix)
    elif matrix == "gadget":  # <v, a> = <s, G a> with G a uniform
        log2_distance = log2_distance_from_uniform(form, q, "uniform")
    shares, objections = [], []
    if log2_distance is not None:
        shares += [("inner product far from uniform: total variation", 2.0**log2_distance, _MOST_DISTANCE)]
    if matrix != "uniform":
        rho = wrap_ratio(form, q, matrix)
        if rho < LEAST_RHO:
            objections.append(f"wrap too weak: rho = {rho:.2g} < {LEAST_RHO}")
    if matrix != "uniform" and weights_computable(len(form), q):
        weights = low_degree_weights(form, parameters)
        shares += [
            ("single covariates tell of the label: weight", weights.first, _MOST_WEIGHT),
            ("pairs of covariates tell of the label: weight", weights.second, _MOST_WEIGHT),
        ]
    objections += [f"{measure} = {share:.2g} > {most}" for measure, share, most in shares if share > most]
    if parameters.Xe.is_uniform(q):
        coins = (
            f"labels are coins: errors {parameters.Xe} are uniform mod {q}, and nothing of the secret is left"
        )
        return Verdict((coins,), rho, log2_distance, weights, coins=True)
    return Verdict((*objections, *_objections_to_problem(parameters)), rho, log2_distance, weights)


@lru_cache(maxsize=64)
def _objections_to_problem(parameters: LWEParameters) -> tuple[str, ...]:
    found = _guessed(parameters)
    tries = parameters.Xs.secrets(parameters.n, parameters.q)
    if tries == 0:  # if the secret is known, there is nothing to estimate
        return (*found, "nothing is hidden: there is one secret")
    if tries < FEW_OPERATIONS:
        found.append(f"few secrets: 2^{tries:.3g} < 2^{FEW_OPERATIONS:g}")
    for cost in estimate(parameters)[:1]:
        if cost.log2_rop < FEW_OPERATIONS:
            found.append(f"{cost.attack} estimated at {cost.rop} operations < 2^{FEW_OPERATIONS:g}")
    return tuple(found)


def _guessed(parameters: LWEParameters) -> list[str]:
    """The objection that labels are linear in few unknowns, with labels without errors guessed if need be."""
    q, degree = parameters.q, label_degree(parameters)
    linear = parameters.p == q
    if linear:
        system, unknowns = f"labels linear mod {q}", parameters.n
    elif degree is None or (unknowns := label_monomials(parameters, degree).size) > FEW_MONOMIALS:
        return []
    else:
        system = f"linearisation of degree {degree} over GF(2): D = {unknowns} monomials"
    if not parameters.noisy:
        return [f"{system} without errors" if linear else system]
    # the difference from 1 is lost below 1e-16
    rate = (1 - parameters.best_accuracy) or parameters.Xe.error_rate(q)
    guesses = -unknowns * math.log1p(-rate) / math.log(2) if rate < 1 else math.inf
    if guesses + 3 * math.log2(unknowns) > FEW_OPERATIONS:
        return []
    return [
        f"{system}; errors in one label of {1 / rate:.3g}, so 2^{guesses:.1f} guesses find enough without any"
    ]
