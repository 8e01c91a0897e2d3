"""One colour, marker and line for each learner, in every figure."""

from collections.abc import Sequence
from typing import Any

from runs.figures import learner_look

__all__ = ["look_of", "look_places"]

_ORDER = (
    *(
        "newton",
        "adam",
        "six-phase",
        "six-phase-paper",
        "linear",
        "known-part",
        "elimination",
        "linearisation",
    ),
    *("lattice", "tuned-adam", "sgd", "l-bfgs", "frozen-attention", "one-step", "linear-attention"),
)


def look_places(names: Sequence[str]) -> dict[str, int]:
    """The place of each learner among the looks: always the same for those of this toolkit, the next for others."""
    others = [name for name in dict.fromkeys(names) if name not in _ORDER]
    return {
        name: _ORDER.index(name) if name in _ORDER else len(_ORDER) + others.index(name) for name in names
    }


def look_of(name: str) -> dict[str, Any]:
    """Colour, marker and line of a learner of this toolkit."""
    return learner_look(look_places([name])[name])
