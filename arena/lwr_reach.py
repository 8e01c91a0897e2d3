"""The largest size at which attacks and learners break learning with rounding: sizes grow until two stay unbroken."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from arena.attacking import attack_result, longest_seconds
from arena.attacks import ATTACKS, choose_attacks
from arena.drawing import Drawing
from arena.formats import aligned
from arena.learner_table import learner_looks
from attention.validation import NonNegativeInt, PositiveFloat, PositiveInt, Whole, checked
from lwe import AttackOutcome, AttackResult, Budget, LWEParameters, make_samples, parse_distribution
from lwe.attacks.attack import run_attack
from lwe.parameters import Matrix
from lwe.residues import Modulus
from runs import Cell, run
from runs.figures import FAINT, axes_in, canvas, dimension_axis, legend_above

__all__ = ["draw_lwr_curve", "lwr_curve", "lwr_table"]

_BROKEN_FROM = 0.95  # share of the fresh labels; some learners reach it that never predict all of them
_PATIENCE = 2
_COLUMNS = 4  # of the legend


@checked
def lwr_curve(
    attacks: Sequence[str],
    dims: Sequence[PositiveInt],
    modulus: Modulus,
    levels: Sequence[PositiveInt],
    *,
    matrix: Matrix = "binary",
    secret: str = "uniform",
    samples: Annotated[int, Whole(5)] = 20_000,
    seconds: PositiveFloat = 5.0,
    seed: NonNegativeInt = 0,
    on_point: Callable[[dict[str, Any]], Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run each attack at each p on growing n, until two sizes in a row stay unbroken.

    Parameters
    ----------
    attacks : sequence of str
        Names of `ATTACKS`, learners among them.
    dims : sequence of int
        The sizes n.
    modulus : int
        q, at most 2^52.
    levels : sequence of int
        The numbers p of levels, from 2 to q.
    matrix, secret : str
        The law of the rows of the public matrix and the law of the secret, such as "uniform" or "ternary".
    samples, seconds : int, float
        How many samples an attack gets, and its budget of seconds.
    seed : int
        Draws the secret and the samples, the same for all attacks.
    on_point : callable, optional
        Called with each row as soon as it exists.
    **options
        As for `runs.run`: jobs, store, fresh, isolated, cluster. Attacks that run at the same time share the machine,
        so each does less work in a second. With ``isolated=False`` nothing ends an attack that ignores its clock.

    Returns
    -------
    list of dict
        A row for each attack, p and n, in that order. Sizes beyond the second failure are not tried. `broken` says
        whether 95 % of the fresh labels are predicted.

    Raises
    ------
    ValueError
        If a list is empty, a name unknown, or numbers do not fit together.

    Notes
    -----
    What is broken within the seconds depends on the machine. Each size has one secret: a lucky or unlucky secret moves
    a point. A round runs the next size of each attack at each p together; it ends when all of them have ended.
    """
    for name, values in (("attacks", attacks), ("dims", dims), ("levels", levels)):
        if not values:
            raise ValueError(f"{name} is empty: at least one is needed.")
    names = [attack.name for attack in choose_attacks(",".join(attacks))]
    sizes, law = sorted(set(dims)), parse_distribution(secret)
    for size, p in itertools.product(sizes, levels):
        LWEParameters(size, modulus, p, matrix=matrix, Xs=law)  # raises its errors early
    common = {
        "modulus": modulus,
        "matrix": matrix,
        "secret": secret,
        "samples": samples,
        "seconds": seconds,
        "seed": seed,
    }
    found: dict[tuple[str, int], list[dict[str, Any]]] = {
        series: [] for series in itertools.product(names, sorted(set(levels)))
    }
    longest = longest_seconds(Budget(seconds=seconds)) if options.get("isolated", True) else None
    while cells := [
        Cell(
            _attacked,
            {"attack": name, "secret_dim": sizes[len(rows)], "levels": p, **common},
            label=f"{name} at n = {sizes[len(rows)]}, p = {p}",
        )
        for (name, p), rows in found.items()
        if len(rows) < len(sizes) and not _is_over([row["broken"] for row in rows])
    ]:
        for result in run(cells, timeout=longest, retry_failed=True, **options):
            given = result.cell.arguments
            row = _row(given, attack_result(given["attack"], result))
            found[row["attack"], row["levels"]].append(row)
            if on_point is not None:
                on_point(row)
    return [row for rows in found.values() for row in rows]


def _attacked(
    attack: str,
    secret_dim: int,
    levels: int,
    modulus: int,
    matrix: Matrix,
    secret: str,
    samples: int,
    seconds: float,
    seed: int,
) -> dict[str, Any]:
    parameters = LWEParameters(secret_dim, modulus, levels, matrix=matrix, Xs=parse_distribution(secret))
    try:
        drawn, _ = make_samples(parameters, samples, rng=[seed, secret_dim])
    except ValueError as error:  # not enough memory for this many samples
        return AttackResult(attack, AttackOutcome.FAILED, str(error)).to_json()
    stream = [seed, secret_dim, 1]
    return run_attack(
        ATTACKS[attack], drawn, parameters, rng=stream, budget=Budget(seconds=seconds)
    ).to_json()


def _row(given: Mapping[str, Any], result: AttackResult) -> dict[str, Any]:
    reached = result.accuracy is not None and result.accuracy >= _BROKEN_FROM
    return {
        **given,
        "outcome": result.outcome.name,
        "accuracy": result.accuracy,
        "took": result.seconds,
        "explanation": result.explanation,
        "broken": result.outcome.succeeded and reached,
    }


def _is_over(broken: Sequence[bool]) -> bool:
    return len(broken) >= _PATIENCE and not any(broken[-_PATIENCE:])


def lwr_table(curve: Sequence[Mapping[str, Any]]) -> str:
    """The largest n broken, a row for each attack and a column for each p, from the rows of `lwr_curve`."""
    largest = max(row["secret_dim"] for row in curve)
    levels = sorted({row["levels"] for row in curve})
    rows = [("largest n broken", *(f"p = {p}" for p in levels))]
    for name in _attacks(curve):
        series = ([row for row in curve if (row["attack"], row["levels"]) == (name, p)] for p in levels)
        rows.append((ATTACKS[name].title, *(_reach(own, largest) for own in series)))
    legend = f"Broken: {_BROKEN_FROM:.0%} of fresh labels predicted; + the largest n tried, ? interrupted."
    missing = ", ".join(_attacks([row for row in curve if row["outcome"] == "MISSING"]))
    said = [f"For want of a package, not run: {missing}."] if missing else []
    return "\n".join([aligned(rows, left=1), "", legend, *said, "A failed attack is no claim of security."])


def _attacks(curve: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["attack"] for row in curve))


def _reach(series: Sequence[Mapping[str, Any]], largest: int) -> str:
    if not series:
        return "?"
    tried, broken = max(row["secret_dim"] for row in series), [row["broken"] for row in series]
    reached = max((row["secret_dim"] for row in series if row["broken"]), default="-")
    end = "+" if reached == largest else "" if tried == largest or _is_over(broken) else "?"
    return f"{reached}{end}"


def draw_lwr_curve(curve: Sequence[Mapping[str, Any]]) -> Drawing:
    """A figure of the largest n that each attack and learner breaks, against q/p, from the rows of `lwr_curve`.

    Raises
    ------
    ValueError
        If there are no rows.

    Notes
    -----
    Attacks that break no size are named below the figure. The shaded area marks the sizes at which a table of the
    samples suffices. Marks stand side by side at each q/p, so that attacks with the same reach are all visible.
    """
    if not curve:
        raise ValueError("There is no point to draw: give sizes, levels and attacks.")
    first, tried = curve[0], sorted({row["secret_dim"] for row in curve})
    modulus = first["modulus"]
    levels = sorted({row["levels"] for row in curve}, reverse=True)
    ratios = [modulus / p for p in levels]
    reached: dict[tuple[str, int], int] = {}
    for row in curve:
        if row["broken"]:
            series = row["attack"], row["levels"]
            reached[series] = max(row["secret_dim"], reached.get(series, 0))
    breaking = [name for name in _attacks(curve) if any(attack == name for attack, _ in reached)]
    looks = learner_looks(list(ATTACKS))
    with canvas(6.2, 4.3) as figure:
        axes = axes_in(figure, (0.09, 0.235, 0.88, 0.695 - 0.045 * -(-len(breaking) // _COLUMNS)))
        aside = _aside(ratios, len(breaking))
        for name, factor in zip(breaking, aside, strict=True):
            sizes = [reached.get((name, p), math.nan) for p in levels]
            look, title = looks[name], ATTACKS[name].title
            axes.plot([factor * ratio for ratio in ratios], sizes, label=title, clip_on=False, **look)
        dimension_axis(axes, ratios)
        left, right = axes.get_xlim()
        axes.set_xlim(left * min(aside, default=1.0), right * max(aside, default=1.0))
        axes.set_yscale("log")
        low, high = tried[0] / 1.15, tried[-1] * 1.15
        axes.set_ylim(low, high)
        axes.set_yticks(tried, [str(size) for size in tried])
        axes.set_yticks([], minor=True)
        bits = {"binary": 1.0, "ternary": 1.5}.get(first["matrix"], math.log2(modulus))
        known = math.log2(first["samples"]) / bits  # up to this n there are at most as many rows as samples
        axes.axhspan(low, min(max(low, known), high), color=FAINT, alpha=0.1, linewidth=0, zorder=0)
        axes.set_xlabel("q / p", labelpad=1)
        axes.set_title("largest n broken", loc="left", fontsize=9.5, pad=4)
        legend_above(figure, columns=_COLUMNS)
        silent = ", ".join(ATTACKS[name].title for name in _attacks(curve) if name not in breaking)
        note = (
            f"q = {modulus}, {first['matrix']} public matrix, {first['secret']} secret, {first['samples']} samples, "
            f"{first['seconds']:g} s an attack, n up to {tried[-1]}.\n"
            "Shaded: a table of the samples predicts as well."
        ) + (f"\nNo size broken by {silent}." if silent else "")
        figure.text(0.015, 0.015, note, color=FAINT, fontsize=8, va="bottom", linespacing=1.3)
        return Drawing(figure, "How far attacks on learning with rounding reach")


def _aside(ratios: Sequence[float], count: int) -> list[float]:
    """The factor on q/p for each attack: the factors divide a third of the least distance among the attacks."""
    nearest = min((math.log(b / a) for a, b in itertools.pairwise(ratios)), default=0.5)
    middle = (count - 1) / 2
    return [math.exp(0.33 * nearest * (place - middle) / max(count - 1, 1)) for place in range(count)]
