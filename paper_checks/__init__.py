"""The claims of the papers, one by one: each is a function that can be run and that can fail."""

from paper_checks.claim import Basis, Claim, claim
from paper_checks.comparison import (
    Comparison,
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_most,
    surely_above,
    surely_below,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.registry import GROUPS, all_claims, find_claims
from paper_checks.running import ClaimResult, Verdict, run_claim, run_claims
from runs import Scale

__all__ = [
    "GROUPS",
    "Basis",
    "Claim",
    "ClaimResult",
    "Comparison",
    "Fault",
    "Scale",
    "Verdict",
    "all_claims",
    "at_least",
    "at_most",
    "claim",
    "close",
    "covers",
    "equal",
    "find_claims",
    "given",
    "may_be_at_most",
    "returned",
    "run_claim",
    "run_claims",
    "surely_above",
    "surely_below",
]
