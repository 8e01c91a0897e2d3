"""A figure as an object: notebooks show it, and it is saved as SVG or PDF."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attention.files import FilePath, write_whole
from runs.figures import pdf_bytes, svg_text

__all__ = ["Drawing"]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure; a notebook whose cell ends with one shows the picture.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    words : str
        What is drawn, for those who cannot see it.
    """

    figure: Any = field(repr=False)
    words: str = "A figure"

    @cached_property
    def svg(self) -> str:
        """The whole SVG document, the same for the same numbers."""
        return svg_text(self.figure)

    @cached_property
    def pdf(self) -> bytes:
        """The PDF, its fonts embedded, without a date."""
        return pdf_bytes(self.figure)

    def __repr__(self) -> str:
        return f"<Drawing: {self.words}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: FilePath) -> Path:
        """Write the figure as an .svg or a .pdf file and return where it is.

        Raises
        ------
        ValueError
            If the path ends in something else.
        OSError
            If the file cannot be written; then what was there stays.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".svg", ".pdf"):
            raise ValueError(f"{path} ends in neither .svg nor .pdf: rename it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.pdf if kind == ".pdf" else self.svg.encode())
        return path
