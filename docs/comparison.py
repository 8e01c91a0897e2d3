"""Show one comparison everywhere: ``python docs/comparison.py [RESULTS.json]``.

The table of README.md and the picture are made from ``docs/comparison.json``, the record of
``attention-bounds compare`` without its curves. A RESULTS.json becomes that record first.
"""

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the code beside the pages, not an installed one

from arena.formats import error_text  # noqa: E402
from arena.results import Results  # noqa: E402

__all__ = ["PICTURE", "README", "RECORD", "fill_readme", "main", "record_of"]

RECORD, PICTURE = ROOT / "docs/comparison.json", ROOT / "docs/comparison.svg"
README = ROOT / "README.md"
_TABLE = re.compile(r"^\| target .*\n\|[ |:-]+\n((?:\|.*\n)+)", re.MULTILINE)


def record_of(results: Results) -> Results:
    """What the documentation needs of a comparison: no curves, and nothing about the machine's folders."""
    made = {name: results.made[name] for name in ("preset", "versions", "seeds")}
    return replace(
        results,
        made={"command": "attention-bounds compare", **made},
        cells=tuple(replace(cell, trace=()) for cell in results.cells),
    )


def fill_readme(text: str, results: Results) -> str:
    """The README with the numbers of a comparison: its table keeps its rows and its columns."""
    match = _TABLE.search(text)
    assert match is not None
    titles, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (match[0].splitlines()[0], *match[1].splitlines())
    ]
    learners = {one.title: one.name for one in results.learners}
    targets = {one.title: one.name for one in results.targets}
    lines = []
    for target, *_ in rows:
        cells = [results.summary(targets[target], learners[title]) for title in titles[1:]]
        words = [error_text(one.error) if one.done else one.verdict for one in cells]
        lines.append(f"| {' | '.join([target, *words])} |\n")
    return text[: match.start(1)] + "".join(lines) + text[match.end(1) :]


def main() -> None:
    """Make the table and the picture."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="the record of a new comparison")
    given = parser.parse_args().results
    if given is not None:
        from benchmarks.report import write_json

        write_json(RECORD, json.loads(record_of(Results.load(given)).to_json()))
    results = Results.load(RECORD)
    README.write_text(fill_readme(README.read_text(encoding="utf-8"), results), encoding="utf-8")
    results.plot().save(PICTURE)


if __name__ == "__main__":
    main()
