"""What numbers are made with: the versions of packages and the text of this toolkit; are they the same elsewhere?"""

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from arena._description import TOOLKIT

__all__ = ["difference", "made_with", "toolkit_code", "versions"]

_VERSIONED = ("attention-bounds", "numpy", "scipy", "torch", "joblib", "fpylll")
_CODE = "the toolkit's code"


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on; a package that is absent is left out."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def toolkit_code() -> str:
    """The SHA-256 of the text of everything of this toolkit that a number can depend on."""
    here = Path(__file__).parent
    files = [here / f"{name}.py" for name in ("cells", "effort", "student_table", "students", "targets")]
    for package in TOOLKIT:
        files += sorted((here.parent / package).rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.parent.name}/{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def made_with() -> dict[str, str]:
    """Versions, and a digest of this toolkit's text, by name."""
    return {**versions(), _CODE: toolkit_code()[:12]}


def difference(elsewhere: Mapping[str, str]) -> str:
    """How what there is here differs from what `made_with` gave elsewhere: a sentence, empty if it does not.

    Examples
    --------
    >>> difference(made_with())
    ''
    >>> difference({**made_with(), "numpy": "1.0"}).startswith("The worker has numpy")
    True
    """
    here = made_with()
    for name in dict.fromkeys([*elsewhere, *here]):
        ours, theirs = here.get(name, "none"), elsewhere.get(name, "none")
        if ours != theirs:
            return (
                f"The worker has {name} {ours} and the command that asks {theirs}: install the same on all, as a cell "
                f"is kept under what it was made with."
            )
    return ""
