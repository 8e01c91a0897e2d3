"""Run a study: its cells are computed in parallel, and each is stored as soon as it is done."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runs import Cell, Scale, Store, fingerprint, run, versions
from studies.study import Parameters, Row, Study

__all__ = ["StudyResult", "run_study"]


@dataclass(frozen=True)
class StudyResult:
    """The rows of a study.

    Attributes
    ----------
    study : str
        Its name.
    scale : Scale
        Which cells were requested.
    seed : int
        The seed of everything drawn at random.
    rows : tuple of Row
        The measured cells, in order, each with its measurements.
    failures : tuple of str
        One sentence for each other cell: why it has no measurements.
    versions : mapping of str to str
        Versions of the packages that the numbers depend on.
    """

    study: str
    scale: Scale
    seed: int
    rows: tuple[Row, ...]
    failures: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def run_study(
    study: Study,
    *,
    scale: Scale = Scale.QUICK,
    seed: int = 0,
    jobs: int = 1,
    timeout: float | None = None,
    store: Store | None = None,
    fresh: bool = False,
    isolated: bool = True,
    cluster: str | None = None,
    progress: bool = False,
    on_row: Callable[[Row], None] | None = None,
) -> StudyResult:
    """Measure every cell of a study that is not in the store.

    Parameters
    ----------
    study : Study
        One of `STUDIES`, or the caller's own.
    scale : Scale
        Quick or full.
    seed : int
        The seed of everything drawn at random.
    jobs, timeout, store, fresh, isolated, cluster, progress
        As of `runs.run`.
    on_row : callable, optional
        Called with each row when it is found in the store or measured.

    Raises
    ------
    ImportError
        If the study needs a package that is not installed.
    ValueError
        If a number is out of its range, or two cells are the same.
    StoreError
        If the store cannot be read or written.
    """
    if missing := study.missing:
        raise ImportError(
            f"The study {study.name} needs {' and '.join(missing)}: install it with pip install {' '.join(missing)}."
        )
    cells = [_cell(study, dict(one), seed) for one in study.cells(scale)]
    place = {cell.key: number for number, cell in enumerate(cells)}
    if len(place) != len(cells):
        raise ValueError(f"The study {study.name} has the same cell twice: give each parameters of its own.")
    rows: dict[int, Row] = {}
    failures: dict[int, str] = {}
    for result in run(
        cells,
        jobs=jobs,
        timeout=timeout,
        store=store,
        fresh=fresh,
        retry_failed=True,
        isolated=isolated,
        cluster=cluster,
        progress=progress,
    ):
        number, cell = place[result.cell.key], result.cell.arguments["cell"]
        if result.status != "done":
            failures[number] = (
                f"{', '.join(f'{name} {value}' for name, value in cell.items())}: {result.message}"
            )
            continue
        rows[number] = {**cell, **result.value}
        if on_row is not None:
            on_row(rows[number])
    return StudyResult(
        study.name,
        scale,
        seed,
        tuple(rows[number] for number in sorted(rows)),
        tuple(failures[number] for number in sorted(failures)),
        versions(),
    )


def _cell(study: Study, cell: Parameters, seed: int) -> Cell:
    chosen = {name: value for name, value in cell.items() if study.stream is None or name in study.stream}
    text = json.dumps([study.name, chosen], sort_keys=True, allow_nan=False)
    stream = [seed, int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")]
    arguments = {"study": study.name, "cell": cell, "stream": stream, "code": fingerprint(study.measure)}
    label = ", ".join(f"{name} {value}" for name, value in cell.items())
    return Cell(_measured, arguments, {"measure": study.measure}, label)


def _measured(
    study: str, cell: Parameters, stream: Sequence[int], code: str, measure: Callable[..., Mapping[str, Any]]
) -> dict[str, Any]:
    return dict(measure(rng=np.random.default_rng(stream), **cell))
