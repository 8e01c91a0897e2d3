"""Hold the results of the quick comparison, RESULTS.json, to their goals and to the record of the documentation."""

import sys
from pathlib import Path

from arena import Results

ROOT = Path(__file__).parents[1]
GENERAL = ("newton", "adam", "linear", "known-component")
MOST = {
    ("nice", "newton"): 1e-10,
    ("nice", "adam"): 2e-4,
    ("parity", "elimination"): 1e-9,
    ("nice", "by-queries"): 1e-10,
    ("parity", "by-queries"): 1e-8,
    ("lwr", "by-queries"): 1e-8,
}
"""The largest error on the unknown part, by the kind of target and the learner."""


def complaints(results: Results, documented: Results) -> list[str]:
    """A sentence for each goal that is missed, and for each verdict that is not the documented one."""
    names = [
        tuple(one.name for one in records)
        for records in (results.targets, documented.targets, results.learners, documented.learners)
    ]
    if names[0] != names[1] or names[2] != names[3]:
        return [
            f"The targets and learners are {names[0]} and {names[2]}: {names[1]} and {names[3]} are documented."
        ]
    wrong = []
    for target in results.targets:
        for learner in names[2]:
            found, said = (one.summary(target.name, learner) for one in (results, documented))
            where = f"{learner} on {target.name}: {found.verdict}, error {found.error:.2g}"
            if found.verdict != said.verdict:
                wrong.append(f"{where}; {said.verdict} is documented.")
            if found.error_max > MOST.get((target.kind, learner), float("inf")):
                wrong.append(f"{where}; at most {MOST[target.kind, learner]:g} is wanted.")
            if target.certificate is not None and learner in GENERAL and not found.error_min >= 0.9:
                wrong.append(f"{where}; at least .9 is wanted, as the target hides a secret.")
    return wrong


if __name__ == "__main__":
    sys.exit(
        "\n".join(complaints(Results.load(sys.argv[1]), Results.load(ROOT / "docs/comparison.json"))) or 0
    )
