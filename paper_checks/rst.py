"""Pieces of reStructuredText that generated pages share."""

import re

__all__ = ["escaped", "heading"]


def heading(text: str, line: str) -> list[str]:
    """The lines of a heading, underlined with a character."""
    return [text, line * len(text), ""]


def escaped(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\`*_|<>])", r"\\\1", " ".join(text.split()))
