"""All estimates for one problem, the cheapest first."""

from attention.validation import PositiveInt, checked
from lwe.costs.algebra import arora_ge_cost, groebner_cost, linearisation_cost
from lwe.costs.bkw import bkw_cost, coded_bkw_cost
from lwe.costs.cost import Cost
from lwe.costs.deviations import PlainLWE
from lwe.costs.dual import dual_cost, dual_hybrid_cost
from lwe.costs.hybrid import decoding_cost, hybrid_cost
from lwe.costs.primal import primal_cost
from lwe.costs.reduction import CostModelName
from lwe.costs.search import exhaustive_cost, meet_in_the_middle_cost
from lwe.parameters import LWRParameters

__all__ = ["estimate"]


@checked
def estimate(
    parameters: LWRParameters | PlainLWE,
    samples: PositiveInt | None = None,
    *,
    model: CostModelName = "core-SVP",
) -> list[Cost]:
    """The estimated costs of all attacks that apply, in the order of the exponents.

    Parameters
    ----------
    parameters : LWRParameters or PlainLWE
        The problem. Searches, linearisation and plain BKW are estimated for LWRParameters alone.
    samples : int, optional
        The number of samples; attacks that need more are left out. No limit if not given.
    model : {"core-SVP", "quantum core-SVP", "MATZOV"}
        The cost model of lattice reduction.

    Returns
    -------
    list of Cost
        The cheapest first, none where labels do not depend on the secret. Units differ from attack to attack
        (`Cost.unit`), so that neighbours in the list may change places in practice.

    Notes
    -----
    Each number is a heuristic estimate of the cost of one attack. Lattice estimates in the core-SVP model are low on
    purpose: they count only one call of a sieve. Another attack may cost less than all of these, so a large exponent is
    no claim of security. At toy sizes the asymptotic formulas say little, and an exponent does not predict seconds. Not
    all attacks are implemented in `lwe.attacks`. Without `samples` the list may contain an attack that needs more
    samples than a scheme makes public.

    Examples
    --------
    >>> for cost in estimate(LWRParameters(secret_dim=64, modulus=4, levels=2)):
    ...     print(cost.attack, cost.operations)  # doctest: +ELLIPSIS
    linearisation over GF(2) 2^27.1
    ...
    """
    costs = [
        coded_bkw_cost(parameters, samples),
        groebner_cost(parameters, samples),
        primal_cost(parameters, samples, model=model),
        decoding_cost(parameters, samples, model=model),
        hybrid_cost(parameters, samples, model=model),
        hybrid_cost(parameters, samples, model=model, meet=True),
        dual_cost(parameters, samples, model=model),
        dual_hybrid_cost(parameters, samples, model=model),
    ]
    if isinstance(parameters, LWRParameters):
        costs += [
            exhaustive_cost(parameters),
            meet_in_the_middle_cost(parameters),
            linearisation_cost(parameters, samples),
            arora_ge_cost(parameters, samples),
            bkw_cost(parameters, samples),
        ]
    return sorted((cost for cost in costs if cost is not None), key=lambda cost: cost.exponent)
