"""The tables of claims, a TOML file for each group: sentences, sources, kinds, and the stated numbers."""

import functools
import inspect
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from paper_checks.check import Constants
from paper_checks.claim import Basis, Claim
from paper_checks.faults import Fault

__all__ = ["checks", "names_of"]


Wrong: TypeAlias = Mapping[str, Any] | Fault | Callable[[Any], Any]


def checks(id: str, wrong: Wrong | None = None, /, **more: Any) -> Callable[[Any], Claim]:
    """Turn the function below into the check of a claim in the tables.

    Parameters
    ----------
    id : str
        Group and name: the table's file, with hyphens for underscores, and the heading in it.
    wrong : callable, Fault or mapping of str to value, optional
        What makes it fail, as in `Claim`; or only `Fault.by`, if the table has the fault's target and description. By
        default the wrong constants of the table.
    **more
        Further constants that TOML cannot hold, such as fractions.

    Returns
    -------
    callable
        From the function to the `Claim`.

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
    text, statistical = row.pop("claim"), row.pop("kind") == "statistical"
    row["false_alarm"] = row.get("false_alarm", 0.0) if statistical else 0.0
    row |= {"basis": Basis(row["basis"]), "fault": constants_wrong if wrong is None else wrong}

    def adapt(run: Any) -> Claim:
        @functools.wraps(run)
        def adapted(scale: Any, rng: Any, **changed: Any) -> Any:
            return run(Constants(**{**constants, **changed}), scale, rng)

        adapted.__doc__ = text + "\n\n" + (run.__doc__ or "")
        keyword_only = inspect.Parameter.KEYWORD_ONLY
        adapted.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, keyword_only, default=value) for name, value in constants.items()]
        )
        return Claim(id=id, run=adapted, **row)

    return adapt


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
