"""How many targets of each kind every learner learned."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena.results import Results

__all__ = ["Tally", "interruption_text", "tally"]


@dataclass(frozen=True)
class Tally:
    """How a learner did on the targets of one kind."""

    learner: str  #: its title
    family: str  #: the kind, as `TargetRecord.family` names it
    targets: int  #: how many there are
    verdicts: dict[str, int]  #: how often each verdict was given, the most frequent first

    @property
    def text(self) -> str:
        """Such as "3 of 5 learned", or what stands in the way of all of them.

        Examples
        --------
        >>> Tally("Newton", "nice", 5, {"learned": 3, "partly": 2}).text, Tally("Adam", "nice", 5, {"failed": 5}).text
        ('3 of 5 learned', 'failed')
        """
        ran = [word for word in ("learned", "partly", "nothing") if word in self.verdicts]
        return (
            f"{self.verdicts.get('learned', 0)} of {self.targets} learned"
            if ran
            else next(iter(self.verdicts))
        )


def tally(results: "Results") -> list[list[Tally]]:
    """A row for each learner, with an entry for each kind of target in the order in which they are shown."""
    families: dict[str, list[str]] = {}
    for target in results.shown:
        families.setdefault(target.family, []).append(target.name)
    return [
        [
            Tally(
                learner.title,
                family,
                len(names),
                dict(Counter(results.summary(name, learner.name).verdict for name in names).most_common()),
            )
            for family, names in families.items()
        ]
        for learner in results.learners
    ]


def interruption_text(results: "Results") -> str:
    """Why a comparison was stopped before its end, and how far it came; empty when it was not."""
    why = results.made.get("interrupted")
    whole = len(results.targets) * len(results.learners) * results.seeds
    return f"Stopped before the end ({why}): {len(results.cells)} of {whole} fits are here." if why else ""
