"""Hold the quick comparison to what it must show, and its table to the documentation: RESULTS.json PRINTED."""

import re
import sys
import textwrap
from pathlib import Path

from arena.records import Status
from arena.results import Results
from arena.summary import Summary

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import pages  # noqa: E402

GENERAL = ("newton", "adam", "linear", "known-part")
MOST = {
    ("nice", "newton"): 1e-10,
    ("nice", "adam"): 2e-4,
    ("parity", "elimination"): 1e-9,
    ("nice", "by-queries"): 1e-10,
    ("parity", "by-queries"): 1e-8,
    ("lwr", "by-queries"): 1e-8,
}
ACCESS = {
    "by-queries": "value queries",
    "linearisation": "samples of rounding",
    "lattice": "samples of rounding",
}


def full_table(printed: str) -> list[str]:
    """Where the guide shows other words than were printed; numbers, and rules as wide as they are, aside."""
    guide = (ROOT / "docs/how-to/compare-learners.rst").read_text(encoding="utf-8")
    block = re.search(r"\n   \$ attention-bounds compare\n((?:   .*\n|\n)+)", guide)[1]
    # whether heads are found exactly or up to the floor of precision depends on the processor
    aside = re.compile(r"-{9,}|\b(exact|precision)\b|(?<=\S) +floor *$", re.MULTILINE)
    said, printed = (aside.sub("", text) for text in (textwrap.dedent(block), printed))
    return [f"docs/how-to/compare-learners.rst: {one}" for one in [pages.difference(said, printed)] if one]


def readme_rows(results: Results) -> list[str]:
    """Cells of the README's four rows that give another verdict than was measured."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    head, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.search(r"^\| target .*\n(?:\|.*\n)+", text, re.MULTILINE)[0].splitlines()
        if "---" not in line
    ]
    learners = {one.title: one.name for one in results.learners}
    targets = {one.title: one.name for one in results.targets}
    wrong = [] if len(rows) == 4 else [f"README.md has {len(rows)} rows of results: 4 are expected."]
    for title, *cells in rows:
        for learner, said in zip(head[1:], cells, strict=True):
            found = results.summary(targets[title], learners[learner])
            number = re.fullmatch(r"[\d.e-]+", said)
            expected = Summary(Status.DONE, error=float(said)).verdict if number else said
            if found.verdict != expected:
                wrong.append(f"README.md says {said} of {learner} on {title}, which is {found.verdict}.")
    return wrong


def measured(results: Results) -> list[str]:
    """Which expectations of the comparison do not hold."""
    wrong = []
    for target in results.targets:
        for learner in (*GENERAL, "by-queries", *(["elimination"] if target.kind == "parity" else [])):
            cells = results.cell(target.name, learner)
            if not cells or any(cell.unknown_part_error is None for cell in cells):
                wrong.append(
                    f"{learner} on {target.name}: no finite error ({cells[0].message if cells else 'no cell'})."
                )
                continue
            worst = max(cell.unknown_part_error or 0.0 for cell in cells)
            least = min(cell.unknown_part_error or 0.0 for cell in cells)
            most = MOST.get((target.kind, learner), float("inf"))
            if worst > most:
                wrong.append(
                    f"{learner} on {target.name}: error {worst:.1e}; at most {most:.0e} is expected."
                )
            if target.certificate is not None and learner in GENERAL and least < 0.9:
                wrong.append(f"{learner} on {target.name}: error {least:.2f}; at least .9 is expected.")
    kinds = sorted(target.kind for target in results.targets)
    if kinds != ["lwr", "lwr", "nice", "nice", "nice", "parity"]:
        wrong.append(f"The targets are {kinds}: three nice ones, a parity and two roundings are expected.")
    access = {one.name: one.access for one in results.learners if one.access != "random examples"}
    if access != ACCESS:
        wrong.append(f"Learners that do not draw random examples are {access}: {ACCESS} are expected.")
    labels = {target.kind: target.label for target in results.targets}
    if labels["parity"] != "164 queries at tau 0.1 of 16215 targets" or "broken by" not in labels["lwr"]:
        wrong.append(
            f"The labels are {labels}: a proved bound, and attacks that break such roundings, are expected."
        )
    return wrong


def main(path: str, printed: str) -> None:
    """Exit with a sentence for each expectation that does not hold."""
    results = Results.from_json(Path(path).read_text(encoding="utf-8"))
    wrong = full_table(Path(printed).read_text(encoding="utf-8")) + readme_rows(results) + measured(results)
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
