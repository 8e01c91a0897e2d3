"""What the study of weightings found, in words."""

from collections.abc import Sequence

import numpy as np

from arena._phrases import sentence
from arena.studies._weightings_rows import (
    EXACT_ERROR,
    NAMES,
    PASSES,
    SPARSE,
    TOLERANCES,
    by_weighting,
    chosen,
    equations_a_row,
    exact_share,
    largest_shape,
    median_of,
    shape_words,
    shapes_of,
    shares_of,
    slopes,
    useful_shares,
)
from arena.studies.study import Row

__all__ = ["found_in_words"]

_FIRST, _SECOND = 1.25, 1.5  # a slope below the one is that of a first power, one above the other of a second
_ALIKE = 1.5  # times softmax's bias of phase 1: up to there it is said to stand
_GOOD_SPAN = 0.01
_FEW = 30  # counts below it are told


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, clauses parted by semicolons."""
    told = (
        _answer(rows),
        _bias(rows),
        _powers(rows),
        _frequencies(rows),
        _agreement(rows),
        *_spans(rows),
        *_success(rows),
        _newton(rows),
    )
    parts = [part for part in told if part]
    return sentence("; ".join(parts)) if parts else "Nothing was measured."


def _answer(rows: Sequence[Row]) -> str:
    """What stands without exp, and what is other than expected."""
    stands = _standing(rows)
    contrary = [part for part in (_exponent(rows), _failing(rows)) if part]
    if not contrary:
        return stands
    said = ", and ".join(contrary)
    return f"{stands}, but against expectation {said}" if stands else f"against expectation {said}"


def _standing(rows: Sequence[Row]) -> str:
    biases, errors = _biases(rows), _best_spans(rows)
    others = [bias for name, bias in biases.items() if name != "softmax"]
    first = bool(others) and max(others) <= _ALIKE * biases.get("softmax", 0.0)
    linear = [error for name, error in errors.items() if name != "softmax"]
    span = bool(linear) and max(linear) <= _GOOD_SPAN
    if first and span:
        return "phase 1 stands without exp, and so does the span where patterns give linear equations"
    if first:
        return "phase 1 stands without exp"
    return "the span is found without exp where patterns give linear equations" if span else ""


def _exponent(rows: Sequence[Row]) -> str:
    """How sparse weightings change the power of the tolerance at two heads and three tokens, and at three heads."""
    tokens = _of(rows, heads=2, tokens=3)
    heads = _of(rows, heads=3, tokens=2)
    if "softmax" not in tokens or not _sparse(tokens):
        return ""
    if not (max(_sparse(tokens)) < _FIRST and tokens["softmax"] > _SECOND):
        return ""
    if _sparse(heads) and min(_sparse(heads)) > _SECOND:
        return "sparse weightings take the tokens, not the heads, out of agreement's power (m-1)(k-1)"
    return (
        "with sparse weightings agreement of two heads falls with the first power of the tolerance at three tokens, "
        "not the second"
    )


def _of(rows: Sequence[Row], **wanted: int) -> dict[str, float]:
    """The slopes of agreement at the largest dimension with so many heads and tokens, by weighting."""
    here = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    shape = largest_shape(here, "agreement")
    return slopes(here, shape) if shape else {}


def _sparse(found: dict[str, float]) -> list[float]:
    return [value for name, value in found.items() if name in SPARSE]


def _failing(rows: Sequence[Row]) -> str:
    """The weightings with which no descent was exact, where softmax's all were."""
    shares = {
        name: exact_share(there) for name in NAMES if (there := chosen(rows, "descent", weighting=name))
    }
    hits, trials = shares.get("softmax", (0, 0))
    none = [NAMES[name] for name, (hit, _) in shares.items() if not hit]
    return f"a descent fails in every run with {' and '.join(none)}" if none and hits == trials > 0 else ""


def _biases(rows: Sequence[Row]) -> dict[str, float]:
    shape = largest_shape(rows, "bias", tokens=2)
    groups = {name: chosen(rows, "bias", weighting=name, **shape) for name in NAMES}
    return {name: median_of(group, "bias") for name, group in groups.items() if group}


def _bias(rows: Sequence[Row]) -> str:
    medians = _biases(rows)
    if not medians:
        return ""
    low, high = min(medians, key=lambda n: medians[n]), max(medians, key=lambda n: medians[n])
    at = f"phase 1 is biased at {shape_words(largest_shape(rows, 'bias', tokens=2))} by"
    if low == high:
        return f"{at} {medians[low]:.2g} with {NAMES[low]}"
    return f"{at} {medians[low]:.2g} ({NAMES[low]}) to {medians[high]:.2g} ({NAMES[high]})"


def _powers(rows: Sequence[Row]) -> str:
    """The power of the tolerance at every shape, beside the one that was expected."""
    parts = []
    for shape in shapes_of(rows, "agreement"):
        found = {
            name: f"{slope:.1f}"
            for name, slope in slopes(rows, shape).items()
            if name in ("softmax", *SPARSE)
        }
        if found:
            expected = (shape["heads"] - 1) * (shape["tokens"] - 1)
            parts.append(f"{_each(found)} at {shape_words(shape)}, where (m-1)(k-1) is {expected}")
    if not parts:
        return ""
    said = f"useful agreement falls with the tolerance to the power {', '.join(parts)}"
    equations = [
        equations_a_row(group)
        for name in SPARSE
        if (group := chosen(rows, "agreement", weighting=name, heads=2, tokens=3))
    ]
    if "take the tokens" in _exponent(rows) and all(one is not None and one < _FIRST for one in equations):
        said += ": the support is two tokens, so that of (m-1)(k-1) m-1 is left"
    return said


def _frequencies(rows: Sequence[Row]) -> str:
    """How often sparse weightings agree usefully, beside softmax."""
    parts = []
    for shape in shapes_of(rows, "agreement"):
        shares = useful_shares(rows, shape)
        sparse = [name for name in SPARSE if name in shares]
        if "softmax" not in shares or not sparse or not shares["softmax"].all():
            continue
        ratios = {name: shares[name] / shares["softmax"] for name in sparse}
        said = {name: f"{ratio[0]:.2g} and {ratio[-1]:.2g}" for name, ratio in ratios.items()}
        counts = {
            name: sum(row["useful"][0] for row in chosen(rows, "agreement", weighting=name, **shape))
            for name in ("softmax", *sparse)
        }
        few = f" (to {TOLERANCES[0]:g} in rows: {_each({n: str(c) for n, c in counts.items()})})"
        parts.append(f"{_each(said)} at {shape_words(shape)}{few if min(counts.values()) < _FEW else ''}")
    if not parts:
        return ""
    return (
        f"rows agree usefully to {TOLERANCES[0]:g} and {TOLERANCES[-1]:g} so many times as often as softmax's: "
        f"{', '.join(parts)}"
    )


def _agreement(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "agreement", tokens=3) or largest_shape(rows, "agreement")
    if not shape:
        return ""
    here = [row for row in chosen(rows, "agreement", **shape) if row["weighting"] in ("softmax", *SPARSE)]
    told = [
        f"{words} {_each(values)}"
        for words, values in (
            (
                f"at {shape_words(shape)} heads' patterns are exactly equal in a share of rows of",
                by_weighting([row for row in here if row["weighting"] in SPARSE], _share_in_words),
            ),
            ("and uniform for want of a positive weight in", by_weighting(here, _uniform_share)),
            (f"they agree usefully to {TOLERANCES[0]:g} in", by_weighting(here, _first_share)),
            (
                f"and a row useful to {TOLERANCES[-1]:g} gives so many equations:",
                by_weighting(here, _equations_in_words),
            ),
        )
        if values
    ]
    return ", ".join(told)


def _best_spans(rows: Sequence[Row], tokens: int = 2) -> dict[str, float]:
    """The median error of the span from the least share of rows accepted, by weighting."""
    here = chosen(rows, "hull", heads=2, tokens=tokens, dim=16)
    least = min((row["accept"] for row in here), default=0.0)
    groups = {name: chosen(here, "hull", weighting=name, accept=least) for name in NAMES}
    return {name: median_of(group, "span") for name, group in groups.items() if group}


def _spans(rows: Sequence[Row]) -> list[str]:
    """The error of the span by the share of rows accepted at two tokens; at three from the least share."""
    told = []
    here = chosen(rows, "hull", heads=2, tokens=2, dim=16)
    if here:
        accepts = sorted({row["accept"] for row in here}, reverse=True)

        def errors(group: list[Row]) -> str:
            there = [[row for row in group if row["accept"] == accept] for accept in accepts]
            return " / ".join(f"{median_of(some, 'span'):.2g}" if some else "–" for some in there)

        shares = " / ".join(f"{100 * accept:g} %" for accept in accepts)
        told.append(
            f"the span is at {shape_words(here[0])} from the best {shares} of rows off by "
            f"{_each(by_weighting(here, errors))}"
        )
    three = _best_spans(rows, tokens=3)
    if three:
        found = {name: f"{error:.2g}" for name, error in three.items()}
        told.append(f"at (2,3,16) it is off by {_each(found)} from the smallest share of rows")
    return told


def _success(rows: Sequence[Row]) -> list[str]:
    """How many descents were exact, by shape and examples, and how those ended that were not."""
    told = []
    for shape in shapes_of(rows, "descent"):
        here = chosen(rows, "descent", **shape)
        floors = sorted({row["floors"] for row in here})

        def hits(group: list[Row], floors: Sequence[int] = floors) -> str:
            there = [[row for row in group if row["floors"] == floor] for floor in floors]
            return " and ".join("{}/{}".format(*exact_share(some)) for some in there)

        told.append(
            f"L-BFGS is exact ({EXACT_ERROR:g}) at {shape_words(shape)} from {' and '.join(map(str, floors))} floors "
            f"{_each(by_weighting(here, hits))}"
        )
    failed = [row for row in chosen(rows, "descent") if row["error"] > EXACT_ERROR]
    if failed:

        def spent(group: list[Row]) -> str:
            return f"{sum(row['passes'] >= PASSES for row in group)} of {len(group)}"

        told.append(
            f"of the descents that were not exact so many had spent their {PASSES} evaluations: "
            f"{_each(by_weighting(failed, spent))}, the others came to a standstill before"
        )
    helped = [NAMES[name] for name in NAMES if _helped_by_examples(chosen(rows, "descent", weighting=name))]
    if helped:
        told.append(
            f"exact in no run from the fewest examples and in most from the most: {' and '.join(helped)}"
        )
    return told


def _helped_by_examples(rows: Sequence[Row]) -> bool:
    """Whether a descent was exact in no case with the fewest examples and in most with the most."""
    floors = {row["floors"] for row in rows}
    if len(floors) < 2:
        return False
    few, many = (exact_share([row for row in rows if row["floors"] == end(floors)]) for end in (min, max))
    return few[0] == 0 and 2 * many[0] > many[1]


def _newton(rows: Sequence[Row]) -> str:
    shape = largest_shape(rows, "newton")
    errors = [
        median_of(group, "error")
        for name in NAMES
        if name != "softmax" and (group := chosen(rows, "newton", weighting=name, **shape))
    ]
    if not errors:
        return ""
    left = f"{min(errors):.2g} to {max(errors):.2g}"
    return f"Newton's softmax leaves {left} of the others' labels at {shape_words(shape)}"


def _range(values: Sequence[float] | np.ndarray, form: str = ".2g") -> str:
    low, high = format(float(np.min(values)), form), format(float(np.max(values)), form)
    return low if low == high else f"{low} to {high}"


def _each(values: dict[str, str]) -> str:
    return ", ".join(f"{NAMES[name]} {value}" for name, value in values.items())


def _share_in_words(rows: list[Row]) -> str:
    share = sum(row["exact"] for row in rows) / sum(row["rows"] for row in rows)
    return "0" if share == 0 else (f"{share:.1e}" if share < 1e-3 else f"{share:.2g}")


def _uniform_share(rows: list[Row]) -> str | None:
    share = sum(row["uniform"] for row in rows) / sum(row["rows"] for row in rows)
    return f"{share:.2g}" if share else None


def _first_share(rows: list[Row]) -> str:
    return f"{shares_of(rows)[0]:.1e}"


def _equations_in_words(rows: list[Row]) -> str | None:
    equations = equations_a_row(rows)
    return None if equations is None else f"{equations:.2f}"
