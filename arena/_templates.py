"""The pages' templates."""

from pathlib import Path
from typing import Any

__all__ = ["TEMPLATES", "templates"]

TEMPLATES = Path(__file__).parent / "templates"
"""The folder they are in."""


def templates() -> Any:
    """An environment of the templates of one's own: text is escaped, and a name that is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
