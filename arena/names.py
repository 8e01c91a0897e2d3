"""Names that a caller gives: found whatever their case, and suggested where they are misspelled."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["find_name", "find_names"]


def find_name(name: str, known: Iterable[str], what: str, *, other: str = "") -> str:
    """The name among those that are known, whatever its case.

    Parameters
    ----------
    name : str
        As the caller gives it.
    known : iterable of str
        The names there are.
    what : str
        What they name, in a word.
    other : str
        What else may be given, for the message.

    Raises
    ------
    ValueError
        If it is none of them; the message names them, and the nearest one.

    Examples
    --------
    >>> find_name("L-BFGS", ["newton", "l-bfgs"], "learner")
    'l-bfgs'
    """
    known = list(known)
    by_case = {one.casefold(): one for one in known}
    if (found := by_case.get(name.casefold())) is not None:
        return found
    near = get_close_matches(name.casefold(), by_case, 1)
    meant = f" Did you mean {by_case[near[0]]!r}?" if near else ""
    given = f"{name[:60]!r} is no {what}" if name else f"No {what} is named"
    raise ValueError(f"{given}: choose among {', '.join(known)}{other}.{meant}")


def find_names(text: str, known: Iterable[str], what: str) -> list[str]:
    """The names in a comma-separated list, each once, in the order given.

    Raises
    ------
    ValueError
        If one is not known, or none is given.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return list(dict.fromkeys(find_name(part, known, what) for part in parts or [""]))
