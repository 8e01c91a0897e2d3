"""Figures made part of a page: their ids unique, their colours the page's own, words for those who hear them."""

import re
from functools import cache

from arena.palette import CARD, FAINT, INK, ON_STRONG, ON_WEAK, heat_colours, learner_colours

__all__ = ["dark_colours", "heat_variable", "inline_figure", "learner_variable"]


def inline_figure(svg: str, prefix: str, label: str) -> str:
    """A figure as an element of the page.

    Parameters
    ----------
    svg : str
        The whole SVG document.
    prefix : str
        What its ids begin with, one a figure of the page.
    label : str
        What is drawn, in words.
    """
    from markupsafe import escape

    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    # inside tags only: a name that reads like an attribute is text and stays what it is
    svg = re.sub(r"<[^<>]+>", lambda tag: _of_page(tag[0], prefix), svg)
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height|version)="[^"]*"', "", opening)
    look = "stroke-linejoin:round;stroke-linecap:butt"
    return f'{opening} role="img" aria-label="{escape(label)}" style="{look}">{rest}'


def dark_colours() -> list[tuple[str, str]]:
    """The page's colours by name where the figures have others in the dark."""
    named = [("on-weak", ON_STRONG), ("on-strong", ON_WEAK)]
    named += [(f"learner-{place}", colour) for place, colour in enumerate(learner_colours(dark=True))]
    return named + [(f"heat-{level}", colour) for level, colour in enumerate(heat_colours(dark=True))]


def heat_variable(level: int) -> str:
    """A level's colour in the heat map, as the page's style has it."""
    return f"var(--heat-{level}, {heat_colours()[level]})"


def learner_variable(place: int) -> str:
    """A learner's colour, as the page's style has it."""
    place %= len(learner_colours())
    return f"var(--learner-{place}, {learner_colours()[place]})"


def _of_page(tag: str, prefix: str) -> str:
    tag = re.sub(r'\b(id|xlink:href)="(#?)', rf'\1="\2{prefix}-', tag)
    tag = tag.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    tag = re.sub(r"url\(#", f"url(#{prefix}-", tag)
    tag = re.sub(r"font-family: [^;\"]*", "font-family: inherit", tag)
    # presentation attributes take no variables in every browser, styles do
    tag = re.sub(r' fill="(#[0-9a-f]{6})"', r' style="fill: \1"', tag)
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: _variables().get(colour[0], colour[0]), tag)


@cache
def _variables() -> dict[str, str]:
    named = {INK: "ink", FAINT: "faint", CARD: "card", ON_WEAK: "on-weak", ON_STRONG: "on-strong"}
    heat = {colour: heat_variable(level) for level, colour in enumerate(heat_colours())}
    learners = {colour: learner_variable(place) for place, colour in enumerate(learner_colours())}
    return heat | learners | {colour: f"var(--{name}, {colour})" for colour, name in named.items()}
