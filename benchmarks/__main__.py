"""Run a benchmark by name."""

import argparse
import sys
from pathlib import Path

from arena.engines import require_engine
from benchmarks.kernels import run_kernels
from benchmarks.kills import run_kills
from benchmarks.lattice import lattice_complaint, run_lattice, run_reach
from benchmarks.learners import learners_complaint, run_learners, show_learners
from benchmarks.linear_attention import linear_complaint, run_linear
from benchmarks.linearisation import run_linearisation
from benchmarks.lwr_attacks import run_searches, searches_complaint
from benchmarks.overhead import complaint, run_overhead
from benchmarks.scaling import run_scaling
from benchmarks.six_phase import run_agreement, run_paper_mode, run_practical_mode
from benchmarks.success import run_success, success_complaint
from benchmarks.walsh import run_walsh

__all__ = ["main"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    learners = commands.add_parser(
        "learners", help="seconds and examples of Newton and of what one would run instead to given errors"
    )
    learners.add_argument("--targets", type=int, default=3, help="targets a case")
    learners.add_argument(
        "--full-grid", action="store_true", help="Adam with a whole grid of settings: hours"
    )
    learners.add_argument(
        "--of", type=Path, help="run nothing: the tables and the figure of what --json has written before"
    )
    learners.add_argument("--json", type=Path, help="where to write the figures")
    learners.add_argument("--svg", type=Path, help="where to draw them")
    _add_engine(learners)
    learners.set_defaults(run=_run_learners)
    scaling = commands.add_parser(
        "scaling", help="how time, examples and memory of Newton grow with d, m and k"
    )
    scaling.add_argument("--targets", type=int, default=5, help="targets a case")
    scaling.add_argument("--json", type=Path, help="where to write the figures")
    scaling.add_argument("--svg", type=Path, help="where to draw them")
    scaling.add_argument(
        "--engine", choices=("auto", "numpy", "torch"), default="auto", help="what Newton computes with"
    )
    scaling.set_defaults(run=_run_scaling)
    hard = commands.add_parser(
        "hard-cases", help="targets that are hard for Newton: what works, and how often"
    )
    hard.add_argument("--targets", type=int, default=3, help="targets a case")
    hard.add_argument("--json", type=Path, help="where to write the figures")
    hard.add_argument("--svg", type=Path, help="where to draw them")
    hard.set_defaults(run=_run_hard)
    shaped = commands.add_parser(
        "transformer-shaped",
        help="targets of the shape of a trained transformer's layer, by full and by factored heads",
    )
    for name, number, words in (
        ("dim", 96, "coordinates d"),
        ("heads", 12, "heads m"),
        ("rank", 32, "rank of each head"),
        ("tokens", 16, "tokens k"),
    ):
        shaped.add_argument(f"--{name}", type=int, default=number, help=f"{words} ({number})")
    shaped.add_argument("--targets", type=int, default=3, help="targets, each by both solvers (3)")
    shaped.add_argument("--json", type=Path, help="where to write the figures")
    _add_engine(shaped)
    shaped.set_defaults(run=_run_transformer_shaped)
    success = commands.add_parser("success", help="how often Newton recovers a random nice layer")
    success.add_argument("--targets", type=int, default=20, help="targets a case")
    success.add_argument("--json", type=Path, help="where to write the figures")
    success.add_argument("--engine", choices=("auto", "numpy", "torch"), default="auto", help="what computes")
    success.set_defaults(run=_run_success)
    kernels = commands.add_parser("kernels", help="the solver's kernels against the rate of a matrix product")
    kernels.add_argument("--targets", type=int, default=3, help="targets a case")
    kernels.add_argument("--device", help="a device of torch, such as cuda, instead of the CPU")
    kernels.add_argument("--json", type=Path, help="where to write the figures")
    kernels.add_argument("--svg", type=Path, help="where to draw them")
    kernels.set_defaults(
        run=lambda given: run_kernels(given.json, given.svg, targets=given.targets, device=given.device)
    )
    kills = commands.add_parser("kills", help="comparisons killed at random moments and resumed")
    kills.add_argument("--times", type=int, default=20, help="how many")
    kills.add_argument("--seed", type=int, default=0, help="seed of the moments")
    kills.add_argument("--json", type=Path, help="where to write what came of each")
    kills.set_defaults(run=lambda given: run_kills(given.times, seed=given.seed, out=given.json))
    overhead = commands.add_parser(
        "overhead", help="what the arena and its store add to the learners' own time"
    )
    overhead.add_argument("--turns", type=int, default=3, help="runs of each kind, in turn")
    overhead.add_argument("--json", type=Path, help="where to write the figures")
    overhead.set_defaults(run=_run_overhead)
    for name, run, seeds, words in (
        ("practical", run_practical_mode, 5, "the six-phase learner in practical mode, phase by phase"),
        ("paper", run_paper_mode, 3, "the six-phase learner in paper mode, phase by phase"),
    ):
        phases = commands.add_parser(name, help=words)
        phases.add_argument("--seeds", type=int, default=seeds, help="targets a case")
        phases.add_argument("--jobs", type=int, default=1, help="threads")
        phases.add_argument("--json", type=Path, help="where to write the figures")
        phases.set_defaults(run=lambda given, run=run: run(given.seeds, given.jobs, given.json))
    agreement = commands.add_parser("agreement", help="how often heads agree, against the tolerance")
    agreement.add_argument("--rows", type=int, help="rows a case, instead of two to twenty million")
    agreement.add_argument("--svg", type=Path, default=Path("agreement.svg"), help="where to draw it")
    agreement.set_defaults(run=lambda given: run_agreement(given.svg, rows=given.rows))
    walsh = commands.add_parser("walsh", help="Gram matrices by full enumeration of 22 input bits")
    walsh.add_argument("--json", type=Path, help="where to write the figures")
    walsh.set_defaults(run=lambda given: run_walsh(given.json))
    searches = commands.add_parser("searches", help="exhaustive search against meet in the middle")
    searches.add_argument("--json", type=Path, help="where to write the figures")
    searches.set_defaults(run=_run_searches)
    linearisation = commands.add_parser(
        "linearisation", help="linearisation over GF(2) beside plain elimination"
    )
    linearisation.add_argument("--json", type=Path, help="where to write the figures")
    linearisation.set_defaults(run=lambda given: run_linearisation(given.json))
    linear = commands.add_parser(
        "linear", help="linear attention by regression, beside plain least squares; memory at d = 24"
    )
    linear.add_argument("--turns", type=int, default=3, help="runs of each kind, in turn")
    linear.add_argument("--threads", type=int, default=2, help="threads of BLAS")
    linear.add_argument("--json", type=Path, help="where to write the figures")
    linear.set_defaults(run=_run_linear)
    lattice = commands.add_parser(
        "lattice", help="what the lattice attack adds to fpylll's own time, and how far it reaches"
    )
    lattice.add_argument("--turns", type=int, default=3, help="runs of each kind, in turn")
    lattice.add_argument("--secrets", type=int, default=3, help="secrets of each size it has to reach")
    lattice.add_argument("--json", type=Path, help="where to write the figures of the first kind")
    lattice.add_argument("--reach-json", type=Path, help="where to write how far it reaches")
    lattice.set_defaults(run=_run_lattice)
    given = parser.parse_args()
    given.run(given)


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--engine", choices=("auto", "numpy", "torch"), default="auto", help="what Newton computes with"
    )
    command.add_argument("--device", help="a device of torch, such as cuda, instead of the CPU")


def _run_learners(given: argparse.Namespace) -> None:
    if given.of is not None:
        try:
            show_learners(given.of, given.json, given.svg)
        except (OSError, ValueError) as error:
            sys.exit(str(error))
        return
    _require_engine(given)
    found = run_learners(
        given.targets,
        given.json,
        given.svg,
        full_grid=given.full_grid,
        engine=given.engine,
        device=given.device,
    )
    if said := learners_complaint(found["rows"]):
        sys.exit(said)  # on the error stream, with status 1


def _run_scaling(given: argparse.Namespace) -> None:
    _require_engine(given)
    run_scaling(given.json, given.svg, targets=given.targets, engine=given.engine)


def _run_hard(given: argparse.Namespace) -> None:
    from benchmarks.hard_cases import run_hard_cases

    run_hard_cases(given.json, given.svg, targets=given.targets)


def _run_transformer_shaped(given: argparse.Namespace) -> None:
    from benchmarks.transformer_shaped import run_transformer_shaped

    _require_engine(given)
    run_transformer_shaped(
        given.json,
        dim=given.dim,
        heads=given.heads,
        rank=given.rank,
        tokens=given.tokens,
        targets=given.targets,
        device=given.device,
        engine=given.engine,
    )


def _require_engine(given: argparse.Namespace) -> None:
    try:
        require_engine(given.engine, getattr(given, "device", None))
    except (ImportError, ValueError) as error:
        sys.exit(str(error))


def _run_success(given: argparse.Namespace) -> None:
    if said := success_complaint(run_success(given.targets, given.json, engine=given.engine)):
        sys.exit(said)


def _run_overhead(given: argparse.Namespace) -> None:
    if said := complaint(run_overhead(given.turns, given.json)):
        sys.exit(said)


def _run_lattice(given: argparse.Namespace) -> None:
    reached = run_reach(given.secrets, given.reach_json)
    if said := lattice_complaint(run_lattice(given.turns, given.json), reached):
        sys.exit(said)


def _run_linear(given: argparse.Namespace) -> None:
    if said := linear_complaint(run_linear(given.json, turns=given.turns, threads=given.threads)):
        sys.exit(said)


def _run_searches(given: argparse.Namespace) -> None:
    if said := searches_complaint(run_searches(given.json)):
        sys.exit(said)


if __name__ == "__main__":
    main()
