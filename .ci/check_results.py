"""Hold the quick comparison to what it must show."""

import sys
from pathlib import Path

from arena.results import Results

GENERAL = ("newton", "adam", "linear", "known-part")


def main(path: str) -> None:
    """Exit with a sentence for each expectation that does not hold."""
    results = Results.from_json(Path(path).read_text(encoding="utf-8"))
    wrong = [
        f"{cell.learner} on {cell.target} failed: {cell.message}"
        for cell in results.cells
        if cell.status == "failed"
    ]
    for cell in results.cells:
        target = results.target(cell.target)
        error = cell.unknown_part_error
        if cell.status != "done" or error is None:
            continue
        if target.kind == "nice" and cell.learner == "newton" and error > 1e-10:
            wrong.append(f"Newton has error {error:.1e} on {cell.target}: at most 1e-10 is expected.")
        if target.kind == "nice" and cell.learner == "adam" and error > 2e-4:
            wrong.append(f"Adam has error {error:.1e} on {cell.target}: about 1e-4 is expected.")
        if target.hard and cell.learner in GENERAL and error < 0.9:
            wrong.append(f"{cell.learner} has error {error:.2f} on {cell.target}: at least .9 is expected.")
        if target.kind == "parity" and cell.learner == "elimination" and error > 1e-9:
            wrong.append(
                f"Elimination has error {error:.1e} on {cell.target}: an exact solution is expected."
            )
    if not any(cell.learner == "elimination" and cell.status == "done" for cell in results.cells):
        wrong.append("Elimination ran on no target.")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(sys.argv[1])
