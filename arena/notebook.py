"""The comparison as a small HTML table for notebooks: readable on light and on dark ground, without any script."""

import math
from functools import cache
from typing import TYPE_CHECKING

from arena.palette import ON_STRONG, ON_WEAK, heat_colours, heat_level, is_strong
from arena.words import (
    LEGEND,
    family,
    findings,
    hardness_meaning,
    in_order,
    interruption,
    losses,
    outcome_words,
    printable,
    seeds_note,
    seeds_wanted,
    short_count,
    short_error,
    short_seconds,
    verdict_meaning,
)

if TYPE_CHECKING:
    from jinja2 import Template

    from arena.results import Results

__all__ = ["results_html"]

# Notebooks differ in their style sheets and some strip <style>: every element carries its own. What is not a cell takes
# the notebook's colours; a cell brings its ground and its text together, so that it reads the same on both grounds.
_TEMPLATE = """\
{% set faint = "opacity:.75;font-weight:normal;font-size:.85em" %}
{% set left = "padding:.35em .6em;text-align:left;" %}
{% set box = "padding:.35em .6em;text-align:center;vertical-align:middle;min-width:5.5em;" %}
{% set apart = "border:2px solid transparent;background-clip:padding-box;" %}
<div style="overflow-x:auto;margin:.5em 0">
{% for sentence in findings %}
<div>{{ sentence }}</div>
{% endfor %}
<table style="border-collapse:separate;border-spacing:0;margin:.6em 0;width:auto;color:inherit;background:none">
<thead><tr style="background:none"><th scope="col" style="{{ left }}">Target</th>
{% for title in learners %}
<th scope="col" style="{{ box }}">{{ title }}</th>
{% endfor %}
</tr></thead>
<tbody>
{% for target, name, title, cells in rows %}
<tr style="background:none"><th scope="row" style="{{ left }}white-space:normal;max-width:18em">{{ title }}<br>
<span style="{{ faint }}">{{ name }}<br>{{ target | family }}, m={{ target.heads }}
k={{ target.tokens }} d={{ target.dim }}</span></th>
{% for cell in cells %}
<td title="{{ cell.remark }}" style="{{ box }}{{ apart }}{{ cell.look }}">
{% if cell.error %}
<strong>{{ cell.error }}</strong><br>{{ cell.verdict }}<br><span style="font-size:.85em">{{ cell.cost }}\
{% if cell.note %}<br>{{ cell.note }}{% endif %}</span></td>
{% else %}
<span style="{{ faint }}">{{ cell.verdict }}</span></td>
{% endif %}
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
{% for failure in failures %}
<div>{{ failure }}</div>
{% endfor %}
<div style="{{ faint }}">Error on the unknown part, median over seeds: {{ legend }}.<br>
{{ meaning }}. ex: examples drawn.{% if hardness %}<br>{{ hardness }}.{% endif %}</div>
</div>
"""


def results_html(results: "Results") -> str:
    """The table of a comparison: targets down, learners across, what it says above, its legend below.

    Parameters
    ----------
    results : Results
        The comparison.

    Returns
    -------
    str
        An HTML fragment, the same for the same results; names and messages are text in it, whatever they hold.
    """
    wanted = seeds_wanted(results)
    rows = [
        (
            target,
            printable(target.name),  # what `plot` and `only` ask for
            printable(target.title),
            [_cell(results, target.name, learner.name, wanted) for learner in results.learners],
        )
        for target in in_order(results)
    ]
    return _template().render(
        findings=[
            printable(sentence) for sentence in (interruption(results), *findings(results)) if sentence
        ],
        legend=LEGEND,
        meaning=verdict_meaning().capitalize(),
        hardness=hardness_meaning(results),
        learners=[printable(learner.title) for learner in results.learners],
        rows=rows,
        failures=[printable(sentence) for sentence in losses(results)],
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["family"] = family
    return environment.from_string(_TEMPLATE)


def _cell(results: "Results", target: str, learner: str, wanted: int) -> dict[str, str]:
    summary = results.summary(target, learner)
    if summary.status != "done":
        return {
            "error": "",
            "verdict": summary.verdict,
            "remark": printable(summary.message),
            "cost": "",
            "note": "",
            "look": "background-color:transparent",
        }
    level = heat_level(math.inf if summary.error is None else summary.error)
    text = ON_STRONG if is_strong(level) else ON_WEAK
    return {
        "error": short_error(summary.error),
        "verdict": summary.verdict,
        "remark": printable(outcome_words(summary)),
        "cost": f"{short_count(summary.examples)} ex, {short_seconds(summary.seconds)}",
        "note": seeds_note(summary, wanted),
        "look": f"background-color:{heat_colours()[level]};color:{text}",
    }
