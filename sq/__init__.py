"""Hard families for statistical queries, their verifier, and the attack that is no statistical query."""

from lower import GF2Solution, all_sign_matrices, solve_gf2
from sq.elimination import ParityElimination
from sq.families import ParityHeads, make_parity_instance, parity_heads
from sq.verify import (
    ParityVerification,
    is_parity_realisation,
    parity_target,
    verify_parity_instance,
)

__all__ = [
    "GF2Solution",
    "ParityElimination",
    "ParityHeads",
    "ParityVerification",
    "all_sign_matrices",
    "is_parity_realisation",
    "make_parity_instance",
    "parity_heads",
    "parity_target",
    "solve_gf2",
    "verify_parity_instance",
]
