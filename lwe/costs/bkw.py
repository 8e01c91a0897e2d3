"""BKW's cost: samples added until blocks of the secret vanish, errors growing meanwhile."""

import math

from attention.validation import count
from lwe.costs.cost import Cost, require_number
from lwe.costs.deviations import error_character
from lwe.parameters import LWRParameters, require_parameters

__all__ = ["bkw_cost"]

_MOST = 1000  # exponents beyond it are not worth printing


def bkw_cost(parameters: LWRParameters, samples: int | None = None) -> Cost | None:
    """The cheapest number of blocks; None where there is none within 2^1000, or with so few samples.

    Parameters
    ----------
    parameters : LWRParameters
        The problem.
    samples : int, optional
        How many there are; without limit if left out.

    Raises
    ------
    ValueError
        If `samples` is below 1.

    Notes
    -----
    With a blocks of b = ceil(n/a) entries, a - 1 rounds of additions cost q^b n operations each and leave sums of
    2^(a-1) samples. The last block is found by a Fourier transform over q^b points from M = 2 ln(q^b) / phi^2 sums,
    phi = |E exp(2 pi i e / q)|^(2^(a-1)): exact for independent errors, for q = 2 (LPN) and otherwise, with
    rounding taken as an independent error. Signs halve the tables for q > 2. Derived here from the description of
    the algorithm. For bits and trits in place of uniform entries the tables are
    smaller, at most 2^b and 3^b points. None where phi is 0: errors uniform mod q leave nothing to sum.

    References
    ----------
    Blum, Kalai and Wasserman 2003; Albrecht, Cid, Faugere, Fitzpatrick and Perret 2015, "On the complexity of the BKW
    algorithm on LWE"; Duc, Tramer and Vaudenay 2015 (the Fourier transform). Coded and lazy variants are cheaper and
    not modelled.

    Examples
    --------
    >>> from lwe.laws import FlipLaw
    >>> print(bkw_cost(LWRParameters(secret_dim=32, modulus=2, levels=2, noise=FlipLaw(0.05))))
    BKW: about 2^16.7 (LPN n=32 q=2 p=2 noise=flip(0.05) (d=33); blocks 4, block entries 8, samples 2^9.7)
    """
    require_parameters(parameters)
    if samples is not None:
        samples = count("samples", samples, least=0)
    n, q = parameters.secret_dim, parameters.modulus
    log_q = math.log2(q)
    samples, phi = require_number(samples), error_character(parameters)
    if phi == 0:
        return None
    log_phi = math.log2(phi)
    entries = {"binary": 1.0, "ternary": math.log2(3)}.get(parameters.matrix, log_q)
    signs = 1 if q > 2 and parameters.matrix != "binary" else 0
    best: tuple[float, int, int, float] | None = None
    for blocks in range(1, n + 1):
        width = math.ceil(n / blocks)
        sums = math.log2(2 * max(math.log(2) * width * log_q, 1)) - 2 * 2 ** (blocks - 1) * log_phi
        table = max(width * min(entries, log_q) - signs, 0)
        needed = _log2_sum(sums, table + math.log2(max(blocks - 1, 1)) if blocks > 1 else 0)
        reduce = needed + math.log2(n) + math.log2(blocks) if blocks > 1 else 0
        transform = width * log_q + math.log2(max(width * log_q, 1))
        exponent = _log2_sum(_log2_sum(reduce, sums + math.log2(n)), transform)
        enough = samples is None or needed <= math.log2(samples)
        if enough and (best is None or exponent < best[0]):
            best = exponent, blocks, width, needed
        if sums > _MOST:
            break
    if best is None or best[0] > _MOST:
        return None
    exponent, blocks, width, needed = best
    return Cost(
        "BKW",
        exponent,
        parameters,
        "one addition mod q",
        "errors independent",
        {"blocks": blocks, "block_entries": width, "samples": f"2^{needed:.1f}"},
    )


def _log2_sum(first: float | int, second: float | int) -> float:
    """log2(2^first + 2^second) without overflow."""
    larger, smaller = max(first, second), min(first, second)
    return larger + math.log2(1 + 2.0 ** max(smaller - larger, -1000))
