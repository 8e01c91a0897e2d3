"""``python -m paper_checks``: the checks without the rest of the command line."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from attention.errors import FileFormatError
from paper_checks.check import Scale
from paper_checks.registry import find_checks
from paper_checks.session import run_session
from paper_checks.words import check_to_json, result_text, summary_text, wrong_results

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the checks named, print what came of each, and return the exit status.

    Parameters
    ----------
    arguments : list of str, optional
        As typed; those of the process if not given.

    Returns
    -------
    int
        0 if every check that ran holds, 1 if one does not or the run was stopped, 2 for wrong use.
    """
    try:
        return _run(_parser().parse_args(arguments))
    except KeyboardInterrupt:
        print("paper_checks: Interrupted.", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # whoever read the output has seen enough; keep the interpreter from writing to it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


class _Parser(argparse.ArgumentParser):
    """One line for wrong use, as everywhere here."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"paper_checks: {message}; --help says what there is.\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m paper_checks", description="Check what the papers claim, claim by claim."
    )
    parser.add_argument(
        "checks", nargs="*", metavar="ID", help="identifiers, groups, or patterns with *; all if none"
    )
    parser.add_argument("--scale", choices=[one.value for one in Scale], default=Scale.QUICK.value)
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice, 0 or more")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument(
        "--inject", action="store_true", help="run each again on its injected error, where it must fail"
    )
    parser.add_argument("--out", type=_folder, help="folder of the page, written if it is given")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    return parser


def _folder(text: str) -> Path:
    if not text or Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is no folder")
    return Path(text)


def _run(given: argparse.Namespace) -> int:
    try:
        if given.seed < 0:
            raise ValueError(f"--seed is {given.seed}: 0 or more is needed.")
        if given.jobs < 1:
            raise ValueError(f"--jobs is {given.jobs}: 1 or more is needed.")
        checks = find_checks(given.checks)
        if given.list:
            described = [check_to_json(one, None) for one in checks]
            names = [f"{one.id}: {one.claim}" for one in checks]
            print(json.dumps(described, indent=2) if given.json else "\n".join(names))
            return 0
        session = run_session(
            checks,
            scale=Scale(given.scale),
            seed=given.seed,
            jobs=given.jobs,
            inject=given.inject,
            folder=given.out,
            on_result=None
            if given.json
            else lambda check, result: print(result_text(check, result) + "\n", flush=True),
        )
    except (ValueError, FileFormatError) as error:
        print(f"paper_checks: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"paper_checks: {error.strerror}: {error.filename}.", file=sys.stderr)
        return 1
    by_id = {one.id: one for one in checks}
    if given.json:
        print(json.dumps([check_to_json(by_id[one.id], one) for one in session.results], indent=2))
    else:
        print(summary_text(checks, session.results))
        if session.page is not None:
            print(session.page)
    if session.interrupted:
        kept = "; what is done is kept" if given.out else ""
        print(f"paper_checks: Interrupted{kept}.", file=sys.stderr)
    return 1 if session.interrupted or wrong_results(session.results) else 0


if __name__ == "__main__":
    sys.exit(main())
