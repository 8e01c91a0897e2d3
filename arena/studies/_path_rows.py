"""What the rows of the path from nice to hard amount to: errors of a point, shares learned, where a learner stops."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena.studies.study import Row

__all__ = [
    "LEARNED",
    "Place",
    "by_place",
    "draws_learned",
    "low_rank_end",
    "main_family",
    "median_error",
    "mostly_learned",
    "moved_apart",
    "newton_at",
    "path_of",
    "reach",
    "shown_error",
    "steep_end",
]

LEARNED = 0.3
"""An error on the secret's part below which it counts as learned: nine tenths of its energy."""


@dataclass(frozen=True, order=True)
class Place:
    """A learner at a point of a path, all draws together.

    Attributes
    ----------
    learner : str
        The learner.
    dim, bits : int
        The dimension and the hidden bits.
    ends : str
        What the nice end is.
    slope, shape, projections : float
        The point, s, a and b.
    """

    learner: str
    dim: int
    bits: int
    ends: str
    slope: float
    shape: float
    projections: float

    @property
    def on_path(self) -> bool:
        """Whether attention and projections are moved together."""
        return self.shape == self.projections and self.ends == "generic"


def by_place(rows: Sequence[Row]) -> dict[Place, list[float]]:
    """The errors of every place, in order; infinite where the fit left the finite numbers."""
    places: dict[Place, list[float]] = {}
    for row in rows:
        place = Place(
            row["learner"],
            row["dim"],
            row["bits"],
            row["ends"],
            row["slope"],
            row["shape"],
            row["projections"],
        )
        error = row["error"]
        places.setdefault(place, []).append(math.inf if error is None else float(error))
    return {place: places[place] for place in sorted(places)}


def main_family(rows: Sequence[Row]) -> tuple[int, int]:
    """Dimension and bits of most rows."""
    ((family, _),) = Counter((row["dim"], row["bits"]) for row in rows).most_common(1)
    return family


def path_of(
    places: Mapping[Place, list[float]], learner: str, family: tuple[int, int], *, slope: float
) -> dict[Place, list[float]]:
    """The places of a learner along a path, attention and projections moved together."""
    return {
        place: errors
        for place, errors in places.items()
        if (place.learner, place.dim, place.bits, place.slope) == (learner, *family, slope) and place.on_path
    }


def newton_at(family: tuple[int, int], attention: float, projections: float) -> Place:
    """Newton's place at two shares and the parity's own slopes."""
    return Place("newton", *family, "generic", 0.0, attention, projections)


def moved_apart(
    places: Mapping[Place, list[float]], family: tuple[int, int], attention: float, projections: float
) -> list[float] | None:
    """Newton's errors there."""
    return places.get(newton_at(family, attention, projections))


def low_rank_end(places: Mapping[Place, list[float]], family: tuple[int, int]) -> list[float] | None:
    """Newton's errors on nice layers of the parity's ranks."""
    return places.get(Place("newton", *family, "low rank", 0.0, 0.0, 0.0))


def steep_end(places: Mapping[Place, list[float]], family: tuple[int, int]) -> list[float] | None:
    """Newton's errors on nice layers at the steepest slopes, if there are steeper ones than the parity's own."""
    steep = max((place.slope for place in places), default=0.0)
    return places.get(Place("newton", *family, "generic", steep, 0.0, 0.0)) if steep else None


def median_error(errors: Sequence[float]) -> float:
    """The median; infinite if half of them are."""
    ordered = sorted(errors)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return math.inf if math.inf in middle else float(np.mean(middle))


def reach(path: Mapping[Place, Sequence[float]], *, below: float = LEARNED) -> str:
    """Where along a path half of the draws and more are learned, in words; learned: an error below a threshold."""
    shapes = sorted(place.shape for place in path)
    learned = sorted(place.shape for place, errors in path.items() if mostly_learned(errors, below=below))
    if not learned:
        return "nowhere"
    if learned == shapes:
        return "everywhere"
    if len(learned) == 1:
        return f"only at t = {learned[0]:g}"
    if learned == shapes[: len(learned)]:
        return f"up to t = {learned[-1]:g}"
    if learned == shapes[-len(learned) :]:
        return f"from t = {learned[0]:g} on"
    return "at t = " + ", ".join(f"{one:g}" for one in learned[:-1]) + f" and {learned[-1]:g}"


def mostly_learned(errors: Sequence[float], *, below: float = LEARNED) -> bool:
    """Whether half of the draws or more are learned."""
    return 2 * sum(error < below for error in errors) >= len(errors)


def draws_learned(errors: Sequence[float]) -> str:
    """How many of the draws are learned, in words."""
    return f"{sum(error < LEARNED for error in errors)} of {len(errors)} draws"


def shown_error(error: float) -> str:
    """An error in few characters.

    Examples
    --------
    >>> [shown_error(error) for error in (0.0, 2e-15, 0.004, 0.04, 0.54, 1.06, 33.0, float("inf"))]
    ['0', '2e-15', '4e-3', '.04', '.54', '1.1', '>9', '>9']
    """
    if error == 0:
        return "0"
    if error < 0.0095:
        digit, exponent = f"{error:.0e}".split("e")
        return f"{digit}e{int(exponent)}"
    if error < 0.995:
        return f"{error:.2f}"[1:]
    return f"{error:.1f}" if error < 9.05 else ">9"
