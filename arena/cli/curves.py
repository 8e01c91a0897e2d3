"""``attention-bounds curves``: the needs and the reach of learners and attacks, beside proved bounds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.attacks import ATTACKS
from arena.cli.console import (
    FolderOption,
    InputsOption,
    JsonOption,
    RunOptions,
    SeedOption,
    TimeoutOption,
    TokensOption,
    gather,
    listed,
    report_curve,
    require_all,
    require_writable,
    takes_run_options,
)
from arena.cli.errors import WorkFailedError
from arena.cli.options import takes
from arena.curves import (
    curve_table,
    draw_curves,
    draw_learner_side,
    learner_side,
    learner_side_table,
    run_curves,
)
from arena.learning import open_source
from arena.learning_curve import draw_learning_curve, learning_curve, learning_table
from arena.lwr_reach import draw_lwr_curve, lwr_curve, lwr_table
from arena.names import find_names
from lower.bounds import exact_fraction
from sq import curve_cells
from sq.curves import CURVE_LEARNERS

__all__ = ["curves_app"]

curves_app = typer.Typer(
    help="The needs and the reach of learners and attacks as sizes grow.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@curves_app.command("sq")
@takes_run_options
def curves_command(
    dims: Annotated[str, typer.Option(help="Comma-separated dimensions d.")] = "10,16,20,30,40",
    bits: Annotated[
        str, typer.Option(help="Comma-separated numbers l of secret bits, below every d.")
    ] = "2,3",
    tau: Annotated[str, typer.Option(help="Comma-separated tolerances above 0 and below 1.")] = "0.3,0.1",
    family: Annotated[
        str, typer.Option(help="The family of the targets, such as sq-bump or sq-periodic: two tokens.")
    ] = "sq-parity",
    oracle: Annotated[
        str, typer.Option(help="reference or most-preserving (adversaries), exact or honest.")
    ] = "reference",
    learners: Annotated[
        str,
        typer.Option(help=f"Comma-separated among {', '.join(CURVE_LEARNERS)}."),
    ] = "exhaustive,group,signed-group",
    batch: Annotated[
        int | None,
        typer.Option(
            help="Examples per query of the honest oracle; by default 4 ln(200 Q)/tau^2 for Q queries."
        ),
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Rate below 1/2 at which labels are flipped; for the honest oracle.")
    ] = 0.0,
    out: FolderOption = Path("curves"),
    *,
    run: RunOptions,
    timeout: TimeoutOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count the statistical queries that each learner needs to find a secret; draw them and the lower bound against d.

    Writes curves.json, .csv, .svg and .pdf into the folder of --out. Every finished cell is kept there: after an
    interruption the same command continues.

    Example: attention-bounds curves sq --dims 10,16,20 --bits 3 --tau 0.3,0.1 --out curves
    """
    cells = curve_cells(
        listed("--dims", dims, int, "whole numbers", "10,16,20"),
        listed("--bits", bits, int, "whole numbers", "2,3"),
        listed("--tau", tau, lambda text: float(exact_fraction("tau", text)), "numbers", "0.3,0.1"),
        learners=find_names(learners, CURVE_LEARNERS, "learner"),
        oracle=oracle,
        batch=batch,
        seed=seed,
        family=family,
        noise=noise,
    )
    options = run.begin(out, "curves") | {"timeout": timeout}
    done, whole = gather(lambda keep: run_curves(cells, on_point=keep, **options))
    if done:
        rows = [point.row() for point in done]
        report_curve(out, "curves", rows, draw_curves(done), curve_table(done), as_json)
    require_all(whole, f"{len(done)} of {len(cells)} cells")
    if failed := [point for point in done if point.status == "failed"]:
        first = f"{failed[0].cell.learner} at d = {failed[0].cell.dim}: {failed[0].explanation}"
        raise WorkFailedError(
            f"{len(failed)} of {len(cells)} cells failed, to be computed again by the same command; the first, {first}"
        )


@curves_app.command("lwr")
@takes_run_options
def lwr_curve_command(
    n: Annotated[
        str, typer.Option(help="Comma-separated numbers of entries of the secret.")
    ] = "4,8,12,16,24,32,48,64",
    q: Annotated[int, typer.Option(help="Modulus.")] = 64,
    p: Annotated[
        str, typer.Option(help="Comma-separated numbers of rounding levels, from 2 to q.")
    ] = "2,4,8,16,32",
    matrix: Annotated[
        str, typer.Option(help="Public matrix: binary, ternary, gadget (q a power of 2) or uniform.")
    ] = "binary",
    Xs: Annotated[
        str, typer.Option("--Xs", help="Distribution of the secret: uniform, ternary, sparse:8, ...")
    ] = "uniform",
    attacks: Annotated[
        str, typer.Option(help=f"Comma-separated among {', '.join(ATTACKS)}; all if empty.")
    ] = "",
    budget: Annotated[float, typer.Option(help="Seconds for each attack on each size.")] = 5.0,
    samples: Annotated[int, typer.Option(help="How many samples each attack gets.")] = 20_000,
    out: FolderOption = Path("lwr-curves"),
    *,
    run: RunOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Plot the largest n at which each attack and each learner of layers breaks learning with rounding, against q/p.

    Writes lwr.json, .csv, .svg and .pdf into the folder of --out. Every finished cell is kept there: after an
    interruption the same command continues.

    Example: attention-bounds curves lwr --q 64 --p 2,4,8,16,32 --budget 5 --out lwr-curves
    """
    names = find_names(attacks, ATTACKS, "attack") if attacks else list(ATTACKS)
    sizes = listed("--n", n, int, "whole numbers", "8,16,24")
    numbers = listed("--p", p, int, "whole numbers", "2,8,32")
    given: dict[str, Any] = {"matrix": matrix, "secret": Xs, "samples": samples, "seconds": budget}
    options = run.begin(out, "lwr") | {"seed": seed, **given}
    done, whole = gather(
        lambda keep: lwr_curve(names, sizes, q, numbers, on_point=keep, **options),
    )
    if done:
        report_curve(out, "lwr", done, draw_lwr_curve(done), lwr_table(done), as_json)
    require_all(whole, f"{len(done)} attacks")


@curves_app.command("examples")
@takes(learning_curve)
def examples_curve_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE [LABELS]",
            help="A layer or an instance. Or examples: a file of x and y, or the token matrices and their labels.",
        ),
    ],
    tokens: TokensOption = None,
    inputs: InputsOption = None,
    out: FolderOption = Path("learning-curve"),
    *,
    run: RunOptions,
    timeout: TimeoutOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Show what examples give away: errors in F and in Theta against the number of examples, and of value queries.

    Newton learns from 1/2 to 8 counting floors of random examples, by-queries from up to as many queries as it takes.
    Given examples are taken in their order; there the error is that on held-out ones.

    Writes examples.json, .csv, .svg and .pdf into the folder of --out. Every finished run is kept there: after an
    interruption the same command continues.

    Example: attention-bounds curves examples nice.safetensors --out learning-curve
    """
    if len(files) > 2:
        raise ValueError(
            f"{len(files)} files are named: a layer, or one or two files of examples, are needed."
        )
    source = open_source(files if len(files) > 1 else files[0], tokens=tokens, inputs=inputs)
    given = getattr(source, "files", None)
    if given is None and settings["heads"] != "auto":
        raise ValueError("--heads is for examples, a layer has its own: leave it out.")
    options = run.begin(out, "examples") | {"timeout": timeout, "seed": seed} | settings
    done, whole = gather(
        lambda keep: learning_curve(given or source, on_point=keep, **options),  # type: ignore[arg-type]
    )
    if any(point.outcome for point in done):
        rows = [point.row() for point in done]
        report_curve(out, "examples", rows, draw_learning_curve(done), learning_table(done), as_json)
    require_all(whole, f"{len(done)} runs")
    if failed := [point.message for point in done if not point.outcome]:
        raise WorkFailedError(f"{len(failed)} of {len(done)} runs failed; the first: {failed[0]}")


@curves_app.command("learner-side")
def learner_side_command(
    dims: Annotated[str, typer.Option(help="Comma-separated dimensions d.")] = "8,16,32,64,128,256,512,1024",
    heads: Annotated[str, typer.Option(help="Comma-separated heads m of the hard families.")] = "2,4,8,16",
    out: FolderOption = Path("curves"),
    as_json: JsonOption = False,
) -> None:
    """Count the queries of the six phases on nice targets, beside the tolerance at which as many fail on parities.

    Writes learner-side.json, .csv, .svg and .pdf into the folder of --out.

    Example: attention-bounds curves learner-side --out curves
    """
    points = learner_side(
        listed("--dims", dims, int, "whole numbers", "16,64,256"),
        listed("--heads", heads, int, "whole numbers", "2,4"),
    )
    if not points:
        raise ValueError(
            f"--dims is {dims!r}: no family of these heads has two targets there; take larger ones."
        )
    require_writable(out, directory=True)
    rows = [point.row() for point in points]
    report_curve(out, "learner-side", rows, draw_learner_side(points), learner_side_table(points), as_json)
