"""Turing machines: simulated in whole numbers, learned from runs, and a universal one."""

import numpy as np

from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention.tasks import (
    Training,
    TuringRow,
    learned_turing_rows,
    learned_universal_rows,
    turing_rows,
    universal_rows,
)

__all__ = ["turing_experiment"]

# (S, A, P), rank: share of right steps
_FULL = {(2, 2, 4): 40, (3, 2, 5): 90}
_REFERENCE = {((2, 2, 4), 40): 1.0, ((2, 2, 4), 24): 0.25, ((3, 2, 5), 90): 1.0, ((3, 2, 5), 79): 0.45}

# S, A, P, how it is taught, and the rank it is stopped at
_CASES: tuple[tuple[int, int, int, Training, int | None], ...] = (
    *((2, 2, 4, "short contexts of runs", rank) for rank in (16, 24, 32, 39, None)),
    *((3, 2, 5, "short contexts of runs", rank) for rank in (60, 79, 86, None)),
    (2, 2, 4, "whole histories", None),
)


def turing_experiment(*, seed: int = 0, quick: bool = False, progress: Report | None = None) -> Experiment:
    """Machines constructed and learned, run on by their own outputs.

    Parameters
    ----------
    seed, quick, progress
        As for `random_experiment`; `quick` runs fewer machines for fewer steps.

    Returns
    -------
    Experiment
        Tables and checks.

    Notes
    -----
    A minute.

    References
    ----------
    The construction is derived here, and need not be that of Yau et al., arXiv 2410.10101, who ask the
    question.
    """
    tell = progress or (lambda words: None)
    steps, machines = (200, 2) if quick else (1000, 5)

    def rng(stream: int) -> np.random.Generator:
        return np.random.default_rng([seed, stream])

    made = turing_rows(machines=machines, steps=steps, rng=rng(0), progress=tell)
    learned = learned_turing_rows(_CASES, machines=4 if quick else 10, rng=rng(1), progress=tell)
    universal = universal_rows(machines=3 if quick else 10, steps=steps, rng=rng(2), progress=tell)
    universal += learned_universal_rows(rng=rng(3), progress=tell)
    tables = (
        Table(
            name="machines",
            title="Random machines, run on by the model's own outputs rounded at each step",
            columns=(
                "states",
                "symbols",
                "positions",
                "model",
                "rank",
                "machines",
                "steps",
                "right, median",
                "least",
                "largest",
                "rounded by at most",
                "(reference)",
            ),
            rows=tuple(
                (
                    row.states,
                    row.symbols,
                    row.positions,
                    row.training,
                    row.rank,
                    row.machines,
                    row.steps,
                    row.accuracy,
                    row.lowest,
                    row.highest,
                    row.rounding,
                    _reference(row),
                )
                for row in (*made, *learned)
            ),
            note="Right is a step after which tape, position and state are those of the machine. Models "
            "are learned from the steps of runs of 20 steps: in short contexts of runs each step stands alone, the "
            "current tape and a query; whole histories hold every step since the beginning. Short of the full rank "
            "the share depends on the machine and on how the contexts were drawn, which the reference does not say.",
        ),
        Table(
            name="universal",
            title="One model for all machines of a size, their tables in the context",
            columns=(
                "states",
                "symbols",
                "positions",
                "dimension",
                "model",
                "heads",
                "rank",
                "full rank",
                "machines",
                "steps",
                "right",
                "rounded by at most",
            ),
            rows=tuple(
                (
                    row.states,
                    row.symbols,
                    row.positions,
                    row.dim,
                    row.training,
                    row.heads,
                    row.rank,
                    row.exact_rank,
                    row.machines,
                    row.steps,
                    row.accuracy,
                    row.rounding,
                )
                for row in universal
            ),
            note="Two attention steps make one step of a machine: read the cell, then look up the table.",
        ),
    )
    short = [row for row in learned if row.training == "short contexts of runs" and row.rank is not None]
    full = {
        size: max(
            (row.rank or 0, row.lowest) for row in short if (row.states, row.symbols, row.positions) == size
        )
        for size in _FULL
    }
    small = [row for row in learned if (row.states, row.symbols, row.positions, row.rank) == (2, 2, 4, 40)]
    constructed = [row for row in universal if row.training == "constructed"]
    taught = [row for row in universal if row.rank is not None and row.rank == row.exact_rank]
    checks = (
        HeldFigure(
            f"constructed machines are exact in whole numbers for {steps} steps",
            "every step, nothing to round",
            f"{min(row.lowest for row in made):.2f}, rounded by {max(row.rounding for row in made):g}",
            all(row.lowest == 1 and row.rounding == 0 for row in made),
        ),
        HeldFigure(
            "learned from runs, (2, 2, 4): rank 40, then 100 steps right",
            "1.00",
            ", ".join(f"{row.lowest:.2f}" for row in small) or "not there",
            bool(small) and all(row.lowest == 1 for row in small),
        ),
        HeldFigure(
            "learned from runs: full ranks of (2, 2, 4) and (3, 2, 5)",
            "40, 90",
            ", ".join(str(rank) for rank, _ in full.values()),
            all(full[size] == (rank, 1) for size, rank in _FULL.items()),
        ),
        HeldFigure(
            "the universal machine is exact in whole numbers",
            "every step, nothing to round",
            f"{min(row.accuracy for row in constructed):.2f}",
            all(row.accuracy == 1 and row.rounding == 0 for row in constructed),
        ),
        HeldFigure(
            "the universal machine, learned to its full rank, runs unseen machines",
            "1.00",
            ", ".join(f"{row.accuracy:.2f}" for row in taught) or "not there",
            bool(taught) and all(row.accuracy == 1 for row in taught),
        ),
    )
    return Experiment(
        name="turing",
        title="Turing machines in linear attention",
        question="A step of a machine is a token of delta writes [(e_w - e_x) | e_p | e_p'⊗e_s'], so that the block "
        "of the Gram matrix between symbols and positions is the current tape, however long the run. A head for each "
        "position and state reads the cell; the same model is learned from runs by regression.",
        findings=(
            "The constructed models are exact: all numbers are whole, and after a thousand steps nothing was rounded.",
            "Learned to full rank a machine runs on without an error; short of it some steps are wrong, soon.",
            "With the table in the context one model runs every machine of its size, also when it is learned.",
        ),
        checks=checks,
        tables=tables,
        plots=(
            Plot(
                name="ranks",
                words="Machines learned from short contexts of runs: share of right steps, median of the machines, "
                "against the rank",
                x_label="rank / full rank",
                y_label="steps right",
                curves=tuple(_curve(learned, size, full_rank) for size, full_rank in _FULL.items()),
                log_y=False,
            ),
        ),
        seed=seed,
    )


def _curve(rows: list[TuringRow], size: tuple[int, int, int], full_rank: int) -> Curve:
    points = [
        (row.rank / full_rank, row.accuracy)
        for row in rows
        if (row.states, row.symbols, row.positions) == size
        and row.training == "short contexts of runs"
        and row.rank is not None
    ]
    return Curve(
        f"{size[0]} states, {size[1]} symbols, {size[2]} cells",
        tuple(x for x, _ in points),
        tuple(y for _, y in points),
    )


def _reference(row: TuringRow) -> float | None:
    if row.training == "constructed":
        return 1.0
    if row.training != "short contexts of runs" or row.rank is None:
        return None
    return _REFERENCE.get(((row.states, row.symbols, row.positions), row.rank))
