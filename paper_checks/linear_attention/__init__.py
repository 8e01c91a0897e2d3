"""Experiments on learning linear attention, each with the figures it is held to."""

from collections.abc import Callable, Mapping

from attention._arrays import shown
from paper_checks.linear_attention.automata import automata_experiment
from paper_checks.linear_attention.by_gradient import gradient_experiment
from paper_checks.linear_attention.heads import heads_experiment
from paper_checks.linear_attention.key_value import key_value_experiment
from paper_checks.linear_attention.random_networks import random_experiment
from paper_checks.linear_attention.ranks import ranks_experiment
from paper_checks.linear_attention.record import (
    Cell,
    Curve,
    Experiment,
    HeldFigure,
    Plot,
    Report,
    Table,
    experiment_from_json,
)
from paper_checks.linear_attention.softmax import softmax_experiment
from paper_checks.linear_attention.turing import turing_experiment

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Curve",
    "Experiment",
    "HeldFigure",
    "Plot",
    "Report",
    "Table",
    "experiment_from_json",
    "run_experiment",
]

EXPERIMENTS: Mapping[str, Callable[..., Experiment]] = {
    "random": random_experiment,
    "ranks": ranks_experiment,
    "heads": heads_experiment,
    "adam": gradient_experiment,
    "key-value": key_value_experiment,
    "automata": automata_experiment,
    "turing": turing_experiment,
    "softmax": softmax_experiment,
}
"""The experiments by name, in the order of the page."""


def run_experiment(
    name: str, *, seed: int = 0, quick: bool = False, progress: Report | None = None
) -> Experiment:
    """Run one experiment.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    seed : int
        Seed of every random choice.
    quick : bool
        Smaller sizes and fewer repetitions.
    progress : callable, optional
        Told a few words after each piece of work.

    Returns
    -------
    Experiment
        Tables, plots, checks and findings.

    Raises
    ------
    ValueError
        If there is no such experiment.

    Notes
    -----
    Seconds to two minutes.

    References
    ----------
    Yau et al., arXiv 2410.10101; figures derived here.
    """
    if not isinstance(name, str) or name not in EXPERIMENTS:
        raise ValueError(f"There is no experiment {shown(name)}: one of {', '.join(EXPERIMENTS)} is needed.")
    return EXPERIMENTS[name](seed=seed, quick=quick, progress=progress)
