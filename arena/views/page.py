"""The comparison as one self-contained HTML page, and its map of errors for notebooks."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena.formats import count_text, error_text, number_text, seconds_text
from arena.learner_table import learner_looks
from arena.records import Cell, LearnerRecord, TargetRecord
from arena.results import Results, Summary
from arena.views.figures import heat_map, learning_curves
from arena.views.table import legend, outcome_legend, tally_text
from runs.figures import heat_colours, heat_level, text_on

_TEMPLATES = Path(__file__).parents[1] / "templates"


def render_page(results: Results) -> str:
    """The page of a comparison: one HTML document with its figures, data, style and script inside.

    Notes
    -----
    Its content-security policy allows only the page's own script, by hash. A name from a shared file is text;
    it would not run even if it were not escaped.
    """
    script = (_TEMPLATES / "script.js").read_text(encoding="utf-8")
    rows = _rows(results)
    made = {key: value for key, value in results.made.items() if key not in ("command", "versions")}
    return template("index.html.j2").render(
        results=results,
        rows=rows,
        idle=[one for _, pairs in rows for one in pairs if not (one["summary"].done or one["summary"].lost)],
        learners=results.learners,
        legend=legend(results),
        outcomes=outcome_legend(results),
        tallies=[results.tally(learner.name) for learner in results.learners],
        asked=any(learner.asks for learner in results.learners),
        lost=[cell for cell in results.cells if cell.status.lost],
        looks=learner_looks([learner.name for learner in results.learners]),
        curves={target.name: _curves(results, target, n) for n, target in enumerate(results.shown)},
        file_names={target.name: _file_name(target.name, n) for n, target in enumerate(results.shown)},
        heat_map=data_link("image/svg+xml", heat_map(results).svg),
        fits=data_link("text/csv", results.to_csv()),
        made=made,
        json=_json_in_script(results.to_json()),
        script=script,
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def render_map(results: Results) -> str:
    """The map of errors as HTML for a notebook: no script, its colours written into every cell."""
    return template("map.html.j2").render(
        rows=_rows(results), learners=results.learners, legend=legend(results)
    )


def template(name: str) -> Any:
    """A template of the package: text is escaped, and a missing name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": count_text,
        "error": error_text,
        "seconds": seconds_text,
        "number": number_text,
        "setting": _setting,
        "inputs": lambda described: f"{described.get('name', 'unknown')} inputs",
        "tally": tally_text,
        "ended": _ended,
        "level": heat_level,
        "words": lambda name: str(name).replace("_", " "),
        "finite": lambda value: (
            "" if math.isnan(value) else "1e999" if math.isinf(value) else repr(float(value))
        ),
    }
    # the ground of every level of the map and the text on it, by light and by dark
    environment.globals |= {
        f"{theme}heat": [(ground, text_on(ground)) for ground in heat_colours(dark=bool(theme))]
        for theme in ("", "dark_")
    }
    return environment.get_template(name)


def _rows(results: Results) -> list[tuple[TargetRecord, list[dict[str, Any]]]]:
    """Each target with its learners and their summaries, in the order of display."""

    def pair(target: TargetRecord, learner: LearnerRecord) -> dict[str, Any]:
        summary = results.summary(target.name, learner.name)
        return {"target": target, "learner": learner, "summary": summary, "seeds": results.seeds}

    return [(target, [pair(target, one) for one in results.learners]) for target in results.shown]


def _ended(summary: Summary) -> str:
    """The outcome, or why there is none."""
    if not summary.done:
        return summary.message or summary.verdict
    return " ".join(filter(None, (summary.outcome_text, summary.vouched)))


def _curves(results: Results, target: TargetRecord, place: int) -> list[dict[str, str]]:
    """The figures of a target against examples and against time; a curve's title has a line for each point."""
    drawn = []
    for against in ("examples", "seconds"):
        titles = {
            f"curve-{cell.learner}-{cell.seed}": _points_text(cell, results.learner(cell.learner), against)
            for cell in results.cells
            if cell.target == target.name
        }
        drawing = learning_curves(results, target.name, against)
        drawn.append({"against": against, "svg": drawing.inline(titles, prefix=f"{against}-{place}")})
    return drawn


def _points_text(cell: Cell, learner: LearnerRecord, against: str) -> str:
    text = count_text if against == "examples" else seconds_text
    unit = "" if against == "seconds" else " queries" if learner.asks else " examples"
    return "\n".join(f"{error_text(error)} after {text(cost)}{unit}" for cost, error in cell.points(against))


def data_link(kind: str, text: str) -> str:
    """A link that holds its content."""
    return f"data:{kind};charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


def _file_name(name: str, place: int) -> str:
    """A name that every file system accepts, made from an unchecked name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") or f"target-{place}"


def _json_in_script(text: str) -> Any:
    from markupsafe import Markup

    # a script element must contain nothing that looks like markup; inside JSON strings these escapes mean the same
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _setting(value: Any) -> str:
    """A parameter or a version as words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_setting(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_setting(item) for item in value)
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
