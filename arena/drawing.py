"""A figure as an object: notebooks show it, and it can be saved."""

from dataclasses import dataclass
from pathlib import Path

from attention.files import FilePath, write_whole

__all__ = ["Drawing"]


@dataclass(frozen=True)
class Drawing:
    """A figure as SVG text; a notebook whose cell ends with one shows the picture.

    Attributes
    ----------
    svg : str
        The whole SVG document.
    words : str
        What is drawn, in one line, for those who cannot see it.

    Examples
    --------
    >>> Drawing("<svg xmlns='http://www.w3.org/2000/svg'/>", "Nothing at all")
    <Drawing: Nothing at all>
    """

    svg: str
    words: str = "A figure"

    def __repr__(self) -> str:
        return f"<Drawing: {self.words}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: FilePath) -> Path:
        """Write the figure as an SVG file and return where it is.

        Raises
        ------
        ValueError
            If the path does not end in .svg: no other format is written.
        OSError
            If the file cannot be written; then what was there stays.
        """
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ValueError(f"{path} does not end in .svg, and a drawing is saved as SVG only: rename it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.svg.encode())
        return path
