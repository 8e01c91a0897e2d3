"""Every claim of the project, by group."""

import difflib
import fnmatch
import importlib
from collections.abc import Sequence
from functools import cache

from attention.validation import checked
from paper_checks.claim import Claim

GROUPS = (
    "layer",
    "value-queries",
    "rotary",
    "blocks",
    "conditions",
    "concentration",
    "crude-sum",
    "agreement",
    "refinement",
    "span-and-net",
    "parities",
    "families",
    "queries",
    "outside-queries",
    "rounding",
    "secrets",
    "attacks",
    "linear-features",
    "linear-certificate",
    "linear-machines",
)
"""The groups in the order of the pages: modules of `paper_checks.claims`, with hyphens for underscores."""


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim: the groups in their order, and each group in the order of its module.

    Raises
    ------
    ValueError
        If two claims have the same identifier, or one is in the module of another group.
    """
    claims: dict[str, Claim] = {}
    for group in GROUPS:
        module = importlib.import_module(f"paper_checks.claims.{group.replace('-', '_')}")
        for value in vars(module).values():
            if isinstance(value, Claim):
                if value.id in claims or value.group != group:
                    raise ValueError(f"{value.id} is there twice, or not in the module of its group.")
                claims[value.id] = value
    return tuple(claims.values())


@checked
def find_claims(names: Sequence[str]) -> tuple[Claim, ...]:
    """The claims with these names: identifiers, groups or patterns with ``*``; without names, all claims.

    Raises
    ------
    ValueError
        If a name matches no claim; the nearest name is suggested.

    Examples
    --------
    >>> {claim.group for claim in find_claims(["layer"])}
    {'layer'}
    """
    claims = all_claims()
    if not names:
        return claims
    wanted: set[str] = set()
    for name in names:
        hits = {one.id for one in claims if name == one.group or fnmatch.fnmatchcase(one.id, name)}
        if not hits:
            near = difflib.get_close_matches(name, [*GROUPS, *(one.id for one in claims)], n=1, cutoff=0.4)
            raise ValueError(
                f"No claim is called {name!r}{f'; the nearest is {near[0]!r}' if near else ''}. "
                f"Give an identifier, a group ({', '.join(GROUPS)}) or a pattern such as 'layer/*'."
            )
        wanted |= hits
    return tuple(one for one in claims if one.id in wanted)
