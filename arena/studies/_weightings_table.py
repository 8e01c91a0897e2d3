"""The table of the study of weightings."""

from collections.abc import Callable, Sequence

from arena.studies._weightings_rows import (
    EQUATIONS,
    NAMES,
    TOLERANCES,
    chosen,
    equations_a_row,
    exact_share,
    largest_shape,
    median_of,
    shape_words,
    shares_of,
    slope_of,
)
from arena.studies.study import Row, Table
from paper_checks import proportion_interval

__all__ = ["weightings_table"]


def weightings_table(rows: Sequence[Row]) -> Table:
    """A row for each weighting; nothing where it was not measured."""
    bias = largest_shape(rows, "bias", tokens=2)
    agree = largest_shape(rows, "agreement", tokens=3) or largest_shape(rows, "agreement")
    descent, newton = largest_shape(rows, "descent"), largest_shape(rows, "newton")
    hulls = chosen(rows, "hull", heads=2, tokens=2, dim=16)
    least = min((row["accept"] for row in hulls), default=0.0)
    floors = max((row["floors"] for row in chosen(rows, "descent")), default=0)
    lines = []
    for name in NAMES:
        at_least = chosen(hulls, "hull", weighting=name, accept=least)
        ends = chosen(rows, "descent", weighting=name, floors=floors, **descent)
        agreeing = chosen(rows, "agreement", weighting=name, **agree)
        cells = (
            _or_nothing(
                chosen(rows, "bias", weighting=name, **bias), lambda g: f"{median_of(g, 'bias'):.3f}"
            ),
            _or_nothing(agreeing, _share_in_words),
            _or_nothing(agreeing, _first_share),
            _or_nothing(agreeing, _last_share),
            _or_nothing(agreeing, lambda g: _slope_in_words(g) or "–"),
            _or_nothing(agreeing, _equations_in_words),
            _or_nothing(at_least, lambda g: f"{min(median_of(g, 'refined'), median_of(g, 'one_hot')):.1e}"),
            _or_nothing(at_least, lambda g: f"{median_of(g, 'span'):.1e}"),
            _or_nothing(ends, _success_in_words),
            _or_nothing(
                chosen(rows, "newton", weighting=name, **newton), lambda g: f"{median_of(g, 'error'):.1e}"
            ),
        )
        if any(cell != "–" for cell in cells):
            lines.append((f"{NAMES[name]}: {EQUATIONS[name]}", *cells))
    header = (
        "weighting: its equation",
        f"bias {_at(bias)}",
        f"equal rows {_at(agree)}",
        f"useful to {TOLERANCES[0]:g}",
        f"useful to {TOLERANCES[-1]:g}",
        "slope",
        "equations a row",
        f"sum W {_at(hulls[0] if hulls else {})}",
        f"span, {100 * least:g} % of rows",
        f"exact, {floors} floors {_at(descent)}",
        f"softmax Newton {_at(newton)}",
    )
    return Table(header, tuple(lines))


def _or_nothing(rows: list[Row], told: Callable[[list[Row]], str]) -> str:
    return told(rows) if rows else "–"


def _at(shape: Row | dict[str, int]) -> str:
    return shape_words(shape) if shape else ""


def _success_in_words(rows: list[Row]) -> str:
    hits, trials = exact_share(rows)
    interval = proportion_interval(hits, trials, confidence=0.95)
    return f"{hits} of {trials} ({interval.low:.2f} to {interval.high:.2f})"


def _share_in_words(rows: list[Row]) -> str:
    share = sum(row["exact"] for row in rows) / sum(row["rows"] for row in rows)
    return "0" if share == 0 else (f"{share:.1e}" if share < 1e-3 else f"{share:.2g}")


def _first_share(rows: list[Row]) -> str:
    return f"{shares_of(rows)[0]:.1e}"


def _last_share(rows: list[Row]) -> str:
    return f"{shares_of(rows)[-1]:.1e}"


def _slope_in_words(rows: list[Row]) -> str | None:
    slope = slope_of(rows)
    return None if slope is None else f"{slope:.1f}"


def _equations_in_words(rows: list[Row]) -> str:
    equations = equations_a_row(rows)
    return "–" if equations is None else f"{equations:.2f}"
