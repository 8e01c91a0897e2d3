"""Every check of the project, by group."""

import difflib
import fnmatch
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache

from attention.validation import checked
from paper_checks import claims
from paper_checks.check import Check
from paper_checks.claims.tables import names_of

__all__ = ["GROUPS", "all_checks", "find_checks"]

GROUPS: Mapping[str, str] = {
    "layer": "The attention layer",
    "identifiability": "What examples determine",
    "value-queries": "What value queries determine",
    "conditions": "Conditions on the heads",
    "concentration": "Softmax and concentration",
    "crude-sum": "Phase 1: the crude sum of projections",
    "agreement": "Phase 2: agreement and the convex body",
    "refinement": "Phases 3 and 4: refinement",
    "span-and-net": "Phases 5 and 6: span and net",
    "learners": "The whole learner, and Newton",
    "parities": "Parities hidden by heads",
    "families": "Other hard families",
    "queries": "Statistical queries: bounds and counts",
    "low-degree": "Low-degree tests, and noise on labels",
    "outside-queries": "Outside statistical queries: elimination and gradient descent",
    "rounding": "Learning with rounding, realised by heads",
    "secrets": "Rounding: secrets and certificates",
    "attacks": "Rounding: attacks",
    "linear-features": "Linear attention: features and ranks",
    "linear-certificate": "Linear attention: regression, heads and certificate",
    "linear-machines": "Linear attention: memories, automata and machines",
}
"""The groups in the order of the page: the name, which is that of the table in `paper_checks.claims` with hyphens for
underscores, and the heading."""


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of the page.

    Raises
    ------
    ValueError
        If two have the same identifier, or a claim of the tables has no check.
    """
    found: dict[str, Check] = {}
    for module in pkgutil.iter_modules(claims.__path__, f"{claims.__name__}."):
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, Check) and found.setdefault(one.id, one) is not one:
                raise ValueError(f"{one.id} is there twice.")
    stated = [name for group in GROUPS for name in names_of(group)]
    if set(stated) != set(found):
        raise ValueError(f"Stated and not checked, or the reverse: {', '.join({*stated} ^ {*found})}.")
    return tuple(found[name] for name in stated)


@checked
def find_checks(names: Sequence[str]) -> tuple[Check, ...]:
    """The checks with these names: identifiers, groups or patterns with ``*``; without names, all checks.

    Raises
    ------
    ValueError
        If a name matches no check; the nearest name is suggested.

    Examples
    --------
    >>> {one.group for one in find_checks(["layer"])}
    {'layer'}
    """
    checks = all_checks()
    if not names:
        return checks
    wanted: set[str] = set()
    for name in names:
        hits = {one.id for one in checks if name in (one.id, one.group) or fnmatch.fnmatchcase(one.id, name)}
        if not hits:
            near = difflib.get_close_matches(name, [*GROUPS, *(one.id for one in checks)], n=1, cutoff=0.4)
            raise ValueError(
                f"No check is called {name!r}{f'; the nearest is {near[0]!r}' if near else ''}. "
                f"Give an identifier, a group ({', '.join(GROUPS)}) or a pattern such as 'layer/*'."
            )
        wanted |= hits
    return tuple(one for one in checks if one.id in wanted)
