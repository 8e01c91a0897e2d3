"""The tables of claims, a TOML file for each group: sentences, sources, kinds, and the stated numbers."""

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from paper_checks.check import Basis, Check, Run
from paper_checks.comparison import Kind
from paper_checks.faults import Fault

__all__ = ["checks", "names_of"]


Wrong: TypeAlias = Mapping[str, Any] | Fault | Callable[[Any], Any]


def checks(id: str, wrong: Wrong | None = None, /, **more: Any) -> Callable[[Run], Check]:
    """Turn the function below into the check of a claim in the tables.

    Parameters
    ----------
    id : str
        Group and name: the table's file, with hyphens for underscores, and the heading in it.
    wrong : callable, Fault or mapping of str to value, optional
        What makes it fail, as in `Check`; or only `Fault.by`, if the table has the fault's target and description. By
        default the wrong constants of the table.
    **more
        Further constants that TOML cannot hold, such as fractions.

    Returns
    -------
    callable
        From the function to the `Check`.

    Raises
    ------
    KeyError
        If the tables do not have the claim.
    """
    group, _, name = id.partition("/")
    row = dict(_table(group)[name])
    constants = {**row.pop("constants", {}), **more}
    fault, constants_wrong = row.pop("fault", None), row.pop("wrong", {})
    if fault is not None and callable(wrong):
        wrong = Fault(by=wrong, **fault)
    row["wrong"] = constants_wrong if wrong is None else wrong
    row |= {"kind": Kind(row["kind"]), "basis": Basis(row["basis"])}
    return lambda run: Check(id=id, run=run, constants=constants, **row)


def names_of(group: str) -> list[str]:
    """The identifiers of the claims of a group, in the order of its table."""
    return [f"{group}/{name}" for name in _table(group)]


@cache
def _table(group: str) -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name(f"{group.replace('-', '_')}.toml")
    table: dict[str, dict[str, Any]] = _plain(tomllib.loads(path.read_text(encoding="utf-8")))
    return table


def _plain(value: Any) -> Any:
    """Values of TOML in the form that claims use: folded sentences on one line, tuples instead of lists."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return " ".join(value.split()) if isinstance(value, str) else value
