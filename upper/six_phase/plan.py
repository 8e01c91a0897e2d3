"""How many examples each phase may draw: its own wish, or its share of what a budget leaves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Plan", "Wish"]


@dataclass(frozen=True)
class Wish:
    """What a phase would draw, and the least with which it can begin."""

    wanted: int
    least: int


@dataclass(frozen=True)
class Plan:
    """Who wants what, in the order of the phases, and the budget.

    Attributes
    ----------
    wishes : mapping of str to Wish
        The phases in their order.
    budget : int or None
        Examples in all; None without end.
    use_all : bool
        Whether the last phase takes all that is left.
    """

    wishes: Mapping[str, Wish]
    budget: int | None
    use_all: bool = False

    @property
    def limited(self) -> bool:
        """Whether the budget holds any phase below what it wants."""
        return self.budget is not None and self.budget < self.wanted

    @property
    def wanted(self) -> int:
        """What all phases would draw."""
        return sum(wish.wanted for wish in self.wishes.values())

    def share(self, name: str, drawn: int = 0) -> int:
        """What the phase `name` may draw when all before it have drawn `drawn` examples.

        Notes
        -----
        Everything it wants if the rest of the budget is enough for all that are left. Otherwise each gets the least
        with which it can begin, and of what remains a share in proportion to the square root of what more it wants: in
        proportion to the wishes themselves the cheap phases, whose errors all later ones inherit, would starve.

        Examples
        --------
        >>> plan = Plan({"one": Wish(100, 10), "two": Wish(400, 0)}, 200)
        >>> plan.share("one"), plan.share("two", 70)
        (71, 130)
        """
        names = list(self.wishes)
        left = [self.wishes[one] for one in names[names.index(name) :]]
        own = left[0]
        if self.budget is None:
            return own.wanted
        rest = self.budget - drawn
        if rest >= sum(wish.wanted for wish in left):
            return rest if self.use_all and len(left) == 1 else own.wanted
        spare = rest - sum(wish.least for wish in left)
        weights = [math.sqrt(max(wish.wanted - wish.least, 0)) for wish in left]
        if spare <= 0 or not weights[0]:
            return max(0, min(own.least, rest))
        return min(own.wanted, own.least + int(spare * weights[0] / sum(weights)))
