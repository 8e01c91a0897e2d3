"""The comparison as one self-contained HTML page: no network, readable without its script."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from arena.figures import heat_map, learning_curve
from arena.palette import CARD, FAINT, INK, ON_STRONG, ON_WEAK, heat_colours, heat_level, learner_look
from arena.results import LearnerRecord, Results, TargetRecord
from arena.words import (
    findings,
    in_order,
    outcome_word,
    short_error,
    short_seconds,
    verdict_meaning,
)

__all__ = ["render_page"]

_TEMPLATES = Path(__file__).parent / "templates"


def render_page(results: Results) -> str:
    """The page of a comparison.

    Parameters
    ----------
    results : Results
        The comparison.

    Returns
    -------
    str
        One HTML document with its figures, data, style and script inside; the same for the same results.

    Notes
    -----
    Its content-security policy lets nothing in but the page's own script, by hash: a name that a shared
    file brings along is text, and would not run even if it were not escaped.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_TEMPLATES / "script.js").read_text(encoding="utf-8")
    targets = in_order(results)
    pairs = [
        _pair(results, target, learner, target_place, learner_place)
        for target_place, target in enumerate(targets)
        for learner_place, learner in enumerate(results.learners)
    ]
    made = {key: value for key, value in results.made.items() if key != "command"}
    page = environment.get_template("index.html.j2").render(
        findings=findings(results),
        meaning=verdict_meaning().capitalize(),
        heat_map=Markup(_inline(heat_map(results), "map", _heat_map_words(results))),
        pairs=pairs,
        failures=_failures(results),
        targets=[_target(results, target, place) for place, target in enumerate(targets)],
        dark_heat=list(enumerate(heat_colours(dark=True))),
        learners=[
            {
                "record": learner,
                "colour": learner_look(place)["color"],
                "parameters": [(_words(name), _value(value)) for name, value in learner.parameters.items()],
                "pairs": [pair for pair in pairs if pair["learner"] is learner],
            }
            for place, learner in enumerate(results.learners)
        ],
        command=str(results.made.get("command") or ""),
        made=[(_words(key), _value(value, key)) for key, value in made.items()],
        csv=base64.b64encode(results.to_csv().encode()).decode(),
        json=Markup(_json_in_script(results.to_json())),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page.lstrip()


def _pair(
    results: Results, target: TargetRecord, learner: LearnerRecord, target_place: int, learner_place: int
) -> dict[str, Any]:
    """One learner on one target as the tables show it; an empty key sorts last."""
    summary = results.summary(target.name, learner.name)
    done = summary.status == "done"
    error = math.inf if summary.error is None else summary.error
    several = done and summary.done > 1 and summary.error_min != summary.error_max
    low, high = short_error(summary.error_min), short_error(summary.error_max)
    cells = results.cell(target.name, learner.name)
    sentence = next((cell.outcome_text for cell in cells if cell.outcome == summary.outcome), "")
    return {
        "target": target,
        "learner": learner,
        "target_place": target_place,
        "learner_place": learner_place,
        "first": learner_place == 0,
        "error": short_error(summary.error) if done else "–",
        "range": f"{low} to {high}" if several and low != high else "",
        "error_key": (repr(error) if math.isfinite(error) else "1e999") if done else "",
        "verdict": summary.verdict,
        "css": summary.verdict if summary.verdict in ("learned", "failed") else "",
        "colour": _heat(heat_level(error)) if done else "",
        "examples": f"{summary.examples:,.0f}" if summary.examples is not None else "–",
        "examples_key": "" if summary.examples is None else repr(summary.examples),
        "seconds": short_seconds(summary.seconds).replace("-", "–"),
        "seconds_key": "" if summary.seconds is None else repr(summary.seconds),
        "outcome": outcome_word(summary.outcome) if summary.outcome else summary.verdict,
        "said": (sentence if done else summary.message or sentence) or summary.verdict,
    }


def _failures(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "learner": results.learner(cell.learner).title,
            "target": results.target(cell.target).title,
            "seed": cell.seed,
            "message": cell.message,
        }
        for cell in results.cells
        if cell.status == "failed"
    ]


def _target(results: Results, target: TargetRecord, place: int) -> dict[str, Any]:
    from markupsafe import Markup

    curves = []
    for against, words in (("examples", "examples drawn"), ("seconds", "time")):
        svg = learning_curve(results, target.name, "examples" if against == "examples" else "seconds")
        label = f"Error on the unknown part against {words}. {_curve_words(results, target)}"
        curves.append(
            {
                "svg": Markup(_inline(svg, f"t{place}{against[0]}", label)),
                "name": f"target-{place}-{against}",
                "caption": f"Error against {words}; the marker is where each learner ended.",
            }
        )
    inputs = {key: value for key, value in target.inputs.items() if isinstance(value, str | int | float)}
    name = str(inputs.pop("name", inputs.pop("kind", "")))
    extra = ", ".join(f"{key} {value}" for key, value in inputs.items() if key not in ("k", "d"))
    return {
        "record": target,
        "curves": curves,
        "sentences": _sentences(target.certificate),
        "inputs": f"{name} ({extra})" if extra else name,
    }


def _sentences(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Long lines as (label, sentence), to be wrapped; none where the lines are short or in columns."""
    in_columns = sum("  " in line.strip() for line in lines)
    if 2 * in_columns >= len(lines) or all(len(line) <= _LINE for line in lines):
        return []
    parted = [line.strip().partition(": ") for line in lines]
    return [(label, said) if colon else ("", label) for label, colon, said in parted]


_LINE = 110


def _inline(svg: str, prefix: str, label: str) -> str:
    """A figure made part of the page: ids unique, colours the page's, words for those who hear it."""
    from markupsafe import escape

    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    # inside tags only: a name that reads like an attribute is text and stays what it is
    svg = re.sub(r"<[^<>]+>", lambda tag: _of_page(tag[0], prefix), svg)
    opening, rest = svg.split(">", 1)
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', opening)[1])  # type: ignore[index]
    opening = re.sub(r' (width|height|version)="[^"]*"', "", opening)
    sizes = f"--most:{1.65 * width:.0f}px;--least:{1.2 * width:.0f}px"
    look = f"stroke-linejoin:round;stroke-linecap:butt;{sizes}"
    return f'{opening} role="img" aria-label="{escape(label)}" style="{look}">{rest}'


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
    heat = {colour: _heat(level) for level, colour in enumerate(heat_colours())}
    return heat | {colour: f"var(--{name}, {colour})" for colour, name in named.items()}


def _heat(level: int) -> str:
    return f"var(--heat-{level}, {heat_colours()[level]})"


def _heat_map_words(results: Results) -> str:
    rows = [
        f"{target.title}: {_curve_words(results, target)}" for target in in_order(results) if results.learners
    ]
    return "Heat map of the error on the unknown part. " + " ".join(rows)


def _curve_words(results: Results, target: TargetRecord) -> str:
    said = []
    for learner in results.learners:
        summary = results.summary(target.name, learner.name)
        number = f" {short_error(summary.error)}," if summary.status == "done" else ""
        said.append(f"{learner.title}{number} {summary.verdict}")
    return "; ".join(said) + "."


def _json_in_script(text: str) -> str:
    # within a script element nothing may look like markup; inside JSON strings these escapes mean the same
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any, name: str = "") -> str:
    """A parameter or a version as words."""
    if name == "seconds" and isinstance(value, int | float):
        return short_seconds(float(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{_words(str(key))} {_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_value(item) for item in value)
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
