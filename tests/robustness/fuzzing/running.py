"""Many calls of one subject."""

import re
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings

from fuzzing.arguments import Given
from fuzzing.subjects import Subject, cases
from fuzzing.verdicts import Verdict, try_case

__all__ = ["Tally", "run"]


@dataclass
class Tally:
    """What came of the cases of one subject."""

    counts: Counter = field(default_factory=Counter)
    violations: dict[str, str] = field(default_factory=dict)


def run(subject: Subject, number: int) -> Tally:
    """Try a subject on a number of cases, and collect what came of them."""
    tally = Tally()

    @settings(
        max_examples=max(4, round(number * subject.share)),
        derandomize=True,
        database=None,
        deadline=None,
        phases=(
            Phase.generate,
        ),  # one hostile argument: there is nothing to shrink, and all violations are wanted
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(subject))
    def check(case: tuple[dict[str, Given], tuple[str, ...]]) -> None:
        drawn, hostile = case
        verdict, why = try_case(subject, drawn, hostile)
        tally.counts[verdict.value] += 1
        if verdict is Verdict.VIOLATION:
            call = ", ".join(f"{name}={one.label}" for name, one in drawn.items())
            tally.violations.setdefault(_signature(why), f"{subject.name}({call}): {why}")

    check()
    return tally


def _signature(why: str) -> str:
    # the place tells violations apart, not the numbers in them
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", why)[-160:]
