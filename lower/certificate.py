"""What is known of an instance's hardness: typed facts, each with a status and a source. Sentences are made of them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from attention.validation import checked

FORMAT = 2
"""The format of certificates in files. Format 1 had sentences in place of facts."""


class Status(StrEnum):
    """What a fact rests on."""

    PROVED = "proved"  #: a theorem; the source has the proof
    DERIVED = "derived"  #: derived in this project and checked by enumeration of small cases
    COMPUTED = "computed"  #: a number computed in floating point, within a bound that is derived here
    ESTIMATE = "estimate"  #: heuristic; never stored in files and never verified
    ASSUMED = "assumed"  #: neither proved nor refuted


class Word(StrEnum):
    """The values of facts that are no numbers."""

    # numbers that do not exist, or are left out
    INFINITE = "no number is enough"
    EVERY_DIRECTION = "every direction"
    ZERO = "exactly 0"
    NOT_COMPUTED = "not computed"
    # problems that are assumed to be hard
    LWR = "learning with rounding"
    LWE = "learning with errors"
    LPN = "learning parity with noise"
    VARIANT_OF_LWR = "a variant of learning with rounding"
    VARIANT_OF_LWE = "a variant of learning with errors"
    VARIANT_OF_LPN = "a variant of learning parity with noise"
    # what finds a secret
    ELIMINATION = "Gaussian elimination"
    GF2_ELIMINATION = "Gaussian elimination over GF(2)"
    LINEARISATION = "linearisation over GF(2)"
    SEARCH = "exhaustive search"
    BKW = "BKW"
    LATTICE = "lattice reduction (LLL), without label noise"
    ZEROS = "whether a label is 0"
    GATE = "whether a label is 0 for the gate"
    PRODUCTS = "products of differences"
    SQUARES = "squared labels"
    ONE_SECRET = "nothing: there is one secret"
    COINS = "nothing: labels are coins"
    # what a bound leaves out
    LOW_DIGITS = "the low digits of the labels"


class Key(StrEnum):
    """What a fact is about: its name, which a number completes in some."""

    TARGETS = "targets"
    LARGEST_CORRELATION = "largest correlation of two targets"
    GRAM_DIAGONAL = "Gram diagonal"
    GRAM_OFF_DIAGONAL = "Gram off the diagonal"
    UNKNOWN_SHARE = "share of the energy that is unknown"
    LOWEST_DEGREE = "lowest degree of the unknown part"
    LOWEST_WEIGHT = "weight at the lowest degree"
    SHARE_BELOW = "share below that degree"
    MEAN_SQUARE = "one query sees"
    EIGENVALUE = "largest eigenvalue of the Gram matrix"
    QUERIES = "queries at tolerance"
    BEYOND_RANGE = "probability beyond the range"
    REALISATION_ERROR = "realisation error"
    NOISE = "noise on the labels"
    NOT_COVERED = "what the bounds do not cover"
    BROKEN_BY = "who breaks it"
    BREAKING_QUERIES = "queries that break it"
    BREAKING_TOLERANCE = "tolerance at which they break it"
    ASSUMPTION = "assumption"
    SECRETS = "number of secrets"
    RHO = "rho"
    DISTANCE = "distance from uniform"
    MEAN_DISTANCE = "mean distance from uniform, at most"
    WEIGHT = "weight of degree"
    WEIGHT_BOUND = "at most: weight of degree"
    SECRET_CORRELATION = "correlation of secrets"
    HEADS = "heads"
    JUMPS = "|v|_1 p / q"
    RANGE = "range of the heads"
    TRUNCATION = "truncation"
    BEST_ACCURACY = "labels that the secret predicts"
    MONOMIALS = "monomials of the linearisation"
    OPERATIONS = "operations of an attack"


_MEANINGS: Mapping[Key, str] = {
    Key.TARGETS: "One of so many secrets is hidden.",
    Key.LARGEST_CORRELATION: "Known part off; of 0, the hidden parts are orthogonal.",
    Key.GRAM_DIAGONAL: "E|F_S|^2 over all rows.",
    Key.GRAM_OFF_DIAGONAL: "E<F_S, F_T> for S != T: all of it is the known part's.",
    Key.UNKNOWN_SHARE: "Report errors relative to this part: the rest is known in advance.",
    Key.LOWEST_DEGREE: "No polynomial of lower degree in the entries of X correlates with the hidden part, up to the "
    "share below that degree where one is stated.",
    Key.LOWEST_WEIGHT: "The share of the variance that products of so few differences of the tokens see.",
    Key.SHARE_BELOW: "No polynomial of lower degree in the tokens has a larger squared correlation with the hidden "
    "part, even one that knows the direction.",
    Key.MEAN_SQUARE: "A query of norm 1 and the hidden part have a squared correlation of at most this mean over "
    "directions.",
    Key.EIGENVALUE: "The sum of squared correlations of all targets with one query is at most this.",
    Key.QUERIES: "At least so many correlational queries of this tolerance, asked of the hidden part scaled to norm 1, "
    "identify the target: for a deterministic learner, or, of every direction, for one that comes within half of the "
    "hidden energy with probability 1/2. One scalar query counts one. Other statistical queries and other learners are "
    "not covered.",
    Key.BEYOND_RANGE: "Beyond the range of the wave the target is the sum of the heads.",
    Key.REALISATION_ERROR: "Upper bound on the row norm of the layer minus its ideal target (of truncated heads, the "
    "label held at the last value covered), in exact arithmetic; float64 adds rounding.",
    Key.NOISE: "The hidden part of a label has its sign flipped with this probability eta: a tolerance tau is worth "
    "tau/(1 - 2 eta).",
    Key.NOT_COVERED: "With exactly two-valued labels queries of STAT(tau) have a like bound. A "
    "finite slope, and rounding, leak in the low digits: round labels to 1e-9.",
    Key.BROKEN_BY: "These find the secret, or tell why there is none.",
    Key.BREAKING_QUERIES: "So many statistical queries find the secret.",
    Key.BREAKING_TOLERANCE: "These queries need a smaller tolerance than this.",
    Key.ASSUMPTION: "A learner would solve this problem; known reductions to it say more. No security is "
    "claimed, and that an attack fails is no claim of security.",
    Key.SECRETS: "As a power of 2.",
    Key.RHO: "The standard deviation of the inner product in units of q; below .5 the sum hardly wraps around.",
    Key.DISTANCE: "Total variation distance of the inner product mod q from uniform, over random covariates; computed "
    "residue by residue, for q up to 2^22 and n q up to 2^28.",
    Key.MEAN_DISTANCE: "The mean over uniform secrets of that distance is at most sqrt((q - 1) / 2^n) / 2.",
    Key.WEIGHT: "The share of the centred label that so many covariates and no fewer tell, without noise; computed for "
    "q up to 2^22, n q up to 2^28 and n^2 q up to 2^37.",
    Key.WEIGHT_BOUND: "The terms cancel, and rounding leaves no more than a bound on that share.",
    Key.SECRET_CORRELATION: "Root mean square, over pairs of uniform secrets, of how their labels correlate; "
    "statistical queries of a larger tolerance hardly tell them apart, which says nothing of other algorithms.",
    Key.HEADS: "One for each jump of the label that is covered, and two pads.",
    Key.JUMPS: "About so many jumps has the label; twice as many with ternary covariates.",
    Key.RANGE: "The inner products that the heads cover, and all of them.",
    Key.TRUNCATION: "2 e^(-x^2 / 2), a bound on the share of covariates whose inner product is beyond x standard "
    "deviations: there the output is a label, but it may be the wrong one.",
    Key.BEST_ACCURACY: "Errors are added to the labels of examples by `LWRFamily.examples`; the layer has none.",
    Key.MONOMIALS: "Without errors as many labels make linear equations for the secret.",
    Key.OPERATIONS: "A heuristic estimate for the attack named as its source, by this version.",
}

_POWERS = {Key.SECRETS, Key.DISTANCE, Key.MEAN_DISTANCE, Key.WEIGHT, Key.WEIGHT_BOUND, Key.OPERATIONS}
"""Facts whose number is a logarithm to base 2."""

BOUND_ROOM = 4
"""What a bound on a weight has above the least that one machine proves, as a power of 2."""

_TOLERANCES: Mapping[Key, tuple[float, float]] = {
    # n factors, each right to a few units, of characters whose logarithm is below n: 1e-16 n, n up to 2^26; the
    # transform adds at most 4 sqrt(q) log2(q) units, q up to 2^22
    Key.DISTANCE: (2.0**-26, 2.0**-26),
    Key.MEAN_DISTANCE: (2.0**-40, 0.0),
    Key.WEIGHT: (2.0**-40, 2.0**-24),  # a relative 1e-8 of the weight, proved by `low_degree_weights`
    # 2 log2(norm + error), rounded up: two machines find norms that differ by at most 2 error, so bounds that differ
    # by at most 2 log2(3) < 4; with this room added the verifier proves every bound that it accepts
    Key.WEIGHT_BOUND: (0.0, BOUND_ROOM),
    Key.SECRET_CORRELATION: (2.0**-27, 0.0),  # a sum of at most 2^22 terms of one sign
    Key.TRUNCATION: (2.0**-40, 0.0),  # one exponential of a number below 2^10
    Key.BEST_ACCURACY: (0.0, 2.0**-28),  # a mean of at most 2^22 terms below 1
    Key.SECRETS: (2.0**-40, 0.0),  # one logarithm
}
"""By how much (relative, absolute) a number may differ between two machines: twice a bound on its rounding error.

The other numbers are the same on every machine, bit for bit: they are made by whole numbers and fractions, by software
arithmetic of many digits (mpmath, decimal), or by additions, products, quotients and square roots in a fixed order,
which IEEE 754 rounds in one way only.
"""

Value = int | float | Word | tuple[int | Word, ...]


@dataclass(frozen=True)
@checked
class Fact:
    """One fact about an instance."""

    key: Key  #: what it is about
    value: Value  #: exact integers of any size, finite numbers, words, or a few of these
    status: Status
    source: str  #: where the proof or the derivation is, in a few words; of an estimate, the attack
    #: the number that completes the key: the tolerance of queries, the degree of a weight
    at: float | int | None = None

    def __post_init__(self) -> None:
        if not self.source:
            raise ValueError(f"The source of {self.name!r} is an empty text: a few words are needed.")

    @property
    def name(self) -> str:
        """The key, and the number that completes it."""
        return self.key.value if self.at is None else f"{self.key.value} {self.at:g}"

    @property
    def text(self) -> str:
        """The value as words."""
        match self.value:
            case (int(over), int(under)) if self.key is Key.JUMPS and under:
                return f"{Decimal(over) / under:.4g}"
            case tuple():
                return ", ".join(map(str, self.value))
        number = f"{self.value:.6g}" if isinstance(self.value, float) else str(self.value)
        return f"2^{number}" if self.key in _POWERS and not isinstance(self.value, Word) else number

    @property
    def meaning(self) -> str:
        """The sentence that a reader should take away."""
        return _MEANINGS[self.key]

    @property
    def statement(self) -> str:
        """The fact without the sentence that says what it means."""
        return f"{self.name}: {self.text} ({self.status})"

    def __str__(self) -> str:
        return f"{self.statement}. {self.meaning} [{self.source}]"

    def agrees(self, computed: "Fact") -> bool:
        """Whether this may be the same fact as one computed on another machine."""
        given: Any = self.value
        own: Any = computed.value
        if replace(computed, value=given) != self or type(given) is not type(own):
            return False
        if given == own or isinstance(given, Word | tuple):
            return given == own
        relative, absolute = _TOLERANCES.get(self.key, (0.0, 0.0))
        close = isinstance(given, float) and math.isclose(given, own, rel_tol=relative)
        return close or abs(given - own) <= absolute


@dataclass(frozen=True)
@checked
class Certificate:
    """The facts that say why instances of a family are hard, and for whom they are not.

    Examples
    --------
    >>> sides = Fact(Key.TARGETS, 2, Status.PROVED, "by counting")
    >>> certificate = Certificate("coins", (sides,))
    >>> print(certificate)
    Certificate of the family coins
      targets: 2 (proved). One of so many secrets is hidden. [by counting]
    >>> certificate["targets"].value
    2
    """

    family: str  #: the family's name
    facts: tuple[Fact, ...]  #: the facts, names distinct

    def __post_init__(self) -> None:
        if not self.family:
            raise ValueError("The family of a certificate is empty: a name is needed.")
        names = [fact.name for fact in self.facts]
        if len(set(names)) != len(names):
            raise ValueError("Two facts of the certificate have one name: names must be distinct.")

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __getitem__(self, name: str) -> Fact:
        for fact in self.facts:
            if isinstance(name, str) and fact.name == name:
                return fact
        raise KeyError(name)

    def _find(self, key: Key, at: float | int | None = None) -> Fact | None:
        return next((fact for fact in self if (fact.key, fact.at) == (key, at)), None)

    def get(self, key: Key, at: float | int | None = None) -> Value | None:
        """The value of a fact; None if it is not stated."""
        fact = self._find(key, at)
        return None if fact is None else fact.value

    def with_facts(self, facts: Iterable[Fact]) -> "Certificate":
        """The certificate with more facts at its end."""
        return Certificate(self.family, (*self.facts, *facts))

    @property
    def label(self) -> str:
        """A few words for a table: the proved bound on queries, what is assumed, or what breaks it.

        Examples
        --------
        >>> facts = (
        ...     Fact(Key.TARGETS, 16215, Status.PROVED, "by counting"),
        ...     Fact(Key.QUERIES, 164, Status.PROVED, "Bessel", at=0.1),
        ... )
        >>> Certificate("sq-parity", facts).label
        '164 queries at tau 0.1 of 16215 targets'
        """
        assumption, rho = self._find(Key.ASSUMPTION), self.get(Key.RHO)
        targets, needed = self._find(Key.TARGETS), self._find(Key.QUERIES, 0.1)
        broken, attack = self._find(Key.BROKEN_BY), self._find(Key.OPERATIONS)
        if assumption is None and targets is not None:
            queries = "no bound on queries," if needed is None else f"{_many(needed, 'query')} at tau 0.1 of"
            return f"{queries} {_many(targets, 'target')}"
        if broken is not None:
            return f"broken by {broken.text}"
        if assumption is None:
            return "no bound"
        if attack is not None and isinstance(attack.value, float) and attack.value < FEW_OPERATIONS:
            return f"broken by {attack.source} in 2^{attack.value:.0f} operations (estimate)"
        weak = f", rho = {rho:.2g}" if isinstance(rho, float) and rho < LEAST_RHO else ""
        return f"assumed: {assumption.text}{weak}"

    def __str__(self) -> str:
        # of several facts of one key the first says what it means
        first = {fact.key: fact for fact in reversed(self.facts)}
        lines = (f"  {fact if first[fact.key] is fact else fact.statement}" for fact in self)
        return "\n".join([f"Certificate of the family {self.family}", *lines])

    def to_json(self) -> dict[str, Any]:
        """The certificate as plain JSON values; `from_json` gives it back."""
        facts = [asdict(fact) for fact in self]
        for fact in facts:
            fact["value"] = list(fact["value"]) if isinstance(fact["value"], tuple) else fact["value"]
        return {"format": FORMAT, "family": self.family, "facts": facts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Certificate":
        """The certificate that `to_json` wrote.

        ValueError if it is of another format, or a field is missing, unknown or of the wrong type.
        """
        import msgspec  # here: a layer needs nothing of it

        given = dict(data)
        if (number := given.pop("format", None)) != FORMAT or type(number) is not int:
            raise ValueError(
                f"The certificate is of format {number!r:.50}: {FORMAT} is read, and the files without a format that "
                "version 0.1.0 wrote before it."
            )
        certificate = msgspec.convert(given, cls)
        if certificate.to_json() != data:
            raise ValueError("A certificate needs a format, a family and facts, and nothing else.")
        return certificate


LEAST_RHO = 0.5
"""The least rho at which the inner product wraps around enough: total variation of about e^(-2 pi^2 / 4) = 0.7 %."""
FEW_OPERATIONS = 40.0
"""An attack that is estimated at fewer than 2^40 operations breaks an instance; a convention of this project."""


def _many(fact: Fact, what: str) -> str:
    """Say "1 query" or "16215 queries"; a number of more than twelve digits is shortened."""
    number = fact.value
    if isinstance(number, Word | tuple):
        return fact.text
    text = f"{Decimal(number):.2g}" if isinstance(number, float) or number >= 10**12 else str(number)
    return f"{text} {what if number == 1 else {'query': 'queries'}.get(what, f'{what}s')}"
