"""Closed-form estimates of what attacks on learning with rounding and with errors cost; never a claim of security."""

from lwe.costs.bkw import bkw_cost
from lwe.costs.cost import Cost, size_in_words
from lwe.costs.deviations import Deviations, deviations, error_character
from lwe.costs.dual import dual_cost, dual_lattices
from lwe.costs.estimate import estimate
from lwe.costs.exhaustive import exhaustive_cost
from lwe.costs.linearisation import arora_ge_cost, linearisation_cost, monomials, monomials_by_degree
from lwe.costs.meet_in_the_middle import meet_in_the_middle_cost
from lwe.costs.primal import (
    PrimalShape,
    best_primal_shape,
    fewest_samples,
    lengths_tell,
    primal_cost,
    primal_shape,
)
from lwe.costs.reduction import (
    CLASSICAL_EXPONENT,
    QUANTUM_EXPONENT,
    SIEVE_VECTORS,
    block_size_for,
    block_sizes,
    core_svp_exponent,
    gaussian_gap,
    gram_schmidt_profile,
    reduction_floor,
    root_hermite_factor,
)

__all__ = [
    "CLASSICAL_EXPONENT",
    "QUANTUM_EXPONENT",
    "SIEVE_VECTORS",
    "Cost",
    "Deviations",
    "PrimalShape",
    "arora_ge_cost",
    "best_primal_shape",
    "bkw_cost",
    "block_size_for",
    "block_sizes",
    "core_svp_exponent",
    "deviations",
    "dual_cost",
    "dual_lattices",
    "error_character",
    "estimate",
    "exhaustive_cost",
    "fewest_samples",
    "gaussian_gap",
    "gram_schmidt_profile",
    "lengths_tell",
    "linearisation_cost",
    "meet_in_the_middle_cost",
    "monomials",
    "monomials_by_degree",
    "primal_cost",
    "primal_shape",
    "reduction_floor",
    "root_hermite_factor",
    "size_in_words",
]
