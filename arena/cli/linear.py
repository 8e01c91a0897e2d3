"""``attention-bounds linear``: learn linear attention exactly, certify it, and run the studies of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.console import (
    JsonOption,
    RunOptions,
    SeedOption,
    report,
    require_writable,
    say,
    showing_progress,
    write_json,
)
from arena.cli.options import takes
from arena.cli.study import measure_studies
from arena.formats import plural
from arena.linear import learn_linear
from arena.linear_certify import certify_linear
from arena.names import find_names
from runs import Scale
from runs.figures import save_figure
from studies import STUDIES, find_studies
from studies.line_figure import line_figure
from upper.linear_attention import save_linear_attention

_EXPERIMENTS = [name.removeprefix("linear-") for name in STUDIES if name.startswith("linear-")]

linear_app = typer.Typer(
    help=(
        "Linear attention: learned exactly by regression, certified, and the experiments on it.\n\n"
        "Example: attention-bounds linear learn --dim 8 --heads 4 --adam 2000 --out learned"
    ),
    rich_markup_mode=None,
)
FolderOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for figures and results; of learn also for the model."),
]


@linear_app.command("learn")
@takes(learn_linear)
def linear_learn_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A model of linear attention to learn; by default a random model."),
    ] = None,
    examples_from: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="X Y",
            help="Instead of a model: examples, the tokens (N, n, d) and the labels (N, p), as .npy or safetensors "
            "files. A tenth is held out.",
        ),
    ] = None,
    out: FolderOption = None,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Learn linear attention from examples by regression; report what they determine, and find its heads.

    Example: attention-bounds linear learn --dim 8 --heads 4 --adam 2000 --out learned

    From your own examples: attention-bounds linear learn --examples-from X.npy Y.npy
    """
    if file is not None and examples_from is not None:
        raise ValueError(f"{file} and --examples-from are two things to learn from: leave one out.")
    if out is not None:
        require_writable(out, directory=True)
    with showing_progress("Linear attention"):
        learned = learn_linear(examples_from or file, **settings)
    details = learned.fit.details
    _show("learned", learned, details, out, as_json)
    if out is not None:
        path, model = out / "model.safetensors", details.model
        save_linear_attention(path, model, made={"generator": "linear learn", "seed": learned.seed})
        say(f"model: {path}, {plural(model.heads, 'head')}", quiet=as_json)


@linear_app.command("certify")
@takes(certify_linear)
def linear_certify_command(out: FolderOption = None, as_json: JsonOption = False, **settings: Any) -> None:
    """Decide whether examples determine linear attention on a domain, and how much errors may grow there.

    Example: attention-bounds linear certify --data boolean --domain gaussian --dim 4

    With your own tokens: attention-bounds linear certify --data X.npy --domain gaussian --dim 4
    """
    if out is not None:
        require_writable(out, directory=True)
    with showing_progress("Certificate"):
        certified = certify_linear(**settings)
    _show("certified", certified, certified, out, as_json)


@linear_app.command("experiment")
@takes()
def linear_experiment_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help=f"One of {', '.join(_EXPERIMENTS)}, several with commas, or all."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of records and figures.")] = Path(
        "results/studies"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")] = False,
    *,
    run: RunOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run a study of linear attention: ``study linear-NAME`` at full scale.

    Example: attention-bounds linear experiment tasks --out results/studies
    """
    names = find_names(name, [*_EXPERIMENTS, "all"], "experiment")
    chosen = find_studies([f"linear-{one}" for one in (_EXPERIMENTS if "all" in names else names)])
    scale = Scale.QUICK if quick else Scale.FULL
    measure_studies(chosen, scale=scale, out=out, run=run, seed=seed, as_json=as_json)


def _show(name: str, result: Any, pictured: Any, out: Path | None, as_json: bool) -> None:
    """Print a result, and write it and its figures into a folder."""
    report(result, result.to_json(), as_json)
    if out is None:
        return
    for figure_name, panel in pictured.panels().items():
        for ending in ("svg", "pdf"):
            save_figure(line_figure([panel]), out / f"{figure_name}.{ending}")
    write_json(out / f"{name}.json", result.to_json())
    say(f"written: {out / name}.json and the figures beside it", quiet=as_json)
