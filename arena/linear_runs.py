"""Experiments on linear attention run one after another: each is kept in a folder as soon as it is done."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import paper_checks.linear_attention
import upper.linear_attention
from arena._csv import csv_text
from arena.linear_figures import draw_plot
from arena.linear_page import render_experiments
from arena.linear_words import experiment_text, table_text
from arena.plain import folded
from attention.files import write_whole
from paper_checks.linear_attention import EXPERIMENTS, Experiment, experiment_from_json, run_experiment

__all__ = ["ExperimentRuns", "choose_experiments", "run_experiments"]


@dataclass(frozen=True)
class ExperimentRuns:
    """What came of some experiments.

    Attributes
    ----------
    experiments : tuple of Experiment
        Those that are done, in the order asked for.
    wanted : tuple of str
        The names of those asked for.
    page : Path or None
        The page; None where nothing was done.
    kept : tuple of str
        Names of those that an earlier run had left in the folder.
    """

    experiments: tuple[Experiment, ...]
    wanted: tuple[str, ...]
    page: Path | None
    kept: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of those that are not done."""
        done = {one.name for one in self.experiments}
        return tuple(name for name in self.wanted if name not in done)


def choose_experiments(name: str) -> tuple[str, ...]:
    """The names that a word stands for: one, several with commas, or all.

    Raises
    ------
    ValueError
        If a name is not known.
    """
    names = tuple(EXPERIMENTS) if name == "all" else tuple(part.strip() for part in name.split(","))
    for one in names:
        if one not in EXPERIMENTS:
            raise ValueError(
                f"There is no experiment {one!r}: {', '.join(EXPERIMENTS)} are there, and all for every one."
            )
    return tuple(dict.fromkeys(names))


def run_experiments(
    names: Sequence[str],
    out: Path,
    *,
    seed: int = 0,
    quick: bool = False,
    fresh: bool = False,
    on_step: Callable[[str], None] | None = None,
    on_done: Callable[[Experiment], None] | None = None,
) -> ExperimentRuns:
    """Run experiments and write, for each, its JSON, text, tables and figures, and one page for all.

    Parameters
    ----------
    names : sequence of str
        Names in `EXPERIMENTS`.
    out : Path
        The folder, which is made if it is not there.
    seed : int
        Seed of every random choice.
    quick : bool
        Smaller sizes and fewer repetitions.
    fresh : bool
        Run again what is in the folder, made by the same code with the same seed and sizes. An experiment of which a
        check did not hold is always run again.
    on_step, on_done : callable, optional
        Told a few words after each piece of work, and each experiment that is done.

    Returns
    -------
    ExperimentRuns
        Interrupted, what was done by then: it is kept, and the same call goes on.

    Raises
    ------
    OSError
        If the folder cannot be written.
    ValueError
        If a name is not known.
    """
    done: list[Experiment] = []
    kept: list[str] = []
    page: Path | None = None
    interrupted = False
    out.mkdir(parents=True, exist_ok=True)
    origin = {
        "version": version("attention-bounds"),
        "code": _code(),
        "torch": find_spec("torch") is not None,
        "seed": seed,
        "quick": quick,
    }
    for name in choose_experiments(",".join(names)):
        file = out / f"{name}.json"
        experiment = None if fresh else _kept(file, origin)
        if experiment is None:
            try:
                experiment = run_experiment(name, seed=seed, quick=quick, progress=on_step)
            except KeyboardInterrupt:
                interrupted = True
                break
            _write(out, experiment, origin)
        else:
            kept.append(name)
        done.append(experiment)
        if on_done is not None:
            on_done(experiment)
    if done:
        page = out / "index.html"
        # the page is of everything in the folder that was made in the same way
        there = {one.name: one for one in done}
        for name in EXPERIMENTS:
            if name not in there and (before := _kept(out / f"{name}.json", origin)) is not None:
                there[name] = before
        shown = [there[name] for name in EXPERIMENTS if name in there]
        options = f"{' --quick' if quick else ''}{f' --seed {seed}' if seed else ''}"
        word = "all" if len(shown) == len(EXPERIMENTS) else ",".join(one.name for one in shown)
        missing = ""
        if interrupted:
            missing = (
                f"Interrupted: {len(done)} of {len(names)} experiments are done. The same command goes on."
            )
        text = render_experiments(
            shown, command=f"attention-bounds linear experiment {word}{options}", missing=missing
        )
        write_whole(page, text.encode())
    return ExperimentRuns(tuple(done), tuple(names), page, tuple(kept))


@cache
def _code() -> str:
    """A hash of the code that the experiments rest on."""
    digest = sha256()
    for package in (upper.linear_attention, paper_checks.linear_attention):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _kept(file: Path, origin: dict[str, object]) -> Experiment | None:
    """What an earlier run left, if it was made in the same way."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["origin"] != origin:
            return None
        experiment = experiment_from_json(data["experiment"])
        return experiment if experiment.holds else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(out: Path, experiment: Experiment, origin: dict[str, object]) -> None:
    """Tables and figures first: where the JSON is, everything is."""
    for table in experiment.tables:
        write_whole(out / f"{experiment.name}-{table.name}.csv", csv_text(table.columns, table.rows).encode())
        write_whole(out / f"{experiment.name}-{table.name}.txt", (table_text(table) + "\n").encode())
    for plot in experiment.plots:
        figure = draw_plot(plot)
        for ending in ("svg", "pdf"):
            figure.save(out / f"{experiment.name}-{plot.name}.{ending}")
    findings = "\n".join(folded(experiment.findings)) + "\n"
    write_whole(out / f"{experiment.name}-findings.txt", findings.encode())
    write_whole(out / f"{experiment.name}.txt", (experiment_text(experiment) + "\n").encode())
    data = {"origin": origin, "experiment": experiment.to_json()}
    write_whole(
        out / f"{experiment.name}.json",
        (json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
    )
