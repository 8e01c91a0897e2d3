"""Run a benchmark by name."""

import argparse
from pathlib import Path

from benchmarks.learners import run_learners


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    learners = commands.add_parser("learners", help="seconds and examples of Newton and Adam to given errors")
    learners.add_argument("--targets", type=int, default=3, help="targets a case")
    learners.add_argument("--json", type=Path, help="where to write the figures")
    learners.set_defaults(run=lambda given: run_learners(given.targets, given.json))
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
