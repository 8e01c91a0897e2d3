"""Which studies there are: a module each, imported when it is asked for."""

from collections.abc import Sequence
from importlib import import_module

from studies.study import Study

__all__ = ["STUDIES", "find_studies"]

STUDIES = (
    "conditions",
    "violations",
    "inputs",
    "noise",
    "tokens",
    "agreement",
    "symmetry",
    "nice-to-hard",
    "weightings",
    "positions",
    "cost",
    "linear-random",
    "linear-ranks",
    "linear-heads",
    "linear-adam",
    "linear-key-value",
    "linear-automata",
    "linear-turing",
    "linear-softmax",
)
"""Names of the studies in the order of their pages; the module of each has its name with underscores."""


def find_studies(names: Sequence[str]) -> list[Study]:
    """The studies of these names in the order given, each once; "all" stands for every one.

    Raises
    ------
    ValueError
        If there is no study of a name.

    Examples
    --------
    >>> [study.title for study in find_studies(["linear-heads"])]
    ['From coefficients to heads']
    """
    if unknown := [name for name in names if name not in (*STUDIES, "all")]:
        raise ValueError(f"There is no study {unknown[0]!r}: choose among {', '.join(STUDIES)}, or all.")
    wanted = STUDIES if "all" in names else dict.fromkeys(names)
    return [import_module(f"studies.{name.replace('-', '_')}").STUDY for name in wanted]
