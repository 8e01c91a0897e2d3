"""Why an instance is hard: statements with numbers; each statement has a status, from proved to measured."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from attention.validation import checked

__all__ = ["Certificate", "Hardness", "Statement", "Status"]

Status = Literal["proved", "derived", "measured"]
Value = bool | int | float | str


class Hardness(StrEnum):
    """How hard instances of a family are, as far as is known: the value of the statement "verdict".

    PROVED: a learner provably needs more correlational queries of tolerance 0.1 than a token has coordinates, and no
    other statistical queries are known that find the secret. This says nothing about other algorithms.
    ASSUMED: hardness rests on the assumption that the certificate names, and no measurement contradicts it.
    NEITHER: a measurement contradicts hardness, or statistical queries are known that find the secret.
    """

    PROVED = "proved"
    ASSUMED = "assumed"
    NEITHER = "looks easy"

    @property
    def label(self) -> str:
        """The words before the title of a target."""
        return _LABELS[self][0]

    @property
    def meaning(self) -> str:
        """The meaning of the label, in a few words."""
        return _LABELS[self][1]


_LABELS = {
    Hardness.PROVED: (
        "HARD (proved for SQ)",
        "correlational queries must be many, other learners may be fast",
    ),
    Hardness.ASSUMED: ("HARD (assumed)", "by the assumption that the certificate names"),
    Hardness.NEITHER: ("EASY?", "neither proved nor assumed to be hard"),
}


@dataclass(frozen=True)
@checked
class Statement:
    """One fact about an instance."""

    name: str  #: what the number is, in a few words
    value: Value  #: the number; integers of any size are exact
    meaning: str  #: the sentence a reader should take away
    #: ``proved``: a theorem; `source` has the proof. ``derived``: derived in this project and checked by enumeration
    #: of small cases. ``measured``: only seen in experiments.
    status: Status
    source: str  #: where the proof, the derivation or the measurement is

    def __post_init__(self) -> None:
        if not (self.name and self.meaning and self.source):
            raise ValueError(
                f"The statement {self.name!r} has an empty text: name, meaning and source are needed."
            )
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise ValueError(f"The value of {self.name!r} is {self.value}: a finite number is needed.")

    @classmethod
    def derived(
        cls,
        name: str,
        value: Value,
        meaning: str,
        source: str = "Derived here",
        *,
        status: Status = "derived",
    ) -> "Statement":
        """A statement derived in this project, unless `status` says otherwise."""
        return cls(name, value, meaning, status, source)

    def __str__(self) -> str:
        value = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        return f"{self.name}: {value} ({self.status}). {self.meaning} [{self.source}]"


@dataclass(frozen=True)
@checked
class Certificate:
    """The statements that say why instances of a family are hard, and for whom they are not.

    Examples
    --------
    >>> sides = Statement("sides", 2, "A coin has two.", "proved", "Derived here")
    >>> certificate = Certificate("coins", (sides,))
    >>> print(certificate)
    Certificate of the family coins
      sides: 2 (proved). A coin has two. [Derived here]
    >>> certificate["sides"].value
    2
    """

    family: str  #: the family's name
    statements: tuple[Statement, ...]  #: the facts, names distinct

    def __post_init__(self) -> None:
        if not self.family:
            raise ValueError("The family of a certificate is empty: a name is needed.")
        names = [one.name for one in self.statements]
        if len(set(names)) != len(names):
            raise ValueError("Two statements of the certificate have one name: names must be distinct.")

    @property
    def hardness(self) -> Hardness:
        """The value of the statement "verdict"; NEITHER if there is no such statement."""
        said = {one.name: one.value for one in self}.get("verdict")
        return next((one for one in Hardness if one.value == said), Hardness.NEITHER)

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def __getitem__(self, name: str) -> Statement:
        for one in self.statements:
            if isinstance(name, str) and one.name == name:
                return one
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join(
            [f"Certificate of the family {self.family}", *(f"  {one}" for one in self.statements)]
        )

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values; `from_json` gives it back."""
        return {"family": self.family, "statements": [asdict(one) for one in self.statements]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Certificate":
        """The certificate that `to_json` wrote.

        ValueError if a field is missing, unknown or of the wrong type.
        """
        try:
            return cls(**{**data, "statements": tuple(Statement(**one) for one in data["statements"])})
        except (TypeError, KeyError) as error:
            raise ValueError(
                f"A certificate needs a family and statements, and nothing else: {error}."
            ) from None
