"""What every hard instance shares: staircases of heads, the known part, certificates, bounds, files, verification."""

from lower.bounds import (
    eliminated_per_query,
    exact_fraction,
    number_of_parities,
    parity_exponent,
    parity_targets,
    query_lower_bound,
    query_verdict,
)
from lower.certificate import Certificate, Hardness, Statement
from lower.enumeration import all_sign_matrices
from lower.gf2 import GF2Solution, solve_gf2
from lower.instance import HardInstance, load_instance, save_instance
from lower.known import GatedKnownPart, KnownPart, LinearKnownPart
from lower.rounding import outward_context, rounded_up
from lower.staircase import SATURATED_SLOPE, ErrorBound, Staircase
from lower.verify import Definition, Heads, Verification, verify_instance
from lower.walsh import walsh_hadamard

__all__ = [
    "SATURATED_SLOPE",
    "Certificate",
    "Definition",
    "ErrorBound",
    "GF2Solution",
    "GatedKnownPart",
    "HardInstance",
    "Hardness",
    "Heads",
    "KnownPart",
    "LinearKnownPart",
    "Staircase",
    "Statement",
    "Verification",
    "all_sign_matrices",
    "eliminated_per_query",
    "exact_fraction",
    "load_instance",
    "number_of_parities",
    "outward_context",
    "parity_exponent",
    "parity_targets",
    "query_lower_bound",
    "query_verdict",
    "rounded_up",
    "save_instance",
    "solve_gf2",
    "verify_instance",
    "walsh_hadamard",
]
