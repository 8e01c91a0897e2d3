"""Small turns of phrase that sentences of several modules share."""

from collections.abc import Sequence

__all__ = ["listed", "plural", "sentence"]


def listed(words: Sequence[str]) -> str:
    """The words, at least one, with commas and an "and" before the last.

    Examples
    --------
    >>> listed(["phases", "Newton", "Adam"]), listed(["Adam"])
    ('phases, Newton and Adam', 'Adam')
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def plural(n: int, one: str, many: str | None = None) -> str:
    """`n` things, in words.

    Examples
    --------
    >>> plural(1, "head"), plural(2, "head"), plural(2, "study", "studies")
    ('1 head', '2 heads', '2 studies')
    """
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"


def sentence(text: str) -> str:
    """`text` with a capital at its beginning and one full stop at its end.

    Examples
    --------
    >>> sentence("it ended"), sentence("It ended.")
    ('It ended.', 'It ended.')
    """
    return text[:1].upper() + text[1:].rstrip(".") + "."
