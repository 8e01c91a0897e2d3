"""Small turns of phrase that sentences of several modules share."""

__all__ = ["plural", "sentence"]


def plural(n: int, what: str) -> str:
    """`n` things, in words.

    Examples
    --------
    >>> plural(1, "head"), plural(2, "head")
    ('1 head', '2 heads')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def sentence(text: str) -> str:
    """`text` with a capital at its beginning and one full stop at its end.

    Examples
    --------
    >>> sentence("it ended"), sentence("It ended.")
    ('It ended.', 'It ended.')
    """
    return text[:1].upper() + text[1:].rstrip(".") + "."
