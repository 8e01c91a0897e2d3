"""What the study of tokens found: in words and as a table."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from arena._phrases import listed, sentence
from arena.studies.study import Row, Table
from paper_checks import mean_interval

__all__ = [
    "SUMS",
    "Point",
    "found_in_words",
    "judged",
    "mean_of",
    "median_of",
    "points_of",
    "refused",
    "tokens_table",
]

SUMS = {"exact": "exact sum", "crude": "phase 1's sum"}
"""The sums that certificates are judged with, by their name in a row."""
_EXACT = 1e-9  # an end with a smaller relative error is exact
_ALIKE = 0.1  # shares that differ by less are alike
_FEW = (2, 3, 4)  # the k at which agreement is frequent enough to be seen

Point = tuple[int, int]
"""d and k."""


def points_of(rows: Sequence[Row], part: str) -> dict[Point, list[Row]]:
    """The rows of a part that were not refused, by d and k."""
    groups: dict[Point, list[Row]] = {}
    for row in rows:
        if row["part"] == part and row.get("refused") is None:
            groups.setdefault((row["dim"], row["tokens"]), []).append(row)
    return groups


def mean_of(members: Sequence[Row], of: Callable[[Row], float | None]) -> float | None:
    values = [value for value in map(of, members) if value is not None]
    return float(np.mean(values)) if values else None


def judged(which: str, name: str) -> Callable[[Row], float | None]:
    return lambda row: row[which][name]


def median_of(members: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in members if row[name] is not None]
    return float(np.median(values)) if values else None


def refused(members: Sequence[Row]) -> bool:
    """Whether the six phases refused a point of the ends: as many tokens as dimensions."""
    return all(row["outcome"] == "NOT_APPLICABLE" for row in members)


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, made of whatever was measured."""
    parts = (
        _found_own(rows),
        _found_crude(rows),
        _found_fair(rows),
        _found_usable(rows),
        _found_ends(rows),
        _found_law(rows),
    )
    told = [one for one in parts if one]
    text = "; ".join(told) or "every cell measured was refused, as k is not below d"
    return sentence(text)


def _found_own(rows: Sequence[Row]) -> str:
    points = points_of(rows, "certificates")
    shares = _accepted_false(points, "exact")
    by_tokens = {k: [share for (_, one), share in shares.items() if one == k] for k in _FEW}
    by_tokens = {k: several for k, several in by_tokens.items() if several}
    if not by_tokens:
        return ""
    ks = listed([str(k) for k in by_tokens])
    said = f"{listed([_span(several) for several in by_tokens.values()])} disagree by over a logit"
    agreeing = _agreeing(points)
    rarer = (
        len(agreeing) > 1
        and [*agreeing] == [*by_tokens]
        and list(agreeing.values()) == sorted(agreeing.values(), reverse=True)
    )
    if not (rarer and _told_apart(points) and max(map(max, by_tokens.values())) > 0.5):
        return f"of the hundredth of rows accepted with the exact sum at k = {ks} {said}"
    several_dims = len({dim for dim, k in shares if k in by_tokens}) > 1
    alike = several_dims and all(max(several) - min(several) < _ALIKE for several in by_tokens.values())
    rare = f"{listed([_few(agreeing[k]) for k in agreeing])} of rows"
    return (
        f"accepted certificates turn false long before k is near d{', at every d alike,' if alike else ''} as "
        f"agreement grows rare: at k = {ks}, {rare} agree, and of those accepted with the exact sum {said}"
    )


def _accepted_false(points: Mapping[Point, Sequence[Row]], which: str) -> dict[Point, float]:
    return {
        point: share
        for point, members in points.items()
        if (share := mean_of(members, judged(which, "accepted_false"))) is not None
    }


def _agreeing(points: Mapping[Point, Sequence[Row]]) -> dict[int, float]:
    """The share of rows that truly agree, by k, the mean over all d."""
    every: dict[int, list[float]] = {k: [] for k in _FEW}
    for (_, k), members in points.items():
        share = mean_of(members, lambda row: row["exact"].get("agreeing"))
        if k in every and share is not None:
            every[k].append(share)
    return {k: float(np.mean(shares)) for k, shares in every.items() if shares}


def _few(share: float) -> str:
    return f"{100 * share:.2g}%"


def _found_crude(rows: Sequence[Row]) -> str:
    """The sum that the learner has at first: how much of what it accepts is false, by d."""
    shares = _accepted_false(points_of(rows, "certificates"), "crude")
    told = []
    for k in _FEW:
        own = {dim: share for (dim, one), share in sorted(shares.items()) if one == k}
        if len(own) > 1:
            told.append(f"{listed([f'{share:.0%}' for share in own.values()])} at k = {k}")
            dims = list(own)
    if not told:
        return ""
    return (
        f"with phase 1's own sum, all that the learner has at first, the false share of accepted rows is "
        f"{', '.join(told)} (d = {listed(list(map(str, dims)))})"
    )


def _told_apart(points: Mapping[Point, Sequence[Row]]) -> bool:
    """Whether residuals tell agreement from disagreement with more tokens no worse than with two."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for (_, k), members in points.items():
        if (rate := mean_of(members, judged("exact", "false_rate"))) is not None:
            rates[k == 2].append(rate)
    return bool(rates[True] and rates[False]) and max(rates[False]) <= max(rates[True])


def _found_usable(rows: Sequence[Row]) -> str:
    usable = {
        point: mean_of(members, judged("exact", "usable"))
        for point, members in points_of(rows, "certificates").items()
    }
    some = [k for (_, k), share in usable.items() if share]
    gone = [k for (_, k), share in usable.items() if share == 0 and k > max(some, default=0)]
    if not gone:
        return ""
    left = f"the least k measured beyond {max(some)}" if some else "the least k measured"
    return f"no row is usable at k = {min(gone)}, {left}, or above"


def _found_law(rows: Sequence[Row]) -> str:
    worst = [
        abs((mean_of(members, lambda row: row["left"]) or 0.0) / members[0]["left_predicted"] - 1)
        for members in points_of(rows, "certificates").values()
    ]
    return f"the squared residual of disagreement is within {max(worst):.1%} of 1 - (k-1)/d" if worst else ""


def _found_fair(rows: Sequence[Row]) -> str:
    points = points_of(rows, "certificates")
    parts = []
    for dim in sorted({dim for dim, _ in points}):
        rates = {
            k: rate
            for (d, k), members in points.items()
            if d == dim and (rate := mean_of(members, judged("crude", "false_rate"))) is not None
        }
        if rates and dim in (min(points)[0], max(points)[0]):
            least = min(rates, key=lambda k: rates[k])
            parts.append(
                f"{rates[max(rates)]:.2g} at k = {max(rates)} of d = {dim} (least {rates[least]:.2g} at k = {least})"
            )
    exact = {
        point: rate
        for point, members in points.items()
        if (rate := mean_of(members, judged("exact", "false_rate"))) is not None
    }
    if not parts or not exact:
        return ""
    worst = max(exact, key=lambda point: exact[point])
    return (
        f"at a threshold that lets nine of ten planted agreements pass, at most {exact[worst]:.2g} of disagreeing rows "
        f"pass with the exact sum, at k = {worst[1]} of d = {worst[0]}, and with phase 1's sum {' and '.join(parts)}"
    )


def _found_ends(rows: Sequence[Row]) -> str:
    points = points_of(rows, "ends")
    if not points:
        return ""
    parts = []
    for dim in sorted({dim for dim, _ in points}):
        exact = {
            k: all(row["error"] < _EXACT for row in members) for (d, k), members in points.items() if d == dim
        }
        failing = [k for k in sorted(exact) if not exact[k]]
        below = [k for k in sorted(exact) if not failing or k < failing[0]]
        if below:
            parts.append(f"up to k = {below[-1]} at d = {dim}")
    every = [row for members in points.values() for row in members]
    newton = sum(row["newton_error"] < _EXACT for row in every)
    beside = f"Newton alone in {newton} of {len(every)} runs"
    if not parts:
        return f"the six phases never end exact, {beside}"
    before = {
        point: value
        for point, members in points.items()
        if all(row["error"] < _EXACT for row in members)
        and (value := median_of(members, "before_newton")) is not None
    }
    least, most = (end(before, key=lambda point: before[point], default=None) for end in (min, max))
    fit = (
        f", but the fit before them is off by {before[least]:.2g} at k = {least[1]} of d = {least[0]} and by "
        f"{before[most]:.2g} at k = {most[1]} of d = {most[0]}"
        if least and most and least != most
        else ""
    )
    return (
        f"after Newton's iterates, which end phase 6, the six phases are exact (1e-9) {' and '.join(parts)}{fit}, "
        f"{beside}"
    )


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0%}", f"{max(values):.0%}"
    return low if low == high else f"{low[:-1]}-{high}"


def tokens_table(rows: Sequence[Row]) -> Table:
    certificates, ends = points_of(rows, "certificates"), points_of(rows, "ends")
    shown = sorted(set(certificates) | set(ends))
    kept = [
        point for point in shown if len(shown) <= 25 or point in ends or point[1] in (2, 4, 8, point[0] - 1)
    ]
    others = sorted({(row["dim"], row["tokens"]) for row in rows if row.get("refused")} - set(kept))
    header = (
        "d",
        "k",
        "agree",
        "usable",
        "accepted rows that are false",
        "their log-ratios off by",
        "false rate, exact sum",
        "false rate, phase 1's",
        "six phases before Newton's iterates",
        "after them",
        "Newton alone",
    )
    body = [
        (str(d), str(k), *_judgements(certificates.get((d, k), [])), *_end_words(ends.get((d, k), [])))
        for d, k in kept
    ]
    body += [(str(d), str(k), "refused", *([""] * (len(header) - 3))) for d, k in others]
    return Table(header, tuple(sorted(body, key=lambda row: (int(row[0]), int(row[1])))))


def _judgements(members: Sequence[Row]) -> tuple[str, ...]:
    if not members:
        return ("",) * 6
    logits = mean_of(members, judged("exact", "log_ratio_error"))
    return (
        _percent(mean_of(members, lambda row: row["exact"].get("agreeing"))),
        _percent(mean_of(members, judged("exact", "usable"))),
        _percent(mean_of(members, judged("exact", "accepted_false"))),
        "-" if logits is None else f"{logits:.2g}",
        *(_with_interval([row[which]["false_rate"] for row in members]) for which in SUMS),
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2g}"


def _with_interval(values: Sequence[float | None]) -> str:
    given = [value for value in values if value is not None]
    if not given:
        return "-"
    if len(given) < 2:
        return f"{given[0]:.2g}"
    interval = mean_interval(given, confidence=0.95)
    return f"{interval.estimate:.2g} ± {interval.high - interval.estimate:.1g}"


def _end_words(members: Sequence[Row]) -> tuple[str, str, str]:
    if not members:
        return "", "", ""
    if refused(members):
        return "refused", "refused", f"{median_of(members, 'newton_error'):.1g}"
    before = median_of(members, "before_newton")
    return (
        "-" if before is None else f"{before:.2g}",
        f"{median_of(members, 'error'):.2g}",
        f"{median_of(members, 'newton_error'):.1g}",
    )
