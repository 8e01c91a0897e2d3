"""A figure as an object: notebooks show it, pages hold it, it is saved as SVG or PDF."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention.files import FilePath
from runs.figures import save_figure, svg_text

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure. A notebook shows it as a picture if a cell ends with it."""

    figure: Any = field(repr=False)  #: of matplotlib
    words: str = "A figure"  #: a description, for readers who cannot see it

    @cached_property
    def svg(self) -> str:
        """The whole SVG document, the same for the same numbers."""
        return svg_text(self.figure)

    def __repr__(self) -> str:
        return f"<Drawing: {self.words}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: FilePath) -> Path:
        """Write the figure as an .svg or a .pdf file and return where it is.

        ValueError if the path has another ending. OSError if the file cannot be written.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return save_figure(self.figure, path)

    def inline(self, titles: Mapping[str, str] | None = None, *, prefix: str = "") -> "Markup":
        """The figure as an element of a page: without parts only a file needs, with a description for screen readers.

        Parameters
        ----------
        titles : mapping of str to str, optional
            The text that the element of each id shows under the pointer; these elements get the class "curve".
        prefix : str, optional
            The prefix of its ids, so that no two figures of a page share an id; by default a digest of the figure.
        """
        from markupsafe import Markup

        prefix, wanted = prefix or f"figure-{zlib.crc32(self.svg.encode())}", titles or {}

        def own(tag: re.Match[str]) -> str:
            named = re.search(r' id="([^"]*)"', tag[0])
            if named is not None and (title := wanted.get(unescape(named[1]))) is not None:
                return (
                    tag[0].replace(named[0], ' class="curve"')
                    + f"<title>{escape(title, quote=False)}</title>"
                )
            return re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{prefix}-", tag[0])

        # matplotlib escapes names: what stands between < and > is a tag
        parts = r"<\?xml.*?\?>|<metadata>.*?</metadata>|<style.*?</style>"
        text = re.sub(r"<[^/>][^>]*>", own, re.sub(parts, "", self.svg, flags=re.DOTALL))
        return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{escape(self.words)}" ', 1).strip())
