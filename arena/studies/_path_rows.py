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
    "main_family",
    "median_error",
    "mostly_learned",
    "reach",
    "shown_error",
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


def median_error(errors: Sequence[float]) -> float:
    """The median; infinite if half of them are."""
    ordered = sorted(errors)
    middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
    return math.inf if math.inf in middle else float(np.mean(middle))


def reach(path: Mapping[Place, Sequence[float]]) -> str:
    """Where along a path half of the draws and more are learned, in words."""
    shapes = sorted(place.shape for place in path)
    learned = sorted(place.shape for place, errors in path.items() if mostly_learned(errors))
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


def mostly_learned(errors: Sequence[float]) -> bool:
    """Whether half of the draws or more are learned."""
    return 2 * sum(error < LEARNED for error in errors) >= len(errors)


def shown_error(error: float) -> str:
    """An error in few characters.

    Examples
    --------
    >>> [shown_error(error) for error in (0.0, 2e-15, 0.004, 0.04, 0.54, 1.06, 33.0, float("inf"))]
    ['0', '1e-15', '4e-3', '.04', '.54', '1.1', '>9', '>9']
    """
    if error == 0:
        return "0"
    if error < 0.0095:
        exponent = math.floor(math.log10(error))
        digit = 1 if error < 1e-5 else min(round(error / 10.0**exponent), 9)
        return f"{digit}e{exponent}"
    if error < 0.995:
        return f"{error:.2f}"[1:]
    return f"{error:.1f}" if error < 9.05 else ">9"
