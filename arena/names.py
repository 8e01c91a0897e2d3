"""What a caller names: entries of a table, in upper or lower case, and objects in files of the caller's own."""

import hashlib
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle


def find_name(name: str, known: Iterable[str], what: str, *, other: str = "") -> str:
    """The known name that matches a given name in upper or lower case.

    ValueError if it is not a known name; the message lists the known names and the nearest one. `what` says what the
    names are for, and `other` what else the caller may give.

    Examples
    --------
    >>> find_name("L-BFGS", ["newton", "l-bfgs"], "learner")
    'l-bfgs'
    """
    known = list(known)
    by_case = {entry.casefold(): entry for entry in known}
    if name.casefold() in by_case:
        return by_case[name.casefold()]
    near = get_close_matches(name.casefold(), by_case, 1)
    meant = f" Did you mean {by_case[near[0]]!r}?" if near else ""
    given = f"{name[:60]!r} is no {what}" if name else f"No {what} is named"
    raise ValueError(f"{given}: choose among {', '.join(known)}{other}.{meant}")


def find_names(text: str, known: Iterable[str], what: str) -> list[str]:
    """The names in a comma-separated list, each once, in the order given.

    ValueError if one is not known, or none is given.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return list(dict.fromkeys(find_name(part, known, what) for part in parts or [""]))


def object_of_file(place: str, what: str) -> Any:
    """The object in FILE.py:NAME; None if the file has no such name.

    The file is executed alone, as a module whose name holds a hash of it: it replaces no module, and modules of its
    folder cannot be imported. `what` says in messages what is looked for, such as "a learner of your own".

    ValueError if the file is missing or does not run.
    """
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"There is no file {path}: {what} is FILE.py:NAME.")
    source = Path(path).read_bytes()
    module = ModuleType(f"_own_{hashlib.sha256(source).hexdigest()}")
    module.__file__ = str(Path(path).absolute())
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    except (Exception, GeneratorExit, SystemExit) as error:
        alone = " The file is imported alone: put its helpers into it, or install them."
        raise ValueError(
            f"{path} does not run: {type(error).__name__}: {error}.{alone if isinstance(error, ImportError) else ''}"
        ) from None
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    return getattr(module, name, None)
