"""Run a benchmark by name."""

import argparse
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from arena.engines import require_engine

__all__ = ["main"]


@dataclass(frozen=True)
class Option:
    """An option, named after its parameter; its type is that of the default, or a path."""

    parameter: str
    default: Any
    words: str
    name: str = ""  #: the option's name, if it differs from the parameter's
    choices: tuple[str, ...] | None = None

    def add_to(self, command: argparse.ArgumentParser) -> None:
        """Add the option to the command."""
        flag = f"--{self.name or self.parameter.replace('_', '-')}"
        if isinstance(self.default, bool):
            command.add_argument(flag, dest=self.parameter, action="store_true", help=self.words)
            return
        kind = Path if self.default is None else type(self.default)
        kind = {"rows": int, "device": str}.get(self.parameter, kind)
        command.add_argument(
            flag, dest=self.parameter, type=kind, default=self.default, choices=self.choices, help=self.words
        )


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: a description, the function that runs it, its options, and a check of its goals."""

    words: str
    module: str
    run: str
    options: tuple[Option, ...] = ()
    complaint: str = ""


_JSON = Option("out", None, "where to write the figures", "json")
_SVG = Option("figure", None, "where to draw them", "svg")
_TURNS = Option("turns", 3, "runs of each kind, in turn")
_ENGINE = Option("engine", "auto", "what Newton computes with", choices=("auto", "numpy", "torch"))
_DEVICE = Option("device", None, "a device of torch, such as cuda, instead of the CPU")
_PHASES = (_JSON,)


def _targets(number: int) -> Option:
    return Option("targets", number, "targets a case")


BENCHMARKS = {
    "learners": Benchmark(
        "seconds and examples of Newton and of what one would run instead to given errors",
        "learners",
        "run_learners",
        (
            _targets(3),
            Option("minutes", 30.0, "begin no further target that would end later"),
            Option("full_grid", False, "Adam with a whole grid of settings: hours"),
            Option("of", None, "run nothing: the tables and the figure of what --json has written before"),
            *(_JSON, _SVG, _ENGINE, _DEVICE),
        ),
        "learners_complaint",
    ),
    "scaling": Benchmark(
        "how time, examples and memory of Newton grow with d, m and k",
        "scaling",
        "run_scaling",
        (_targets(5), _JSON, _SVG, _ENGINE),
    ),
    "hard-cases": Benchmark(
        "targets that are hard for Newton: what works, and how often",
        "hard_cases",
        "run_hard_cases",
        (_targets(3), _JSON, _SVG),
    ),
    "hard-queries": Benchmark(
        "every hard family by value queries, in coordinates and in random bases, on fresh seeds",
        "hard_queries",
        "run_hard_queries",
        (
            Option("seeds", 20, "instances of each family in each basis"),
            Option("jobs", 1, "processes"),
            Option("store", None, "a file in which measured instances are kept"),
            _JSON,
        ),
        "hard_queries_complaint",
    ),
    "transformer-shaped": Benchmark(
        "targets of the shape of a trained transformer's layer, by full and by factored heads",
        "transformer_shaped",
        "run_transformer_shaped",
        (
            Option("dim", 96, "coordinates d (96)"),
            Option("heads", 12, "heads m (12)"),
            Option("rank", 32, "rank of each head (32)"),
            Option("tokens", 16, "tokens k (16)"),
            Option("targets", 3, "targets, each by both solvers (3)"),
            *(_JSON, _ENGINE, _DEVICE),
        ),
    ),
    "trained-layers": Benchmark(
        "a layer of a trained model, which is downloaded, by Newton and by its peers in the same time",
        "trained_layers",
        "run_trained_layers",
        (
            Option("layer", 3, "number of the layer (3)"),
            Option("dim", 48, "coordinates d that are kept (48)"),
            Option("tokens", 8, "tokens k (8)"),
            _JSON,
        ),
    ),
    "success": Benchmark(
        "how often Newton recovers a random nice layer",
        "success",
        "run_success",
        (_targets(20), _JSON, _ENGINE),
        "success_complaint",
    ),
    "value-queries-nice": Benchmark(
        "nice layers recovered by value queries: errors, queries, seconds",
        "value_queries_nice",
        "run_value_queries",
        (_targets(20), Option("largest", 128, "the largest d"), _JSON),
        "value_queries_complaint",
    ),
    "kernels": Benchmark(
        "the solver's kernels against the rate of a matrix product",
        "kernels",
        "run_kernels",
        (_targets(3), _DEVICE, _JSON, _SVG),
    ),
    "kills": Benchmark(
        "commands killed at random moments and repeated",
        "kills",
        "run_kills",
        (Option("times", 20, "how many"), Option("seed", 0, "seed of the moments"), _JSON),
    ),
    "practical": Benchmark(
        "the six-phase learner in practical mode, phase by phase",
        "six_phase",
        "run_practical_mode",
        (Option("seeds", 5, "targets a case"), *_PHASES),
    ),
    "paper": Benchmark(
        "the six-phase learner in paper mode, phase by phase",
        "six_phase",
        "run_paper_mode",
        (Option("seeds", 3, "targets a case"), *_PHASES),
    ),
    "linear": Benchmark(
        "linear attention by regression, beside plain least squares; memory at d = 24",
        "linear_attention",
        "run_linear",
        (_TURNS, Option("threads", 2, "threads of BLAS"), _JSON),
        "linear_complaint",
    ),
    "lattice": Benchmark(
        "what lattice attacks add to fpylll's own time, and how far they reach",
        "lattice",
        "run_lattice",
        (_TURNS, Option("kinds", "ratios,uniform,bits,sparse", "what to run, with commas"), _JSON),
        "lattice_complaint",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="benchmark")
    for name, one in BENCHMARKS.items():
        command = commands.add_parser(name, help=one.words)
        for option in one.options:
            option.add_to(command)
    given = vars(parser.parse_args())
    chosen = BENCHMARKS[given.pop("benchmark")]
    module = import_module(f"benchmarks.{chosen.module}")
    try:
        if (earlier := given.pop("of", None)) is not None:
            module.show_learners(earlier, given["out"], given["figure"])
            return
        if "engine" in given:
            require_engine(given["engine"], given.get("device"))
    except (ImportError, OSError, ValueError) as error:
        sys.exit(str(error))  # prints to standard error and exits with status 1
    found = getattr(module, chosen.run)(**given)
    if chosen.complaint and (said := getattr(module, chosen.complaint)(found)):
        sys.exit(said)


if __name__ == "__main__":
    main()
