"""What the study of the conditions found, in words."""

from collections.abc import Sequence

import numpy as np

from arena._phrases import listed, sentence
from arena.studies._conditions_laws import exponents, values_of
from arena.studies.study import Row

__all__ = ["IMPORTED", "found_in_words", "passed"]

IMPORTED = ("imported, untrained", "imported, recall", "imported, masked")
"""Families that are PyTorch modules: as they are at the start, and trained on two tasks."""
_TASKS = {"imported, recall": "recall", "imported, masked": "masked symbols"}


def passed(rows: Sequence[Row]) -> tuple[int, int]:
    """Layers that meet all conditions, and all layers."""
    told = [names for row in rows for names in row["violated"]]
    return sum(not names for names in told), len(told)


def found_in_words(rows: Sequence[Row]) -> str:
    """The answer and its figures, made of whatever was measured."""
    random = [row for row in rows if row["family"] == "random"]
    fresh = [row for row in rows if row["family"] == IMPORTED[0]]
    trained = [row for row in rows if row["family"] in IMPORTED[1:]]
    made = [row for row in rows if row not in [*random, *fresh, *trained]]
    met = []
    if random:
        met.append(_found_random(random))
    if fresh:
        met.append(f"imported untrained ones in {_by_dim(fresh)}")
    if trained:
        met.append("imported trained ones in {} of {}".format(*passed(trained)))
    told = [", ".join(met)] if met else []
    told += [_found_training(fresh, trained)] if fresh and trained else []
    told += [_found_trained(name, [row for row in trained if row["family"] == name]) for name in IMPORTED[1:]]
    if made:
        told.append(
            "structured ones meet them in {} of {}, each kind being made to violate one at least".format(
                *passed(made)
            )
        )
    if slopes := exponents(rows):
        words = [f"{name} d^{one.estimate:.2f} ({law:.2f})" for name, (one, law) in slopes.items()]
        told.append(f"random layers' exponents, in brackets those derived: {', '.join(words)}")
    return sentence("; ".join(one for one in told if one))


def _found_random(random: Sequence[Row]) -> str:
    counts = {row["dim"]: passed([row]) for row in random}
    dims = sorted(counts)
    shares = [counts[dim][0] / counts[dim][1] for dim in dims]
    rising = shares == sorted(shares) and shares[-1] > shares[0]
    # from which d on every layer meets them
    sure = next(
        (dim for dim in dims if all(counts[one][0] == counts[one][1] for one in dims if one >= dim)), None
    )
    words = ["{} of {} at d = {}".format(*counts[dim], dim) for dim in dims if sure is None or dim < sure]
    if sure is not None:
        words.append(f"all {sum(counts[dim][1] for dim in dims if dim >= sure)} at d {_from(sure, dims)}")
    return f"random heads meet all conditions {'more surely as d grows' if rising else 'in'} ({', '.join(words)})"


def _from(dim: int, dims: Sequence[int]) -> str:
    return f"= {dim}" if dim == dims[-1] else f">= {dim}"


def _by_dim(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: row["dim"])
    counts = ["{} of {}".format(*passed([row])) for row in ordered]
    return f"{listed(counts)} at d = {listed([str(row['dim']) for row in ordered])}"


def _found_training(fresh: Sequence[Row], trained: Sequence[Row]) -> str:
    """How many of the trained layers tell of training: those of a d where untrained ones meet the conditions."""
    telling = [row["dim"] for row in fresh if passed([row])[0]]
    failing = [row for row in fresh if row["dim"] not in telling]
    if not failing:
        return ""
    names = sorted({name for row in failing for several in row["violated"] for name in several})
    layers = [row for row in trained if row["dim"] in telling]
    tell = (
        f"at d = {listed(list(map(str, telling)))} only, in {passed(layers)[1]} layers"
        if layers
        else "nowhere"
    )
    said = (
        f"that trained ones fail tells of training {tell}, as at d = {listed([str(row['dim']) for row in failing])} "
        f"untrained ones fail too, by {listed(names)} alone (heads of dimension d/4)"
    )
    always = [
        name
        for name in trained[0]["threshold"]
        if all(name in several for row in trained for several in row["violated"])
        and not any(name in several for row in fresh for several in row["violated"])
    ]
    if always:
        said += (
            f", but {listed(always)} fails in all {passed(trained)[1]} trained ones and in none of the "
            f"{passed(fresh)[1]} untrained"
        )
    return said.replace("_", " ")


def _found_trained(name: str, rows: Sequence[Row]) -> str:
    """Whether the trained ones come nearer to the thresholds with d."""
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda row: row["dim"])
    overlap, rank = (
        [float(np.median(values_of(row, measure))) for row in ordered]
        for measure in ("theta_incoherence", "theta_stable_rank")
    )
    nearer = (
        len(ordered) > 1
        and overlap == sorted(overlap, reverse=True)
        and rank == sorted(rank)
        and rank[-1] > rank[0]
    )
    least, most = (
        _span([row["threshold"][measure] for row in ordered], digits)
        for measure, digits in (("theta_stable_rank", 1), ("theta_incoherence", 2))
    )
    return (
        f"those trained on {_TASKS[name]} {'come' if nearer else 'do not come'} nearer to the thresholds as d grows: "
        f"at d = {listed([str(row['dim']) for row in ordered])} median incoherence is "
        f"{listed([f'{one:.2f}' for one in overlap])} (at most {most} is good) and median stable rank "
        f"{listed([f'{one:.1f}' for one in rank])} (at least {least})"
    )


def _span(values: Sequence[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"
