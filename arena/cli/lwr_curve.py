"""``attention-bounds curves lwr``: the largest sizes that attacks and learners break."""

import json
import os
from pathlib import Path
from typing import Annotated, get_args

import typer

from arena._csv import csv_text
from arena._fields import as_plain
from arena._phrases import sentence
from arena.attacks import ATTACKS, choose_attacks
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
from arena.clusters import cluster
from arena.curve_store import CurveStore
from arena.lwr_figure import draw_lwr_curve, lwr_curve_text, said_of_lwr_curve
from arena.lwr_reach import LWRPoint, lwr_curve
from arena.made_with import versions
from attention.files import write_whole
from attention.validation import count
from lwe import Matrix

__all__ = ["lwr_curve_command"]


def lwr_curve_command(
    dims: Annotated[
        str, typer.Option(help="Comma-separated sizes n of the secret.")
    ] = "4,8,12,16,24,32,48,64",
    modulus: Annotated[int, typer.Option(help="Modulus q.")] = 64,
    levels: Annotated[
        str, typer.Option(help="Comma-separated numbers p of levels, from 2 to q.")
    ] = "2,4,8,16,32",
    matrix: Annotated[
        str, typer.Option(help="Public matrix: binary, ternary, gadget (q a power of 2) or uniform.")
    ] = "binary",
    secret_law: Annotated[
        str, typer.Option(help="Law of the secret: uniform, ternary, sparse:8, ...")
    ] = "uniform",
    attacks: Annotated[
        str, typer.Option(help=f"Comma-separated among {', '.join(ATTACKS)}; all if empty.")
    ] = "",
    budget: Annotated[float, typer.Option(help="Seconds for each attack on each size.")] = 5.0,
    samples: Annotated[int, typer.Option(help="How many samples they get.")] = 20_000,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for tables, figures and the store.")
    ] = Path("lwr-curves"),
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one a core.")] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run the attacks on the dask cluster of this scheduler."),
    ] = None,
    seed: SeedOption = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run every attack again, also those in the store.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Plot up to which n each attack, and each learner of layers, breaks learning with rounding, against q/p.

    Writes lwr.json, lwr.csv, lwr.svg and lwr.pdf into the folder of --out. Every cell is kept there as it is done: the
    same command goes on where it was interrupted.

    Example: attention-bounds curves lwr --modulus 64 --levels 2,4,8,16,32 --budget 5 --out lwr-curves
    """
    if matrix not in get_args(Matrix):
        raise ValueError(f"--matrix is {matrix!r}: one of {', '.join(get_args(Matrix))} is needed.")
    names = [kind.name for kind in choose_attacks(attacks)] if attacks else list(ATTACKS)
    sizes = listed("--dims", dims, int, "whole numbers", "8,16,24")
    numbers = listed("--levels", levels, int, "whole numbers", "2,8,32")
    if jobs is not None and dask is not None:
        raise ValueError("--jobs is for this machine: with --dask the cluster's workers decide.")
    jobs = None if dask is not None else (os.cpu_count() or 1) if jobs is None else count("jobs", jobs)
    require_writable(out, directory=True)
    there: list[LWRPoint] = []
    ended, fault = "", WorkFailedError  # what ended the work early
    with (
        cluster(dask),
        CurveStore(out / "lwr.sqlite") as store,
        progress_bar("attacks", None, quiet=as_json) as tick,
    ):

        def tell(point: LWRPoint) -> None:
            there.append(point)
            tick(f"{point.cell.attack}, n = {point.cell.secret_dim}, p = {point.cell.levels}")

        try:
            there = list(
                lwr_curve(
                    names,
                    sizes,
                    modulus,
                    numbers,
                    matrix=matrix,  # type: ignore[arg-type]
                    secret=secret_law,
                    samples=samples,
                    seconds=budget,
                    seed=seed,
                    jobs=jobs,
                    store=store,
                    fresh=fresh,
                    on_point=tell,
                )
            )
        except (KeyboardInterrupt, WorkersLostError) as error:
            ended = sentence(str(error) or "Interrupted")[:-1]
            fault = WorkInterruptedError if isinstance(error, KeyboardInterrupt) else fault
    if there:
        data = {
            "said": said_of_lwr_curve(there),
            "versions": versions(),
            "points": [as_plain(point.row()) for point in there],
        }
        write_whole(out / "lwr.json", (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())
        header = tuple(there[0].row())
        write_whole(out / "lwr.csv", csv_text(header, (point.row().values() for point in there)).encode())
        figure = draw_lwr_curve(there)
        for ending in ("svg", "pdf"):
            figure.save(out / f"lwr.{ending}")
        if as_json:
            print_json(data)
        else:
            say(lwr_curve_text(there, attacks=names, dims=sizes))
            say(f"\n{out / 'lwr'}.svg, .pdf, .csv, .json")
    if ended:
        raise fault(
            f"{ended}: {len(there)} attacks are done and kept; the same command{' without --fresh' * fresh} goes "
            "on."
        )
