"""The colours: told apart by colour-blind eyes, readable on their grounds, by light and by dark."""

import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import arena
from runs.figures import (
    CARD,
    FAINT,
    INK,
    ON_STRONG,
    ON_WEAK,
    heat_colours,
    is_strong,
    learner_colours,
)

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision deficiency, IEEE
# Transactions on Visualization and Computer Graphics 15(6), 2009: severity 1.0, for linear RGB
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
STYLE = (Path(arena.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
themes = pytest.mark.parametrize("theme", ["light", "dark", "print"])
eyes = pytest.mark.parametrize("eye", EYES)
by_light_and_dark = pytest.mark.parametrize("dark", [False, True])


def linear(colour):
    """Linear RGB of #rrggbb (IEC 61966-2-1)."""
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour, eye="all cones"):
    """CIELAB coordinates, D65, of a colour as that eye sees it."""
    xyz = TO_XYZ @ np.clip(EYES[eye] @ linear(colour), 0, 1) / (0.95047, 1.0, 1.08883)
    root = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def contrast(one, other):
    """The contrast ratio of the Web Content Accessibility Guidelines 2.2."""
    low, high = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def variables(theme):
    """The colours of the style sheet by name."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(blocks) == 3
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", blocks[0]))
    found |= dict(
        re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", blocks[("light", "dark", "print").index(theme)])
    )
    return {
        name: value if len(value) == 7 else "#" + "".join(2 * letter for letter in value[1:])
        for name, value in found.items()
    }


def mixed(one, other, share):
    """`share` of one colour over the other, as CSS mixes them in sRGB."""
    parts = [[int(colour[place : place + 2], 16) for place in (1, 3, 5)] for colour in (one, other)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in zip(*parts, strict=True))


def turned(colour):
    """A colour of a figure as the page shows it in the dark: inverted and turned half round, as CSS filters do it."""
    amount = float(re.search(r"filter: invert\(([.\d]+)\) hue-rotate\(180deg\)", STYLE)[1])
    parts = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    half_round = 2 * np.array([0.213, 0.715, 0.072]) - np.eye(3)  # Filter Effects Module 1, but for rounding
    parts = np.clip(half_round @ (amount - (2 * amount - 1) * parts), 0, 1)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


@eyes
def test_learners_are_told_apart(eye):
    assert len(learner_colours()) == 7
    pairs = combinations(learner_colours(), 2)
    assert min(math.dist(lab(one, eye), lab(other, eye)) for one, other in pairs) >= 20


@by_light_and_dark
def test_learners_and_text_of_figures_stand_out_from_their_ground(dark):
    ground = variables("dark" if dark else "light")["card"]
    shown = turned if dark else str
    assert min(contrast(shown(colour), ground) for colour in learner_colours()) >= 3
    assert min(contrast(shown(colour), ground) for colour in (INK, FAINT)) >= 4.5


@by_light_and_dark
@eyes
def test_the_lightness_of_the_heat_map_goes_one_way(eye, dark):
    # worse than nothing and nothing have colours of their own
    lightness = [lab(colour, eye)[0] for colour in heat_colours(dark=dark)[2:]]
    steps = np.diff(lightness) * (1 if dark else -1)
    assert steps.min() > 0.1
    assert abs(lightness[-1] - lightness[0]) > 50


@by_light_and_dark
@eyes
def test_worse_than_nothing_nothing_and_partly_are_told_apart(eye, dark):
    firsts = combinations(heat_colours(dark=dark)[:3], 2)
    assert min(math.dist(lab(one, eye), lab(other, eye)) for one, other in firsts) > 5


@by_light_and_dark
def test_text_is_readable_on_every_level_of_the_heat_map(dark):
    weak, strong = (ON_STRONG, ON_WEAK) if dark else (ON_WEAK, ON_STRONG)
    for level, colour in enumerate(heat_colours(dark=dark)):
        assert contrast(colour, strong if is_strong(level) else weak) >= 4.5


@themes
def test_text_is_readable_on_every_ground_it_stands_on(theme):
    colour = variables(theme)
    pairs = [
        *((text, ground) for text in ("ink", "faint", "accent", "hard") for ground in ("ground", "card")),
        ("hard", "hard-ground"),
        ("nice", "nice-ground"),
    ]
    for text, ground in pairs:
        assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    # a row under the pointer
    hover = mixed(colour["accent"], colour["card"], 0.06)
    for text in ("ink", "faint", "hard"):
        assert contrast(colour[text], hover) >= 4.5
    # what marks where one can press
    for ground in ("ground", "card"):
        assert contrast(colour["rim"], colour[ground]) >= 3
        assert contrast(colour["accent"], colour[ground]) >= 3


def test_figures_and_page_agree_on_their_colours():
    light = variables("light")
    assert (light["ink"], light["faint"], light["card"]) == (INK, FAINT, CARD)
    assert (light["on-weak"], light["on-strong"]) == (ON_WEAK, ON_STRONG)


def test_the_style_sheet_has_colours_in_its_variables_only():
    rest = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.search(r":[^;{}]*(#[0-9a-f]{3,6}\b|rgba?\()", rest)
