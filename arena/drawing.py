"""A figure as an object: notebooks show it, pages hold it, it is saved as SVG or PDF."""

import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from attention.files import FilePath, write_whole
from runs.figures import pdf_bytes, svg_text

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["Drawing"]

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HREF = f"{{{_LINK}}}href"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure. A notebook shows it as a picture if a cell ends with it.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    words : str
        A description of the figure, for readers who cannot see it.
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
            If the path has another ending.
        OSError
            If the file cannot be written; an existing file is then kept.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".svg", ".pdf"):
            raise ValueError(f"{path} ends in neither .svg nor .pdf: rename it.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.pdf if kind == ".pdf" else self.svg.encode())
        return path

    def inline(self, titles: Mapping[str, str] | None = None, *, prefix: str = "") -> "Markup":
        """The figure as an element of a page: without parts only a file needs, with a description for screen readers.

        Parameters
        ----------
        titles : mapping of str to str, optional
            The text that the element of each id shows under the pointer; the ids become classes.
        prefix : str, optional
            The prefix of its ids, so that no two figures of a page share an id; by default a digest of the figure.
        """
        from markupsafe import Markup

        prefix = prefix or f"figure-{zlib.crc32(self.svg.encode())}"
        titles = titles or {}
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", _LINK)
        root = ElementTree.parse(io.StringIO(self.svg)).getroot()
        for parent in [root, *root.iter(f"{{{_SVG}}}defs")]:
            for unwanted in ("metadata", "style"):
                for child in parent.findall(f"{{{_SVG}}}{unwanted}"):
                    parent.remove(child)
        wanted = {link for one in root.iter() for link in _links(one)}
        for one in root.iter():
            name = one.get("id", "")
            if name and name not in wanted:
                del one.attrib["id"]
            for key, value in one.attrib.items():
                if key == "id":
                    one.set(key, f"{prefix}-{value}")
                elif key == _HREF and value.startswith("#"):
                    one.set(key, f"#{prefix}-{value[1:]}")
                else:
                    one.set(key, value.replace("url(#", f"url(#{prefix}-"))
            if name in titles:
                one.set("class", "curve")
                title = ElementTree.Element(f"{{{_SVG}}}title")
                title.text = titles[name]
                one.insert(0, title)
        root.attrib.pop("version", None)
        root.set("role", "img")
        root.set("aria-label", self.words)
        return Markup(ElementTree.tostring(root, encoding="unicode"))


def _links(element: ElementTree.Element) -> list[str]:
    """The ids to which an element refers."""
    found = [part.split(")")[0] for value in element.attrib.values() for part in value.split("url(#")[1:]]
    link = element.get(_HREF, "")
    return [*found, link[1:]] if link.startswith("#") else found
