"""A figure as an element of a page."""

import io
import zlib
from collections.abc import Mapping
from xml.etree import ElementTree

__all__ = ["inline_svg"]

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HREF = f"{{{_LINK}}}href"


def inline_svg(svg: str, words: str, titles: Mapping[str, str] | None = None, *, prefix: str = "") -> str:
    """A figure without what only a file needs, and with words for those who cannot see it.

    Parameters
    ----------
    svg : str
        The whole SVG document.
    words : str
        What is drawn.
    titles : mapping of str to str, optional
        What the elements of these ids show when they are pointed at; their ids become classes.
    prefix : str, optional
        What its ids begin with, so that no two figures of a page share one; by default a digest of the figure.
    """
    prefix = prefix or f"figure-{zlib.crc32(svg.encode())}"
    titles = titles or {}
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _LINK)
    root = ElementTree.parse(io.StringIO(svg)).getroot()
    for unwanted in ("metadata", "defs/style"):
        for parent in root.iter():
            for child in parent.findall("/".join(f"{{{_SVG}}}{part}" for part in unwanted.split("/"))):
                (parent if child in parent else parent.find(f"{{{_SVG}}}defs")).remove(child)  # type: ignore[union-attr]
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
    root.set("aria-label", words)
    return ElementTree.tostring(root, encoding="unicode")


def _links(element: ElementTree.Element) -> list[str]:
    """The ids that an element refers to."""
    found = [part.split(")")[0] for value in element.attrib.values() for part in value.split("url(#")[1:]]
    link = element.get(_HREF, "")
    return [*found, link[1:]] if link.startswith("#") else found
