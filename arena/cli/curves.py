"""``attention-bounds curves``: the needs and the reach of learners and attacks as sizes grow, each as a study."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import FolderOption, InputsOption, JsonOption, RunOptions, TokensOption
from arena.cli.options import takes
from arena.cli.study import measure_studies
from arena.learning import open_source
from arena.sources import GivenExamples
from runs import Scale
from studies import Study
from studies.learning_curve import learning_curve
from studies.lwr_reach import lwr_reach
from studies.query_curves import query_curves, six_phase_curves

curves_app = typer.Typer(
    help="The needs and the reach of learners and attacks as sizes grow.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


def _add(make: Callable[..., Study], name: str, example: str) -> None:
    """Add the command of a study; its options are the parameters of the function that makes the study."""

    def command(
        out: FolderOption = Path("curves"),
        *,
        run: RunOptions,
        as_json: JsonOption = False,
        **settings: Any,
    ) -> None:
        study, seed = make(**settings), settings.get("seed", 0)
        measure_studies([study], out=out, run=run, as_json=as_json, scale=Scale.FULL, seed=seed)

    summary = (make.__doc__ or "").partition("\n")[0]
    words = (
        f"{summary}\n\nWrites {name}.csv, .svg and .pdf into the folder of --out. Every finished cell is kept there: "
        f"after an interruption the same command continues.\n\nExample: attention-bounds curves {name} {example}"
    )
    curves_app.command(name, help=words)(takes(make)(command))


_add(query_curves, "sq", "--dims 10,16,20 --bits 3 --tau 0.3,0.1")
_add(lwr_reach, "lwr", "--q 64 --p 2,4,8,16,32 --budget 5")
_add(six_phase_curves, "learner-side", "--dims 64,128,256")


@curves_app.command("examples")
@takes(learning_curve)
def examples_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE [LABELS]",
            help="A layer or an instance. Or examples: a file of x and y, or the token matrices and their labels.",
        ),
    ],
    tokens: TokensOption = None,
    inputs: InputsOption = None,
    out: FolderOption = Path("curves"),
    *,
    run: RunOptions,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Show what examples give away: errors in F and in Theta against the number of examples, and of value queries.

    Newton learns from 1/2 to 8 counting floors of random examples, by-queries from up to as many queries as it takes.
    Given examples are taken in their order; there the error is that on held-out ones.

    Writes examples.csv, .svg and .pdf into the folder of --out. Every finished run is kept there: after an
    interruption the same command continues.

    Example: attention-bounds curves examples nice.safetensors
    """
    source: Any = open_source(files if len(files) > 1 else files[0], tokens=tokens, inputs=inputs)
    k = source.x.shape[1] if isinstance(source, GivenExamples) else source.inputs.tokens
    study = learning_curve(source, k, **settings)
    measure_studies([study], out=out, run=run, as_json=as_json, scale=Scale.FULL, seed=settings["seed"])
