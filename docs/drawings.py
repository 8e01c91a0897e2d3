"""How the tutorials show drawings: as the SVG files that they are."""

import ast
from pathlib import Path
from typing import Any

from arena.views.figures import Drawing

__all__ = ["scrape_drawings"]

_LAST = "___"  # where the gallery keeps the value of the expression that ends a block


def scrape_drawings(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the drawing that a block ends with, and return the reStructuredText that shows it."""
    statements = ast.parse(block[1]).body
    drawing = block_vars["example_globals"].get(_LAST)
    # the value of an earlier block stays there when this one ends with a statement
    if not isinstance(drawing, Drawing) or not statements or not isinstance(statements[-1], ast.Expr):
        return ""
    path = drawing.save(Path(next(block_vars["image_path_iterator"])).with_suffix(".svg"))
    where = path.relative_to(gallery_conf["src_dir"]).as_posix()
    # dark-light: the theme leaves its colours alone in the dark
    return f"\n.. image:: /{where}\n   :alt: {drawing.words}\n   :class: sphx-glr-single-img dark-light\n"
