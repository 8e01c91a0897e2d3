"""The comparison as one self-contained HTML page: no network, readable without its script."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from arena._inline import dark_colours, heat_variable, inline_figure, learner_variable
from arena._phrases import plural
from arena._templates import TEMPLATES, templates
from arena.figures import heat_map, learning_curve
from arena.palette import heat_level, is_strong
from arena.results import LearnerRecord, Results, TargetRecord
from arena.sheets import curves_csv, table_csv
from arena.summary import BROKEN
from arena.words import (
    family,
    findings,
    hardness_meaning,
    in_order,
    interruption,
    outcome_words,
    seeds_note,
    seeds_wanted,
    short_error,
    short_seconds,
    verdict_meaning,
)

__all__ = ["render_page"]


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
    from markupsafe import Markup

    environment = templates()
    environment.filters["family"] = family
    script = (TEMPLATES / "script.js").read_text(encoding="utf-8")
    targets = in_order(results)
    pairs = [
        _pair(results, target, learner, target_place, learner_place)
        for target_place, target in enumerate(targets)
        for learner_place, learner in enumerate(results.learners)
    ]
    heat = heat_map(results)
    made = {key: value for key, value in results.made.items() if key not in ("command", "versions")}
    page = environment.get_template("index.html.j2").render(
        summed_up=_summed_up(results),
        given=any(family(target) == "given" for target in targets),
        reused=bool(results.made.get("reused")),
        stopped=interruption(results),
        findings=findings(results),
        meaning=verdict_meaning().capitalize(),
        hardness=hardness_meaning(results),
        heat_map=Markup(inline_figure(heat, "map", _heat_map_words(results))),
        heat_map_width=_width(heat),
        rows=[
            (target, [pair for pair in pairs if pair["target_place"] == place])
            for place, target in enumerate(targets)
        ],
        pairs=pairs,
        lost=_lost(results),
        targets=[_target(results, target, place) for place, target in enumerate(targets)],
        dark=dark_colours(),
        learners=[
            {
                "record": learner,
                "colour": learner_variable(place),
                "parameters": [(_words(name), _value(value)) for name, value in learner.parameters.items()],
                "pairs": [pair for pair in pairs if pair["learner"] is learner],
            }
            for place, learner in enumerate(results.learners)
        ],
        command=str(results.made.get("command") or ""),
        made=[(_MADE.get(key, _words(key)), _value(value, key)) for key, value in made.items()],
        versions=_value(results.made.get("versions") or ""),
        sheets=[
            ("results.csv", "one line per fit", _data_link(results.to_csv())),
            ("table.csv", "the table: one line per target and learner", _data_link(table_csv(results))),
            ("curves.csv", "the curves: one line per step of every fit", _data_link(curves_csv(results))),
        ],
        json=Markup(_json_in_script(results.to_json())),
        script=Markup(script),
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return page.lstrip()


_MADE = {
    "preset": "effort",
    "seconds": "took",
    "jobs": "fits at once",
    "timeout": "time-out of a fit",
    "reused": "fits taken from an earlier run",
    "interrupted": "stopped before the end",
    "store": "kept in",
}


def _summed_up(results: Results) -> str:
    counts = (
        (len(results.targets), "target"),
        (len(results.learners), "learner"),
        (seeds_wanted(results), "seed"),
    )
    return ", ".join(plural(count, word) for count, word in counts)


def _data_link(text: str) -> str:
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


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
        "css": "broken" if summary.status in BROKEN else "learned" if summary.verdict == "learned" else "",
        "colour": heat_variable(heat_level(error)) if done else "",
        "ink": "on-strong" if is_strong(heat_level(error)) else "on-weak",
        "seeds": seeds_note(summary, seeds_wanted(results)),
        "examples": f"{summary.examples:,.0f}" if summary.examples is not None else "–",
        "examples_key": "" if summary.examples is None else repr(summary.examples),
        "seconds": short_seconds(summary.seconds).replace("-", "–"),
        "seconds_key": "" if summary.seconds is None else repr(summary.seconds),
        "outcome": outcome_words(summary) if summary.outcome else summary.verdict,
        "said": (sentence if done else summary.message or sentence) or summary.verdict,
    }


def _lost(results: Results) -> dict[str, Any]:
    """The cells that did not come back, and a heading that says what became of them."""
    cells = [cell for cell in results.cells if cell.status in BROKEN]
    seen = [status for status in BROKEN if any(cell.status == status for cell in cells)]
    return {
        "heading": "What " + " or ".join(seen),
        "cells": [
            {
                "learner": results.learner(cell.learner).title,
                "target": results.target(cell.target).title,
                "cell": cell,
            }
            for cell in cells
        ],
    }


def _target(results: Results, target: TargetRecord, place: int) -> dict[str, Any]:
    from markupsafe import Markup

    name = _file_name(target.name, place)
    curves = []
    for against, words in (("examples", "examples drawn"), ("seconds", "time")):
        svg = learning_curve(results, target.name, "examples" if against == "examples" else "seconds")
        label = f"Error on the unknown part against {words}. {_curve_words(results, target)}"
        curves.append(
            {
                "svg": Markup(inline_figure(svg, f"t{place}{against[0]}", label)),
                "name": f"{name}-error-against-{against}.svg",
                "caption": f"Error against {words}; the marker is where a learner ended.",
            }
        )
    inputs = {key: value for key, value in target.inputs.items() if isinstance(value, str | int | float)}
    distribution = str(inputs.pop("name", inputs.pop("kind", "")))
    inner = target.inputs.get("inputs")
    if isinstance(inner, dict) and "name" in inner:
        distribution = f"{inner['name']}, {distribution}"
    extra = ", ".join(f"{key} {value}" for key, value in inputs.items() if key not in ("k", "d"))
    columns = _columns(target.certificate)
    return {
        "record": target,
        "curves": curves,
        "sheet": f"{name}-curves.csv",
        "points": _data_link(curves_csv(results, target.name)),
        "columns": columns,
        "sentences": [] if columns else _sentences(target.certificate),
        "inputs": f"{distribution} ({extra})" if extra else distribution,
    }


def _file_name(name: str, place: int) -> str:
    """A name that every file system takes, from one that nobody has checked."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") or f"target-{place}"


def _columns(lines: Sequence[str]) -> dict[str, Any] | None:
    """A certificate that holds a table in columns, header and rule above it; None where it holds none."""
    rule = next((place for place, line in enumerate(lines) if _RULE.fullmatch(line.strip())), 0)
    if rule < 2:  # a line that says what it is, and a header
        return None
    header = _GAP.split(lines[rule - 1].strip())
    rows = [_GAP.split(line.strip()) for line in lines[rule + 1 :]]
    length = next((place for place, row in enumerate(rows) if len(row) != len(header)), len(rows))
    return {
        "title": lines[0],
        "before": lines[1 : rule - 1],
        "header": header,
        "rows": [(_words(first), others) for first, *others in rows[:length]],
        "after": lines[rule + 1 + length :],
    }


_RULE, _GAP = re.compile(r"-+( {2,}-+)+"), re.compile(r" {2,}")


def _sentences(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """Long lines as (label, sentence, source), to be wrapped; none where the lines are short or in columns."""
    in_columns = sum("  " in line.strip() for line in lines)
    if 2 * in_columns >= len(lines) or all(len(line) <= _LINE for line in lines):
        return []
    said = []
    for line in lines:
        label, colon, rest = line.strip().partition(": ")
        rest = rest if colon else label
        source = _SOURCE.search(rest)
        said.append(
            (label if colon else "", rest[: source.start()] if source else rest, source[1] if source else "")
        )
    return said


_SOURCE = re.compile(r" (\[[^\[\]]+\])$")
_LINE = 110


def _width(svg: str) -> float:
    return float(re.search(r'viewBox="0 0 ([\d.]+) ', svg)[1])  # type: ignore[index]


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
        note = seeds_note(summary, seeds_wanted(results))
        said.append(f"{learner.title}{number} {summary.verdict}{f' ({note})' if note else ''}")
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
    if name in ("seconds", "timeout") and isinstance(value, int | float):
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
