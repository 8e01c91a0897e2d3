"""``attention-bounds curves``: queries that learners ask, beside what is proved."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from arena._csv import csv_text
from arena._phrases import sentence
from arena.calls import WorkersLostError
from arena.cli.console import (
    JsonOption,
    SeedOption,
    WorkFailedError,
    WorkInterruptedError,
    listed,
    print_json,
    progress_bar,
    require_writable,
    say,
)
from arena.cli.lwr_curve import lwr_curve_command
from arena.clusters import cluster
from arena.curve_figures import draw_curves, draw_learner_side
from arena.curve_store import CurveStore
from arena.curve_words import curves_text, learner_side_text, said_of_curves, said_of_learner_side
from arena.curves import run_curves
from arena.learner_side import LearnerSide, learner_side
from arena.made_with import versions
from arena.queried_phases import QUERIED_DIMS, QUERIED_SLACKS, QueriedPhases, queried_phases
from attention.files import write_whole
from attention.validation import count
from lower import exact_fraction
from sq import CURVE_COLUMNS, CURVE_LEARNERS, CurvePoint, curve_cells

__all__ = ["curves_app"]


class _WithDefault(typer.core.TyperGroup):
    """A group whose first command runs when none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, led by the name of a command."""
        if not args or args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options of the first command, then the commands."""
        self.commands[self._default].format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    @property
    def _default(self) -> str:
        return next(iter(self.commands))


curves_app = typer.Typer(
    help=(
        "Query-count curves; `curves` alone is `curves sq`.\n\n"
        "Example: attention-bounds curves --dims 10,16,20 --bits 3 --tau 0.3,0.1 --out curves"
    ),
    cls=_WithDefault,
    rich_markup_mode=None,
)


@curves_app.callback()
def _curves() -> None:
    pass


@curves_app.command("sq")
def curves_command(
    dims: Annotated[str, typer.Option(help="Comma-separated dimensions d.")] = "10,16,20,30,40",
    bits: Annotated[
        str, typer.Option(help="Comma-separated numbers l of secret bits, below every d.")
    ] = "2,3",
    tau: Annotated[str, typer.Option(help="Comma-separated tolerances above 0 and below 1.")] = "0.3,0.1",
    oracle: Annotated[
        str, typer.Option(help="reference or most-preserving (adversaries), exact or honest.")
    ] = "reference",
    learners: Annotated[
        str,
        typer.Option(
            help="Comma-separated among "
            + ", ".join(CURVE_LEARNERS)
            + "; the last two need d up to 8, where they take minutes, unless the oracle is "
            "honest."
        ),
    ] = "scan,group,signed-group",
    batch: Annotated[
        int | None,
        typer.Option(
            help="Examples a query of the honest oracle; by default 4 ln(200 Q)/tau^2 for at most Q queries."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")
    ] = Path("curves"),
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one a core.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Measure the cells on the dask cluster of this scheduler."),
    ] = None,
    with_learner_side: Annotated[
        bool,
        typer.Option(
            "--learner-side/--no-learner-side",
            help="Also what six phases need on nice targets as d grows; some of it is run, which takes a minute "
            "the first time.",
        ),
    ] = True,
    seed: SeedOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure every cell again, also those in the store.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Count the statistical queries each learner needs to find a parity, beside the lower bound; draw them against d.

    Writes curves.json, and curves and learner-side as .csv, .svg and .pdf, into the folder of --out. Every cell is kept
    there as it is done: the same command goes on where it was interrupted.

    Example: attention-bounds curves --dims 10,16,20 --bits 3 --tau 0.3,0.1 --out curves
    """
    cells = curve_cells(
        listed("--dims", dims, int, "whole numbers", "10,16,20"),
        listed("--bits", bits, int, "whole numbers", "2,3"),
        listed("--tau", tau, lambda text: float(exact_fraction("tau", text)), "numbers", "0.3,0.1"),
        learners=listed("--learners", learners, str, "names", "scan,group"),
        oracle=oracle,
        batch=batch,
        seed=seed,
    )
    if jobs is not None and dask is not None:
        raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
    jobs = None if dask is not None else (os.cpu_count() or 1) if jobs is None else count("jobs", jobs)
    require_writable(out, directory=True)
    points: list[CurvePoint] = []
    found: tuple[CurvePoint, ...] = ()
    side = learner_side() if with_learner_side else ()
    measured: list[QueriedPhases] = []
    runs = len(QUERIED_DIMS) * len(QUERIED_SLACKS) if with_learner_side else 0
    ended, fault = "", WorkFailedError  # what ended the work early

    with (
        cluster(dask),
        CurveStore(out / "curves.sqlite") as store,
        progress_bar("curves", len(cells) + runs, quiet=as_json) as tick,
    ):

        def tell(point: CurvePoint) -> None:
            points.append(point)
            tick(f"{point.cell.learner}, d = {point.cell.dim}, l = {point.cell.bits}")

        def tell_phases(run: QueriedPhases) -> None:
            measured.append(run)
            tick(f"six phases by queries, d = {run.dim}")

        try:
            found = run_curves(cells, jobs=jobs, store=store, fresh=fresh, on_point=tell)
            if with_learner_side:
                measured = list(
                    queried_phases(seed=seed, jobs=jobs, store=store, fresh=fresh, on_run=tell_phases)
                )
        except (KeyboardInterrupt, WorkersLostError) as error:
            ended = sentence(str(error) or "Interrupted")[:-1]
            fault = WorkInterruptedError if isinstance(error, KeyboardInterrupt) else fault
            done = {point.cell: point for point in points}
            found = tuple(done[cell] for cell in cells if cell in done)
            measured.sort(key=lambda run: (run.dim, run.slack))
            side = side if measured else ()
    if ended and not found:
        raise fault(f"{ended}: no cell was done; the same command begins again.")
    data = _data(found, side, measured)
    _write(out, found, side, data, measured)
    if ended:
        raise fault(
            f"{ended}: {len(found)} of {len(cells)} cells are done and kept, and in {out / 'curves.json'} and the "
            f"files beside it; the same command{' without --fresh' if fresh else ''} goes on."
        )
    if as_json:
        print_json(data)
    else:
        say(curves_text(found))
        if side:
            say("\n" + learner_side_text(side, measured))
        names = ["curves", "learner-side"] if side else ["curves"]
        say("\n" + "\n".join(f"{out / name}.svg, .pdf, .csv" for name in names) + f"\n{out / 'curves.json'}")
    failed = [point for point in found if point.status == "failed"]
    if failed:
        first = failed[0]
        raise WorkFailedError(
            f"{len(failed)} of {len(cells)} cells failed; the first, {first.cell.learner} at d = {first.cell.dim}, "
            f"l = {first.cell.bits}: {first.explanation} The same command computes them again."
        )


def _data(
    points: Sequence[CurvePoint], side: Sequence[LearnerSide], measured: Sequence[QueriedPhases] = ()
) -> dict[str, Any]:
    data = {
        "said": said_of_curves(points),
        "versions": versions(),
        "points": [point.row() for point in points],
    }
    if side:
        data["learner_side"] = {
            "said": said_of_learner_side(measured),
            "points": [one.row() for one in side],
            "measured": [one.row() for one in measured],
        }
    return data


def _write(
    out: Path,
    points: Sequence[CurvePoint],
    side: Sequence[LearnerSide],
    data: dict[str, Any],
    measured: Sequence[QueriedPhases] = (),
) -> None:
    import json

    write_whole(out / "curves.json", (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())
    rows = [point.row() for point in points]
    for row in rows:
        row["secret"] = None if row["secret"] is None else " ".join(map(str, row["secret"]))
    write_whole(
        out / "curves.csv",
        csv_text(CURVE_COLUMNS, ([row[name] for name in CURVE_COLUMNS] for row in rows)).encode(),
    )
    figures = {"curves": draw_curves(points)}
    if side:
        figures["learner-side"] = draw_learner_side(side, measured)
        header = tuple(side[0].row())
        write_whole(out / "learner-side.csv", csv_text(header, (one.row().values() for one in side)).encode())
    for name, figure in figures.items():
        for ending in ("svg", "pdf"):
            figure.save(out / f"{name}.{ending}")


curves_app.command("lwr")(lwr_curve_command)
