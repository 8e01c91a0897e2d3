"""What the study of the path from a nice layer to a parity found, in words."""

from collections.abc import Mapping, Sequence

from arena._phrases import sentence
from arena.studies._path_rows import (
    LEARNED,
    Place,
    by_place,
    draws_learned,
    low_rank_end,
    main_family,
    median_error,
    mostly_learned,
    moved_apart,
    newton_at,
    path_of,
    reach,
    shown_error,
    steep_end,
)
from arena.studies._path_to_parity import STEEPEST
from arena.studies.study import Row
from upper.floor import counting_floor

__all__ = ["TITLES", "bits_in_words", "found_in_words"]

TITLES = {
    "newton": "Newton",
    "six-phase": "Six-phase",
    "l-bfgs": "L-BFGS",
    "adam": "Adam (8 heads)",
    "linear": "Linear",
    "elimination": "Elimination",
}
_EXACT = 1e-6
_SIGMA, _STOPS = 2.0, 16.0  # of the nice end, and expected to stop Newton
_OTHER_THRESHOLDS = (0.25, 0.35)


def found_in_words(rows: Sequence[Row]) -> str:
    places, family = by_place(rows), main_family(rows)
    paths = {name: path for name in TITLES if (path := path_of(places, name, family, slope=0.0))}
    told = [_answer(places, family)]
    if paths:
        reached = [f"{TITLES[name]} {reach(path)}" for name, path in paths.items()]
        told.append(
            f"with d = {family[0]}, {bits_in_words(family[1])} and the parity's own slopes these come below "
            f"{LEARNED:g} in the secret's part in half of the draws or more: {', '.join(reached)}"
        )
        told.append(_other_thresholds(paths))
    if newton := paths.get("newton"):
        exact = {place.shape: [error < _EXACT for error in found] for place, found in sorted(newton.items())}
        some = [f"{sum(exact[t])} of {len(exact[t])} at t = {t:g}" for t in sorted(exact) if any(exact[t])]
        told.append(f"Newton learns all of it exactly in {', '.join(some) or 'no draw'}")
    told += [_steep(places, family), _budget(rows, places, family), _other_sizes(places, family)]
    steep = STEEPEST ** max((place.slope for place in places), default=0.0)
    ingredients = (
        ("the parity's attention with random projections in", moved_apart(places, family, 1.0, 0.0)),
        ("random attention with the parity's projections in", moved_apart(places, family, 0.0, 1.0)),
        ("both together in", moved_apart(places, family, 1.0, 1.0)),
        ("a nice layer of the parity's ranks in", low_rank_end(places, family)),
        (f"a nice layer at {steep:.2g} times the slopes in", steep_end(places, family)),
    )
    if alone := [f"{words} {draws_learned(errors)}" for words, errors in ingredients if errors]:
        against = steep_end(places, family) or []
        contrary = bool(against) and mostly_learned(against) and _SIGMA * steep >= _STOPS
        told.append(
            f"of the ingredients Newton learns {', '.join(alone)}"
            + (
                f"{_at_floors(rows)}, though slopes of sigma {_SIGMA * steep:g} were expected to stop it"
                if contrary
                else ""
            )
        )
    told.append(_nearly(places, family))
    text = "; ".join(one for one in told if one) or "no learner was run along the path"
    return sentence(text)


def _answer(places: Mapping[Place, list[float]], family: tuple[int, int]) -> str:
    """Where learners stop, and what does not stop Newton."""
    layers = [
        (place, errors)
        for place, errors in places.items()
        if place.learner != "elimination" and (place.dim, place.bits) == family and place.on_path
    ]
    told = []
    if ends := [error for place, errors in layers if place.shape == 1 for error in errors]:
        learned = sum(error < LEARNED for error in ends)
        hidden = bits_in_words(family[1], "hidden ")
        some_do = f"with {hidden} learners of layers learn the parity in {learned} of {len(ends)} runs"
        least, place = min((median_error(errors), place) for place, errors in layers if place.shape == 1)
        slopes = f" at {STEEPEST**place.slope:.2g} times the slopes" if place.slope else ""
        none_does = (
            f"no learner of layers comes below {LEARNED:g} on the parity of {family[1]} bits "
            f"(least {shown_error(least)}, {TITLES[place.learner]}{slopes})"
        )
        told.append(some_do if learned else none_does)
    own = [(place, errors) for place, errors in layers if place.slope == 0]
    whole = [place.shape for place, errors in own if all(error < _EXACT for error in errors)]
    some = [place.shape for place, errors in own if any(error < _EXACT for error in errors)]
    beyond = [place.shape for place, _ in own if some and place.shape > max(some)]
    if whole and beyond:
        told.append(f"exact recovery ends between t = {max(whole):g} and {min(beyond):g}")
    kinds = {
        "steep slopes": steep_end(places, family),
        "the parity's ranks": low_rank_end(places, family),
        "its projections": moved_apart(places, family, 0.0, 1.0),
        "its attention": moved_apart(places, family, 1.0, 0.0),
    }
    known = {words: mostly_learned(errors) for words, errors in kinds.items() if errors}
    harmless = [words for words, fine in known.items() if fine]
    if stopping := [words for words, fine in known.items() if not fine]:
        told.append(f"Newton is stopped by {' and by '.join(stopping)} alone")
    elif len(harmless) > 1:
        both = list(known)[-2:] == list(kinds)[-2:] and moved_apart(places, family, 1.0, 1.0)
        told.append(
            f"neither {', '.join(harmless[:-1])} nor {harmless[-1]} alone stops Newton"
            + (", the last two together do" if both and not mostly_learned(both) else "")
        )
    return ", ".join([*told[:-1], f"and {told[-1]}"] if told[1:] else told)


def _other_thresholds(paths: Mapping[str, Mapping[Place, list[float]]]) -> str:
    """What the threshold decides: it was chosen."""
    told = []
    for threshold in _OTHER_THRESHOLDS:
        moved = [
            f"{title} {now}"
            for name, title in TITLES.items()
            if name in paths and (now := reach(paths[name], below=threshold)) != reach(paths[name])
        ]
        told.append(f"below {threshold:g} instead it is {', '.join(moved) or 'the same for all'}")
    return f"how far they reach depends on that threshold: {', '.join(told)}"


def _steep(places: Mapping[Place, list[float]], family: tuple[int, int]) -> str:
    """What is learned at the steepest slopes, at every share: it need not fall from one to the next."""
    slope = max((place.slope for place in places), default=0.0)
    paths = {name: path_of(places, name, family, slope=slope) for name in TITLES if name != "elimination"}
    shapes = sorted({place.shape for path in paths.values() for place in path if place.shape < 1})
    if not slope or not shapes:
        return ""
    told = []
    for name, path in paths.items():
        at = {place.shape: errors for place, errors in path.items()}
        counts = [str(sum(error < LEARNED for error in at[t])) if t in at else "-" for t in shapes]
        draws = {len(at[t]) for t in shapes if t in at}
        if draws:
            told.append(
                f"{TITLES[name]} "
                + (f"{', '.join(counts)} of {max(draws)}" if {*counts} - {"0", "-"} else "none")
            )
    where = f"at {STEEPEST**slope:.2g} times the slopes and t = {', '.join(f'{t:g}' for t in shapes)}"
    return f"draws learned {where}: {', '.join(told)}"


def _budget(rows: Sequence[Row], places: Mapping[Place, list[float]], family: tuple[int, int]) -> str:
    """The six phases have few examples, which shows where a nice layer is not learned exactly."""
    here = [row for row in rows if row["learner"] == "six-phase" and "examples" in row]
    slope = max((place.slope for place in places), default=0.0)
    steep = places.get(Place("six-phase", *family, "generic", slope, 0.0, 0.0))
    if not here or not slope or steep is None or median_error(steep) < _EXACT:
        return ""
    most = max(row["examples"] for row in here)
    return (
        f"the six phases leave {shown_error(median_error(steep))} of a nice layer at {STEEPEST**slope:.2g} times the "
        f"slopes, from at most {most:,} examples, so that where they stop is their budget's doing, too"
    )


def _at_floors(rows: Sequence[Row]) -> str:
    """How many counting floors of examples Newton has at most."""
    floors = [
        row["examples"] / counting_floor(heads=2, tokens=2, dim=row["dim"])
        for row in rows
        if row["learner"] == "newton" and row["bits"] in (2, 3) and "examples" in row
    ]
    return f" with {max(floors):.0f} counting floors of examples" if floors else ""


def _other_sizes(places: Mapping[Place, list[float]], family: tuple[int, int]) -> str:
    """Whether Newton learns parities of other sizes."""
    ends = {
        (place.bits, place.dim): errors
        for place, errors in places.items()
        if place.learner == "newton" and place.on_path and place.shape == 1 and place.slope == 0
    }
    counts = [
        f"{bits_in_words(size[0])} at d = {size[1]} in {draws_learned(errors)}"
        for size, errors in sorted(ends.items())
        if size != family[::-1]
    ]
    return f"Newton learns the parity of {', '.join(counts)}" if counts else ""


def _nearly(places: Mapping[Place, list[float]], family: tuple[int, int]) -> str:
    """One of the two ingredients entirely the parity's, the other on its way there."""
    told = []
    for words, other, attention in (
        ("with the parity's own projections and attention at", "a", False),
        ("with its own attention and projections at", "b", True),
    ):
        here = {}
        for place, errors in places.items():
            whole, part = (place.shape, place.projections) if attention else (place.projections, place.shape)
            if whole == 1 and 0 < part < 1 and place == newton_at(family, place.shape, place.projections):
                here[part] = errors
        if here:
            told.append(
                f"{words} {', '.join(f'{other} = {part:g} {draws_learned(here[part])}' for part in sorted(here))}"
            )
    return f"Newton learns {', and '.join(told)}" if told else ""


def bits_in_words(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'bit' if number == 1 else 'bits'}"
