"""All estimates for one problem, the cheapest first."""

import math
from collections.abc import Callable, Mapping
from functools import partial

from attention.validation import checked
from lwe.costs.combinatorial import bkw_cost, linearisation_cost, meet_in_the_middle_cost
from lwe.costs.cost import Cost
from lwe.costs.decoding import decoding_cost
from lwe.costs.dual import dual_cost, dual_hybrid_cost
from lwe.costs.primal import drop_and_solve_cost, primal_cost
from lwe.costs.reduction import CostModelName
from lwe.parameters import LWEParameters

_LARGEST = 1 << 18  # entries of a secret: twice those of the largest published sets


@checked
def estimate(parameters: LWEParameters, *, model: CostModelName = "core-SVP") -> list[Cost]:
    """The estimated costs of all attacks that apply, in the order of their operations.

    Parameters
    ----------
    parameters : LWEParameters
        The problem. Attacks that need more than its `m` samples are left out.
    model : {"core-SVP", "quantum core-SVP", "MATZOV"}
        The cost model of lattice reduction.

    Returns
    -------
    list of Cost
        The cheapest first, and of equal costs those of fewer samples; none where labels do not depend on the secret.
        Units differ from attack to attack (`Cost.unit`), so that neighbours in the list may change places in practice.
        A cost that could not be computed stands last, with its `Cost.failure`.

    Notes
    -----
    Each number is a heuristic estimate of the cost of one attack. Lattice estimates in the core-SVP model are low on
    purpose: they count only one call of a sieve. Another attack may cost less than all of these, such as a hybrid that
    guesses entries before it decodes, BKW with lattice codes, or Arora and Ge's equations, so a large exponent is no
    claim of security. At toy sizes the asymptotic formulas say little, and an exponent does not predict seconds. Not
    all attacks are implemented in `lwe.attacks`. Where the parameters have no `m`, the list may contain an attack that
    needs more samples than a scheme makes public.

    ValueError if n is above 2^18.

    Examples
    --------
    >>> for cost in estimate(LWEParameters(n=64, q=4, p=2)):
    ...     print(cost.attack, cost.rop)  # doctest: +ELLIPSIS
    linearisation 2^27.1
    ...
    """
    if parameters.n > _LARGEST:
        raise ValueError(f"n is {parameters.n}: costs are estimated for at most 2^18 entries of the secret.")
    rows: Mapping[str, Callable[[LWEParameters], Cost | None]] = {
        "usvp": partial(primal_cost, model=model),
        "drop-and-solve": partial(drop_and_solve_cost, model=model),
        "bdd": partial(decoding_cost, model=model),
        "dual": partial(dual_cost, model=model),
        "dual_hybrid": partial(dual_hybrid_cost, model=model),
        "mitm": meet_in_the_middle_cost,
        "linearisation": linearisation_cost,
        "plain-bkw": bkw_cost,
    }
    costs = (_computed(attack, cost, parameters) for attack, cost in rows.items())
    return sorted((cost for cost in costs if cost is not None), key=lambda cost: cost.order)


def _computed(
    attack: str, cost: Callable[[LWEParameters], Cost | None], parameters: LWEParameters
) -> Cost | None:
    """A cost, or the reason why there is none: no row takes the others along."""
    try:
        return cost(parameters)
    except (ArithmeticError, ValueError, MemoryError) as error:
        reason = str(error) or type(error).__name__
        return Cost(attack, math.inf, parameters, failure=reason)
