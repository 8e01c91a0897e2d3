"""Which studies there are: a module each, imported when it is asked for."""

from collections.abc import Sequence
from importlib import import_module

from arena.studies.study import Study

__all__ = ["STUDIES", "all_studies", "find_study"]

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
)
"""The names of the studies in their order; ``arena.studies`` has a module for each."""


def find_study(name: str) -> Study:
    """A study by its name.

    Raises
    ------
    ValueError
        If there is none of that name.

    Examples
    --------
    >>> find_study("agreement").name
    'agreement'
    """
    if name not in STUDIES:
        raise ValueError(f"{name!r} is no study: choose among {', '.join(STUDIES)}, or all.")
    module = import_module(f"arena.studies.{name.replace('-', '_')}")
    study: Study = module.STUDY
    return study


def all_studies(names: Sequence[str] = ()) -> list[Study]:
    """The studies of these names, in the order given; "all", or no name, stands for every one.

    Raises
    ------
    ValueError
        If a name is not known.
    """
    wanted = STUDIES if not names or "all" in names else dict.fromkeys(names)
    return [find_study(name) for name in wanted]
