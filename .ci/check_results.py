"""Hold the quick comparison to what it must show, and what it printed to the README: RESULTS.json PRINTED."""

import re
import sys
from pathlib import Path

from arena.results import Results
from lower import Hardness

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import blocks  # noqa: E402

GENERAL = ("newton", "adam", "linear", "known-part")
MOST = {("nice", "newton"): 1e-10, ("nice", "adam"): 2e-4, ("parity", "elimination"): 1e-9}


def page_differs(printed: list[str]) -> list[str]:
    """Where the README shows other words than were printed; numbers, and rules as wide as they are, aside."""
    (block,) = (
        block
        for block in blocks.find_blocks(ROOT / "README.md")
        if block.lines[:1] == ("$ attention-bounds compare --preset quick --out results",)
    )
    said, printed = ([re.sub("-{9,}", "", line) for line in lines] for lines in (block.lines[1:], printed))
    return blocks.differences("README.md", said, printed)


def main(path: str, printed: str) -> None:
    """Exit with a sentence for each expectation that does not hold."""
    results = Results.from_json(Path(path).read_text(encoding="utf-8"))
    wrong = page_differs(Path(printed).read_text(encoding="utf-8").splitlines())
    for target in results.targets:
        for learner in GENERAL + (("elimination",) if target.kind == "parity" else ()):
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
                    f"{learner} on {target.name}: error {worst:.1e} where at most {most:.0e} is expected."
                )
            if target.hardness is not None and learner in GENERAL and least < 0.9:
                wrong.append(f"{learner} on {target.name}: error {least:.2f} where at least .9 is expected.")
    kinds = [target.kind for target in results.targets]
    if sorted(kinds) != ["lwr", "lwr", "nice", "nice", "nice", "parity"]:
        wrong.append(f"The targets are {kinds}: three nice ones, a parity and two roundings are expected.")
    said = {target.kind: target.hardness for target in results.targets}
    if said != {"nice": None, "parity": Hardness.PROVED, "lwr": Hardness.NEITHER}:
        wrong.append(
            f"The targets are said to be {said}: a parity is proved hard, and such roundings look easy."
        )
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
