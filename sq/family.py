"""The base of all families that are hard for statistical queries: numbered secrets, certificate and error bound."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import ExampleOracle
from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import PositiveInt, checked, real_array
from lower import (
    FAMILIES,
    Fact,
    Family,
    HardInstance,
    Heads,
    Key,
    KnownComponent,
    Option,
    SecretPairs,
    Status,
    Word,
    query_lower_bound,
)
from lower.low_degree import FlipRate, flip_factor
from sq.labels import flipped_examples
from sq.secret_set import SecretSet

Dim = Annotated[PositiveInt, Option("Number d of coordinates of a token.", preset=48)]
Noise = Annotated[
    FlipRate,
    Option(
        "Rate, below 1/2, at which the hidden part of a label has its sign flipped.",
        preset=0.0,
        omitted=True,
    ),
]

_MOST_BITS = 2048  # the errors of more heads would take hours
_TOLERANCES = (0.3, 0.1, 0.05)
_HERE = "derived here; checked by enumeration at small d"


class TargetFamily(Family):
    """Targets F_S = K + scale f_S w^T, one for each numbered secret S: a known part K and a hidden part f_S of norm 1.

    All code that asks, counts or bounds queries uses only these members of a family and its `inputs`. The hidden parts
    map token matrices X to one number per row, with E sum_a f_S(X)_a^2 = 1 over the inputs; w is a unit vector.
    """

    noise: float = 0.0  #: the rate eta at which the hidden part of a label has its sign flipped

    @property
    @abstractmethod
    def secrets(self) -> SecretSet:
        """The secrets S and their numbers."""

    @property
    @abstractmethod
    def orthonormal(self) -> bool:
        """Whether the hidden parts are known to be pairwise orthogonal."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The norm of the hidden part within the layer; f_S is divided by it."""

    @property
    @abstractmethod
    def largest_eigenvalue(self) -> Fraction | None:
        """The largest eigenvalue of the hidden parts' Gram matrix, or a bound; None where it would take hours."""

    @abstractmethod
    def hidden(self, number: int, x: Float[np.ndarray, "n k d"]) -> Float[np.ndarray, "n k"]:
        """f_S on token matrices, by its definition and not by attention heads."""

    @abstractmethod
    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S(X)_a f_T(X)_a for every T, in closed form."""

    def public(self, direction: Float[np.ndarray, " d"]) -> dict[str, Any]:
        """The direction w and the scale."""
        return {"direction": direction.tolist(), "scale": self.scale}


@dataclass(frozen=True, kw_only=True)
@checked
class SQFamily(TargetFamily):
    """Targets on Boolean tokens. Subclasses define the heads, the hidden part at each value of the heads' form, and f_S
    itself. The certificate, the known part, the error bound and the query bounds follow from these.
    """

    #: whether all rows of an example show the same hidden sign, up to known signs: then a flip changes all of them
    rows_agree: ClassVar[bool] = False

    if TYPE_CHECKING:

        @property
        def heads(self) -> Heads:
            """The heads, the same for every secret but for the coordinates that they read."""

    @property
    @abstractmethod
    def values(self) -> Mapping[int, float]:
        """The hidden part at every value that the heads' form takes."""

    @property
    @abstractmethod
    def lowest_degree(self) -> int:
        """The lowest degree in the entries of X of the hidden part."""

    @property
    @abstractmethod
    def secret_pairs(self) -> SecretPairs:
        """What low-degree tests see of the family: the correlations of two random secrets, degree by degree.

        A sample is an input, the number r of a row drawn at random, and a sign with the mean f_S(X)_r / max |f|.
        """

    @property
    @abstractmethod
    def broken_by(self) -> tuple[Word, ...]:
        """Which methods find the secret."""

    def tokens_of(self, x: object) -> Float[np.ndarray, "n k d"]:
        """Token matrices as an array of their shape."""
        return real_array("x", x, ("n", self.tokens, self.dim))

    def correlations(self, number: int) -> Float[np.ndarray, " N"]:
        """E sum_a f_S(X)_a f_T(X)_a for every T, in closed form; O(N l)."""
        return self.secrets.indicator(number)

    @property
    def orthonormal(self) -> bool:
        """Whether the hidden parts are known to be pairwise orthogonal."""
        return True

    @property
    def largest_eigenvalue(self) -> Fraction | None:
        """The largest eigenvalue of the hidden parts' Gram matrix; None where it would take hours."""
        return Fraction(1)

    @property
    def noisy(self) -> bool:
        """Whether labels are flipped."""
        return self.noise > 0

    def examples(self, instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
        """Random examples of an instance; the hidden part of a label is flipped at the rate `noise`."""
        return flipped_examples(instance, self.noise, rows_agree=self.rows_agree, rng=rng)

    @property
    def c(self) -> float:
        """C, the sum of the heads' coefficients: it appears off the gate."""
        return self.heads.c

    @property
    def c0(self) -> float:
        """The constant part of the heads' sum on the gate, known in advance."""
        return 0.0

    @property
    def scale(self) -> float:
        """The norm of the hidden part within the layer; f_S is divided by it."""
        return 1.0

    @property
    def known_energy(self) -> Fraction:
        """The mean of |K|^2 over all rows."""
        return Fraction(self.c) ** 2 + Fraction(self.c0) ** 2

    @property
    def shift(self) -> float:
        """The most by which other tokens may move a head, in units of half a logit."""
        return 0.0

    @property
    def title(self) -> str:
        """A title for people."""
        return self.titled(len(self.heads))

    def titled(self, heads: int) -> str:
        """The title of an instance of so many heads."""
        words = {"heads": plural(heads, "head"), "tokens": plural(self.tokens, "token")}
        words["bits"] = plural(getattr(self, "bits", 0), "bit")
        flipped = f", labels flipped at {self.noise:g}" if self.noise else ""
        return self.called.format(**{**self.arguments(), **vars(self), **words}) + flipped

    def draw(self, rng: Rng = None) -> Int[np.ndarray, " entries"]:
        """A secret drawn at random."""
        return self.secrets.unrank(self.secrets.draw(rng))

    def numbered(self, number: int) -> Int[np.ndarray, " entries"]:
        """The secret of that number."""
        return self.secrets.unrank(number)

    def read_secret(self, given: ArrayLike) -> Int[np.ndarray, " entries"]:
        """A secret in the order that files use."""
        return self.secrets.unrank(self.secrets.rank(given))

    def heads_of(self, secret: Int[np.ndarray, " entries"], direction: Float[np.ndarray, " d"]) -> Heads:
        """The heads that hide a secret."""
        return self.heads.placed(secret, dim=self.dim, direction=direction)

    def known(self, direction: Float[np.ndarray, " d"]) -> KnownComponent:
        """K = C a_0 [1; 1] w^T + c0 u_0 [1; -1] w^T with u = (x_1 - x_2)/2 and a = (x_1 + x_2)/2."""
        return KnownComponent.from_gate(self.c, self.c0, gate=0, direction=direction)

    def error(self) -> float:
        """The supremum of |layer - (K + scale f w^T)| along a direction of norm 1, rounded outward."""
        return self._error

    def error_of(self, heads: Heads, secret: Int[np.ndarray, " entries"]) -> float:
        """The same supremum along the heads' direction, with the rounding of stored products."""
        return heads.along(self._error)

    @cached_property
    def _error(self) -> float:
        w = np.zeros(self.dim)
        w[0] = 1.0
        c0, scale = Fraction(self.c0), Fraction(self.scale)
        ideal = {n: c0 + scale * Fraction(one) for n, one in self.values.items()}
        heads = self.heads_of(self.secrets.unrank(0), w)
        return heads.error(ideal, c=self.c, shift=self.shift)

    def facts(self, heads: Heads, secret: Int[np.ndarray, " entries"], error: float) -> Sequence[Fact]:
        """The facts about every instance, whatever its secret."""
        unknown, known = Fraction(self.scale) ** 2, self.known_energy
        facts = [
            Fact(Key.TARGETS, self.secrets.size, Status.PROVED, "by counting"),
            Fact(
                Key.LARGEST_CORRELATION,
                self.largest_correlation,
                Status.PROVED if self.orthonormal else Status.DERIVED,
                _HERE,
            ),
            Fact(Key.UNKNOWN_SHARE, float(unknown / (known + unknown)), Status.DERIVED, _HERE),
            Fact(Key.LOWEST_DEGREE, self.lowest_degree, Status.DERIVED, _HERE),
            *self._queries(),
            Fact(Key.REALISATION_ERROR, error, Status.PROVED, "intervals of 70 digits, lower.Heads.error"),
            *self.further_facts(),
            Fact(Key.BROKEN_BY, self.broken_by, Status.DERIVED, _HERE),
        ]
        if self.orthonormal:
            facts += [
                Fact(Key.GRAM_DIAGONAL, float(known + unknown), Status.DERIVED, _HERE),
                Fact(Key.GRAM_OFF_DIAGONAL, float(known), Status.DERIVED, _HERE),
            ]
        if self.noise:
            facts.append(Fact(Key.NOISE, float(self.noise), Status.DERIVED, _HERE))
        return facts

    def further_facts(self) -> Sequence[Fact]:
        """Further facts of a family."""
        return ()

    @property
    def largest_correlation(self) -> float:
        """The largest correlation of two targets, the known part off."""
        return 0.0

    def _queries(self) -> Sequence[Fact]:
        """The fewest queries of three tolerances, asked of the noisy labels; none where the bound would take hours."""
        if (eigenvalue := self.largest_eigenvalue) is None:
            return ()
        left = eigenvalue * flip_factor(self.noise) ** 2
        needed = {tau: query_lower_bound(self.secrets.size, tau, eigenvalue=left) for tau in _TOLERANCES}
        return [
            Fact(
                Key.QUERIES,
                many if isinstance(many, int) else Word.INFINITE,
                Status.PROVED,
                "lower.query_lower_bound, after Blum et al. 1994",
                at=tau,
            )
            for tau, many in needed.items()
        ]


@checked
def two_head_families(*, bits: PositiveInt = 8, dim: PositiveInt = 40) -> tuple[SQFamily, ...]:
    """The families that two heads realise, the hardest one first; l = `bits` (even, at least 4) where l is free.

    Notes
    -----
    These are the registered families whose `tabled` parameters two heads realise. The order is by the degree below
    which nothing of the secret is visible, the highest degree first; at equal degree orthogonal targets come first. The
    hardest is the parity of three bits: C(d - 1, 3) orthogonal targets of degree 7. Families with more targets are
    known (bump and others, of any l), but statistical queries of low degree find their secrets. It is not proved that
    no two-head family is harder.

    Examples
    --------
    >>> from sq import two_head_families
    >>> hardest = two_head_families()[0]
    >>> hardest.title, hardest.secrets.formula, hardest.secrets.size, hardest.lowest_degree
    ('Parity of 3 bits, 2 heads', 'C(d-1, 3)', 9139, 7)
    """
    if bits % 2 or bits < 4:
        raise ValueError(f"bits is {bits}: an even number of at least 4 is needed.")
    if dim <= bits:
        raise ValueError(f"dim is {dim}: more than the {bits} bits are needed.")
    made: list[Any] = []
    for family in FAMILIES.values():
        if makes(family, SQFamily):
            free = {"bits": bits} if "bits" in family.options() else {}
            made += [family.preset(**{"dim": dim, **free, **own}) for own in family.tabled]
    two = [one for one in made if len(one.heads) == 2]
    return tuple(sorted(two, key=lambda one: (-one.lowest_degree, not one.orthonormal)))


def makes(entry: Any, kind: type | tuple[type, ...]) -> bool:
    """Whether an entry of `lower.FAMILIES` makes families of a class."""
    return issubclass(entry.result, kind)


def plural(many: int, what: str) -> str:
    """Say "1 head" or "2 heads"."""
    return f"{many} {what}{'s' * (many != 1)}"


def require_realisable(bits: int) -> None:
    """Refuse more hidden bits than heads can be made for. ValueError if there are more than 2048."""
    if bits > _MOST_BITS:
        raise ValueError(
            f"bits is {shown(bits)}: at most {_MOST_BITS} are allowed, as the errors of more heads take hours."
        )
