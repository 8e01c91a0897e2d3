"""Run a benchmark by name."""

import sys
from importlib import import_module

import typer

BENCHMARKS = {
    "learners": "run_learners",
    "tune-peers": "run_tune_peers",
    "scaling": "run_scaling",
    "success": "run_success",
    "hard-cases": "run_hard_cases",
    "transformer-shaped": "run_transformer_shaped",
    "trained-layers": "run_trained_layers",
    "kernels": "run_kernels",
    "six-phase": "run_six_phase",
    "value-queries": "run_value_queries",
    "linear": "run_linear",
    "lattice": "run_lattice",
    "kills": "run_kills",
    "blocks": "run_blocks",
}
"""The function of each: it is in the module of that name, and its arguments are the options."""

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
for name, function in BENCHMARKS.items():
    app.command(name)(getattr(import_module(f"benchmarks.{name.replace('-', '_')}"), function))


if __name__ == "__main__":
    try:
        app(prog_name="python -m benchmarks")
    except (ImportError, OSError, ValueError) as error:
        sys.exit(str(error))  # prints to standard error and exits with status 1
