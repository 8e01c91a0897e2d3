"""Hard families for statistical queries, their verifier, and the attack that is no statistical query."""

from sq.elimination import ParityElimination
from sq.families import make_parity_instance
from sq.heads import Construction, ParityHeads, parity_heads
from sq.verify import (
    ParityVerification,
    gate_and_direction,
    is_parity_realisation,
    parity_target,
    verify_parity_instance,
)

__all__ = [
    "Construction",
    "ParityElimination",
    "ParityHeads",
    "ParityVerification",
    "gate_and_direction",
    "is_parity_realisation",
    "make_parity_instance",
    "parity_heads",
    "parity_target",
    "verify_parity_instance",
]
