"""The claims of the papers, one by one: each is a check that can be run and that can fail."""

from paper_checks.check import Basis, Check, Constants, Run, Scale, check
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    close,
    covers,
    equal,
    may_be_at_least,
    may_be_at_most,
    surely_above,
    surely_below,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.registry import GROUPS, all_checks, find_checks
from paper_checks.running import CheckResult, Verdict, result_from_json, run_check, run_checks

__all__ = [
    "GROUPS",
    "Basis",
    "Check",
    "CheckResult",
    "Comparison",
    "Constants",
    "Fault",
    "Kind",
    "Run",
    "Scale",
    "Verdict",
    "all_checks",
    "at_least",
    "at_most",
    "check",
    "close",
    "covers",
    "equal",
    "find_checks",
    "given",
    "may_be_at_least",
    "may_be_at_most",
    "result_from_json",
    "returned",
    "run_check",
    "run_checks",
    "surely_above",
    "surely_below",
]
