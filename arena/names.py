"""Find names that a caller gives, in upper or lower case, and suggest a name for a misspelled one."""

from collections.abc import Iterable
from difflib import get_close_matches


def find_name(name: str, known: Iterable[str], what: str, *, other: str = "") -> str:
    """The known name that matches a given name in upper or lower case.

    ValueError if it is not a known name; the message lists the known names and the nearest one.

    Parameters
    ----------
    name : str
        The name from the caller.
    known : iterable of str
        The known names.
    what : str
        What the names are for, in one word.
    other : str
        What else the caller may give, for the message.

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

    ValueError if one is not known, or none is given.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return list(dict.fromkeys(find_name(part, known, what) for part in parts or [""]))
