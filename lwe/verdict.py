"""What speaks against a secret being hard to learn, by the measures that are computed here: reasons with numbers."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from lwe.attacks.linearisation import label_degree, label_monomials
from lwe.characters import log2_distance_from_uniform
from lwe.costs import estimate
from lwe.low_degree import LowDegreeWeights, low_degree_weights
from lwe.parameters import LWRParameters, covariate_form, require_parameters
from lwe.uniformity import wrap_ratio

__all__ = ["LEAST_WRAP", "Verdict", "judge_secret"]

LEAST_WRAP = 0.5
"""The least rho at which the inner product wraps around enough: total variation of about e^(-2 pi^2 / 4) = 0.7 %."""
_MOST_DISTANCE = 1e-2
_MOST_WEIGHT = 1e-3
_LEAST_EXPONENT = 40.0
_FEW_MONOMIALS = 1 << 16


@dataclass(frozen=True)
class Verdict:
    """What speaks against an instance.

    Attributes
    ----------
    objections : tuple of str
        Why it looks easy, each with its number; empty if no measure objects.
    rho : float or None
        The standard deviation of the inner product in units of the modulus; None for a uniform matrix.
    log2_distance : float
        log2 of the total variation distance of the inner product mod q from uniform; -inf where it is 0.
    weights : LowDegreeWeights or None
        The label's weights of degree 1 and 2; None for a uniform matrix.
    coins : bool
        Whether errors are uniform mod q, so that labels do not depend on the secret and there is nothing to learn.

    Notes
    -----
    That nothing is objected is no claim of security: these measures see some ways of learning a label and not others.
    """

    objections: tuple[str, ...]
    rho: float | None
    log2_distance: float
    weights: LowDegreeWeights | None
    coins: bool = False

    @property
    def passes(self) -> bool:
        """Whether no measure objects."""
        return not self.objections

    def __str__(self) -> str:
        if self.passes:
            return "No objection by these measures, which is no claim of security."
        said = "Nothing to learn" if self.coins else "Looks easy"
        return f"{said}: {'; '.join(self.objections)}."

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values; a logarithm of 0 is None."""
        numbers = asdict(self)
        weights = numbers.pop("weights") or {}
        return {
            "passes": self.passes,
            "objections": list(self.objections),
            **{
                name: None if one is None or not math.isfinite(one) else one
                for name, one in {**numbers, **weights}.items()
                if name != "objections"
            },
        }


def judge_secret(secret: ArrayLike, parameters: LWRParameters) -> Verdict:
    """What speaks against one secret: of the problem, of how its inner product wraps around, of its low degrees.

    Parameters
    ----------
    secret : array of int (secret_dim,)
        The secret, any representatives mod q.
    parameters : LWRParameters
        What it is a secret of.

    Raises
    ------
    ValueError
        If the secret does not fit; if, for heads, q is above 2^22, n q above 2^28 or n^2 q above 2^37; or if errors
        have a law of others that is not uniform and takes more than 2^24 values.

    Notes
    -----
    Objections, to heads: rho < 0.5, a total variation above 1e-2, weights of degree 1 or 2 above 1e-3. To any
    problem: labels that are linear without errors; at most 2^16 monomials for the linearisation that
    `LinearisationAttack` does, whatever the matrix and p; errors so rare that enough labels without any are guessed and
    solved within 2^40 operations; fewer than 2^40 secrets; an attack that `estimate` puts below 2^40 operations; in
    place of them all, that errors are uniform mod q, so that labels are coins. These limits are conventions of this
    project and no theorem, and estimates are heuristic. O(n^2 q) for heads.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> small = LWRParameters(secret_dim=40, modulus=17, levels=2)
    >>> print(judge_secret([1, -1, 0, 1] * 10, small).objections[0])
    wrap too weak: rho = 0.16 < 0.5
    """
    require_parameters(parameters)
    form = covariate_form(secret, parameters)
    q, matrix = parameters.modulus, parameters.matrix
    objections = []
    log2_distance = log2_distance_from_uniform(form, q, matrix)
    rho = weights = None
    if matrix != "uniform":
        rho, weights = wrap_ratio(form, q, matrix), low_degree_weights(form, parameters)
        if rho < LEAST_WRAP:
            objections.append(f"wrap too weak: rho = {rho:.2g} < {LEAST_WRAP}")
    if log2_distance > math.log2(_MOST_DISTANCE):
        objections.append(
            f"inner product far from uniform: total variation = {2.0**log2_distance:.2g} > {_MOST_DISTANCE}"
        )
    if weights is not None:
        for told, weight in (("single covariates", weights.first), ("pairs of covariates", weights.second)):
            if weight > _MOST_WEIGHT:
                objections.append(f"{told} tell of the label: weight = {weight:.2g} > {_MOST_WEIGHT}")
    if parameters.noise.is_uniform(q):
        coins = f"labels are coins: errors {parameters.noise} are uniform mod {q}, and nothing of the secret is left"
        return Verdict((coins,), rho, log2_distance, weights, coins=True)
    return Verdict((*objections, *_objections_to_problem(parameters)), rho, log2_distance, weights)


@lru_cache(maxsize=64)
def _objections_to_problem(parameters: LWRParameters) -> tuple[str, ...]:
    q, n = parameters.modulus, parameters.secret_dim
    found = []
    if parameters.levels == q:
        said, unknowns = f"labels linear mod {q}", n
    else:
        unknowns = _monomials(parameters)
        said = f"linearisation of degree {label_degree(parameters)} over GF(2): D = {unknowns} monomials"
    if unknowns:
        found += _solved(parameters, said, unknowns)
    tries = parameters.secret.secrets(n, q)
    if tries == 0:
        found.append("nothing is hidden: there is one secret")
    elif tries < _LEAST_EXPONENT:
        found.append(f"few secrets: 2^{tries:.3g} < 2^{_LEAST_EXPONENT:g}")
    # of a secret that is known there is nothing to estimate
    costs = estimate(parameters) if tries > 0 else []
    if costs and costs[0].exponent < _LEAST_EXPONENT:
        found.append(
            f"{costs[0].attack} estimated at {costs[0].operations} operations < 2^{_LEAST_EXPONENT:g}"
        )
    return tuple(found)


def _monomials(parameters: LWRParameters) -> int:
    """The unknowns of the linearisation that always suffices; 0 if there is none, or too many to object."""
    degree = label_degree(parameters)
    if degree is None:
        return 0
    unknowns = label_monomials(parameters, degree).size
    return unknowns if unknowns <= _FEW_MONOMIALS else 0


def _solved(parameters: LWRParameters, said: str, unknowns: int) -> list[str]:
    """The objection that so many unknowns can be solved for, with labels without errors guessed if need be."""
    if not parameters.noisy:
        return [f"{said} without errors" if parameters.levels == parameters.modulus else said]
    # the difference from 1 is lost below 1e-16
    rate = (1 - parameters.best_accuracy) or parameters.noise.error_rate(parameters.modulus)
    if rate >= 1:
        return []
    guesses = -unknowns * math.log1p(-rate) / math.log(2)
    if guesses + 3 * math.log2(unknowns) > _LEAST_EXPONENT:
        return []
    return [
        f"{said}; errors in one label of {1 / rate:.3g}, so 2^{guesses:.1f} guesses find enough without any"
    ]
