"""All estimates for one problem, the cheapest first."""

from attention.validation import count, one_of
from lwe.costs.bkw import bkw_cost
from lwe.costs.cost import Cost, require_number
from lwe.costs.dual import dual_cost
from lwe.costs.exhaustive import exhaustive_cost
from lwe.costs.linearisation import arora_ge_cost, linearisation_cost
from lwe.costs.meet_in_the_middle import meet_in_the_middle_cost
from lwe.costs.primal import primal_cost
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["estimate"]


def estimate(parameters: LWRParameters, samples: int | None = None, *, quantum: bool = False) -> list[Cost]:
    """What each attack that applies is estimated to cost, in the order of the exponents.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int, optional
        How many there are; attacks that want more are left out. Without limit if not given.
    quantum : bool
        Whether the sieves of the lattice attacks are quantum ones.

    Returns
    -------
    list of Cost
        The cheapest first. Units differ from attack to attack (`Cost.unit`), and lattice exponents leave out all
        factors below exponential: neighbours in the list may well change places in practice. None at all where labels
        do not depend on the secret.

    Raises
    ------
    ValueError
        If `parameters` are none, `samples` is below 1, or errors have a law of others that is not uniform and takes
        more than 2^24 values.

    Notes
    -----
    Each is a heuristic estimate of what one attack costs. Those of lattices are below that cost on purpose:
    `core_svp_exponent` counts one call of a sieve and nothing else. The others count the operations of the attack as it
    is modelled. An attack that is not here may cost less than any of them, so a large exponent is no claim of security;
    and at toy sizes, where the asymptotic formulas say little, it is no prediction of seconds. Not all of them are
    implemented in `lwe.attacks` for all parameters: BKW only for parities, searches only where a label excludes
    candidates. Without `samples` an attack may be listed that wants more of them than a scheme makes public.

    Examples
    --------
    >>> for cost in estimate(LWRParameters(secret_dim=64, modulus=4, levels=2)):
    ...     print(cost.attack, cost.operations)  # doctest: +ELLIPSIS
    linearisation over GF(2) 2^27.1
    ...
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    one_of("quantum", quantum, (True, False))
    if not isinstance(parameters, LWRParameters):
        raise ValueError(
            f"parameters is {parameters!r}: an LWRParameters is needed, such as lwe.PRESETS['kyber512']."
        )
    samples = require_number(samples)
    costs = [
        exhaustive_cost(parameters),
        meet_in_the_middle_cost(parameters),
        linearisation_cost(parameters, samples),
        arora_ge_cost(parameters, samples),
        bkw_cost(parameters, samples),
        primal_cost(parameters, samples, quantum=quantum),
        dual_cost(parameters, samples, quantum=quantum),
    ]
    return sorted((cost for cost in costs if cost is not None), key=lambda cost: cost.exponent)
