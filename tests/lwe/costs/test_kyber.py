"""Published core-SVP figures of Kyber, and where they were found.

Kyber-512: 118 bits, Kyber specification 3.01 (31 January 2021), changelog; 2^118.6 with blocks of 406 in dimension 998,
`LWE.estimate.rough` in the README of the lattice-estimator. Kyber-768: 2^182.2 with blocks of 624 in dimension 1427,
the same in Albrecht's slides of FHE.org 2024. Kyber-1024: the designers' own model (pq-crystals/security-estimates,
`MLWE_security.py` and `model_BKZ.py`), run again: blocks of 877 at 860 samples, 256.5; for the others it gives
118.5 (405) and 182.8 (625).

Differences. Like the estimator we take one line for the whole profile (the GSA). The designers keep the q-vectors
that BKZ leaves as they are at the head of the basis, take log2 sqrt(3/2) = 0.29248 for 0.292, leave out the embedding's
row, and allow one ring sample more: together one block size down or up to three up, at most 1.3 bits.
"""

import pytest

from lwe import LWRParameters
from lwe.costs.dual import dual_cost
from lwe.costs.primal import primal_cost
from lwe.laws import BinomialLaw

PUBLISHED = {
    512: (3, 118, 406, 118.5),
    768: (2, 182, 624, 182.8),
    1024: (2, 256, None, 256.5),
}


def kyber(dim: int) -> LWRParameters:
    law = BinomialLaw(PUBLISHED[dim][0])
    return LWRParameters(dim, 3329, 3329, matrix="uniform", secret=law, noise=law)


@pytest.mark.parametrize("dim", PUBLISHED)
def test_primal_core_svp_is_within_a_hundredth_of_the_published_exponent(dim):
    _, published, block_size, designers = PUBLISHED[dim]
    cost = primal_cost(kyber(dim), dim)
    assert cost.exponent == pytest.approx(published, rel=0.01)  # 0.1 was asked for
    assert cost.exponent == pytest.approx(designers, abs=1.5)
    if block_size is not None:
        assert cost.details["block_size"] == block_size


@pytest.mark.parametrize("dim", PUBLISHED)
def test_dual_core_svp_is_near_the_primal_one(dim):
    assert dual_cost(kyber(dim), dim).exponent == pytest.approx(
        primal_cost(kyber(dim), dim).exponent, rel=0.02
    )


def test_a_quantum_sieve_scales_the_exponent():
    classical, quantum = primal_cost(kyber(512), 512), primal_cost(kyber(512), 512, model="quantum core-SVP")
    assert quantum.exponent / classical.exponent == pytest.approx(265 / 292)
