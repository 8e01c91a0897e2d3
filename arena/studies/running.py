"""Running a study: its cells in parallel, here or on a cluster, each kept as it is done, none measured twice."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from arena.calls import Call, run_calls, workers
from arena.cells import single_thread
from arena.curve_store import CurveStore
from arena.identity import cell_key
from arena.made_with import versions
from arena.studies.study import Parameters, Row, Study, require_scale
from attention.validation import count, non_negative
from paper_checks import Scale

__all__ = ["StudyResult", "run_study", "study_key"]


@dataclass(frozen=True)
class StudyResult:
    """The rows of a study.

    Attributes
    ----------
    study : str
        Its name.
    scale : Scale
        Which cells were asked for.
    seed : int
        What was drawn at random.
    rows : tuple of Row
        The cells that were measured, in order, each with its measurements.
    failures : tuple of str
        What became of the others: a sentence each.
    fingerprint : str
        Of the study's code, as `Study.fingerprint`.
    versions : mapping of str to str
        Of the packages the numbers depend on.
    """

    study: str
    scale: Scale
    seed: int
    rows: tuple[Row, ...]
    failures: tuple[str, ...] = ()
    fingerprint: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def run_study(
    study: Study,
    *,
    scale: Scale = Scale.QUICK,
    seed: int = 0,
    jobs: int | None = None,
    store: CurveStore | None = None,
    fresh: bool = False,
    timeout: float | None = None,
    isolated: bool = True,
    on_row: Callable[[Row], None] | None = None,
) -> StudyResult:
    """Measure every cell of a study that is not in the store.

    Parameters
    ----------
    study : Study
        One of `find_studies`, or one's own.
    scale : Scale
        Quick or full.
    seed : int
        Decides what is drawn at random.
    jobs : int, optional
        How many cells are measured at once; by default as `joblib` is configured, which is one. It changes no number.
    store : CurveStore, optional
        Where rows are kept, and taken from if they are there.
    fresh : bool
        Whether every cell is measured again, also those in the store.
    timeout : float, optional
        Seconds a cell may take.
    isolated : bool
        Whether cells are measured in processes of their own; otherwise here.
    on_row : callable, optional
        Called with each row as it is found in the store or measured.

    Raises
    ------
    ImportError
        If the study needs a package that is not installed.
    ValueError
        If a number is out of its range, or two cells are the same.
    StoreError
        If the store cannot be read or written.
    WorkersLostError
        If what runs the cells broke down.

    Notes
    -----
    An interruption is passed on: what was measured by then is in the store. Within `arena.cluster` the cells run on the
    workers of a dask cluster.
    """
    missing = [name for name in study.needs if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"The study {study.name} needs {' and '.join(missing)}: install it with pip install {' '.join(missing)}."
        )
    scale = require_scale(scale)
    seed, jobs = count("seed", seed, least=0), None if jobs is None else count("jobs", jobs)
    if timeout is not None:
        timeout = non_negative("timeout", timeout, strictly=True)
    if store is not None and not isinstance(store, CurveStore):
        raise ValueError(
            f"store is {store!r}: an arena.CurveStore is needed, as CurveStore('studies.sqlite')."
        )
    cells = [dict(cell) for cell in study.cells(scale)]
    made_with = versions()
    keys = [study_key(study, cell, seed, made_with) for cell in cells]
    if len(set(keys)) != len(keys):
        raise ValueError(
            f"The study {study.name} has the same cell twice: every one needs parameters of its own."
        )
    tell = on_row or (lambda row: None)
    rows: dict[int, Row] = {}
    failures: dict[int, str] = {}
    if store is not None and not fresh:
        there = store.find(keys)
        rows = {place: {**cells[place], **there[key]} for place, key in enumerate(keys) if key in there}
        for row in rows.values():
            tell(row)
    calls = (
        Call(place, _measured, (study.measure, cell, _stream(study, cell, seed)))
        for place, cell in enumerate(cells)
        if place not in rows
    )
    with (
        workers(jobs, isolated=isolated),
        closing(run_calls(calls, timeout=timeout, isolated=isolated)) as answers,
    ):
        for answer in answers:
            place: Any = answer.name
            if answer.failure:
                failures[place] = f"{_words(cells[place])}: {answer.failure}"
                continue
            if store is not None:
                store.put(keys[place], answer.value)
            rows[place] = {**cells[place], **answer.value}
            tell(rows[place])
    return StudyResult(
        study.name,
        scale,
        seed,
        tuple(rows[place] for place in sorted(rows)),
        tuple(failures[place] for place in sorted(failures)),
        study.fingerprint,
        made_with,
    )


def study_key(study: Study, cell: Parameters, seed: int, made_with: Mapping[str, str] | None = None) -> str:
    """What a row depends on, as one hash: the cell, the seed, the study's code, the toolkit's, versions of packages."""
    return cell_key(
        {"study": study.name, **cell}, study.fingerprint, seed, versions() if made_with is None else made_with
    )


def _stream(study: Study, cell: Parameters, seed: int) -> list[int]:
    """The seed of a cell's random generator."""
    chosen = {name: value for name, value in cell.items() if study.stream is None or name in study.stream}
    text = json.dumps([study.name, chosen], sort_keys=True, allow_nan=False)
    return [seed, int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")]


def _measured(
    measure: Callable[..., Mapping[str, Any]], cell: Parameters, stream: Sequence[int]
) -> dict[str, Any]:
    with single_thread():
        found = dict(measure(rng=np.random.default_rng(stream), **cell))
    # what is no JSON is found here, and not when it is kept
    plain: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    return plain


def _words(cell: Parameters) -> str:
    return ", ".join(f"{name} {value}" for name, value in cell.items())
