"""Query-count curves: the queries that each learner asks on the targets of a family, beside the proved bounds."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np

from attention.validation import NonNegativeInt, PositiveInt, Whole, checked
from lower import FAMILIES, query_lower_bound
from lower.bounds import exact_tolerance
from lower.low_degree import FlipRate, flip_factor
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.family import TargetFamily, makes
from sq.learners import (
    ExhaustiveSearch,
    GroupLearner,
    SignedGroupLearner,
    SQResult,
    group_learner_bound,
)
from sq.models import CSQ
from sq.oracles import ExactOracle, HonestOracle, SQOracle
from sq.parities import ParityFamily
from sq.periodic import PeriodicFamily
from sq.profile_family import ProfileFamily
from sq.secret_set import SecretSet

_LEARNERS = {
    "exhaustive": ExhaustiveSearch(),
    "group": GroupLearner(),
    "signed-group": SignedGroupLearner(),
}
CURVE_LEARNERS = tuple(_LEARNERS)
"""The learners whose curves can be measured."""
# two adversaries, which choose the target during the run, and two oracles that answer for one target
_ORACLES = ("reference", "most-preserving", "exact", "honest")

_TOKENS = 2
_MISS = 0.01  # the allowed probability that some reply of a default batch misses the tolerance
_MOST_TARGETS = 20_000_000
_MOST_NUMBERS = 100_000_000


@dataclass(frozen=True)
@checked
class CurveCell:
    """One learner on a family that hides l of d - 1 coordinates, at one tolerance, against one oracle.

    Notes
    -----
    The mean over n examples of a query's product with a parity has variance 2/n at most. So with 4/tau^2 examples the
    standard deviation is up to tau/sqrt 2, and many replies are off by more than tau. With 4 ln(2 Q / delta) / tau^2
    examples all Q replies are within tau with probability 1 - delta. This is proved for single characters
    (`HonestOracle`), and holds approximately for sums of them.

    Examples
    --------
    >>> cell = CurveCell("group", dim=40, bits=3, tolerance=0.1)
    >>> cell.targets, cell.lower_bound, cell.group_bound
    (9139, 93, 100)
    >>> CurveCell("exhaustive", dim=12, bits=2, tolerance=0.5, oracle="honest").batch
    149
    """

    learner: str  #: one of `CURVE_LEARNERS`
    #: d, at most 10000, and l, 1 <= l < d
    dim: Annotated[int, Whole(2, 10_000)]  # for larger d the binomial coefficients take too long to print
    bits: PositiveInt
    tolerance: float  #: tau of the model CSQ, in (0, 1)
    oracle: str = "reference"  #: "reference", "most-preserving", "exact" or "honest"
    #: Examples per query of the honest oracle, None for the others. When left out, ceil(4 ln(2 Q / delta) / tau^2) with
    #: delta = 1/100. Q is the most queries that the learner asks while replies are within tau.
    batch: PositiveInt | None = None
    #: draws the target of an exact or honest oracle (the same for all learners and tolerances), its examples, and
    #: the learner's random choices
    seed: NonNegativeInt = 0
    #: the name of a registered `ProfileFamily`, or sq-periodic; its other parameters have their presets
    family: str = ParityFamily.name
    noise: FlipRate = 0.0  #: the rate at which labels are flipped: for the honest oracle

    def __post_init__(self) -> None:
        known = tuple(name for name, one in FAMILIES.items() if makes(one, (ProfileFamily, PeriodicFamily)))
        for name, allowed in (("learner", CURVE_LEARNERS), ("oracle", _ORACLES), ("family", known)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"The {name} is {getattr(self, name)!r}: one of {', '.join(allowed)} is needed."
                )
        if self.bits >= self.dim:
            raise ValueError(
                f"bits is {self.bits} and dim {self.dim}: at most {self.dim - 1} of the coordinates can be secret, as "
                "one is the gate; take fewer bits or a larger dim."
            )
        exact_tolerance(self.tolerance)
        if self.noise and self.oracle != "honest":
            raise ValueError(
                f"noise is {self.noise} with the oracle {self.oracle!r}: only honest replies come from noisy labels."
            )
        if self.noise and "noise" not in FAMILIES[self.family].options():
            raise ValueError(
                f"noise is {self.noise}: labels of {self.family} are not flipped, so 0 is needed."
            )
        if self.oracle == "honest":
            object.__setattr__(self, "batch", self.batch or _enough_examples(self))
        elif self.batch is not None:
            raise ValueError(
                f"batch is for the honest oracle: the oracle {self.oracle!r} draws no examples, leave it out instead."
            )

    @property
    def targets(self) -> int:
        """N = C(d - 1, l), the size of the family."""
        return SecretSet(self.dim, self.bits).size

    @property
    def lower_bound(self) -> int:
        """`lower.query_lower_bound`: ceil((N - 1)/M*); 0 if the family has too many correlations for a bound."""
        parity = self.family == ParityFamily.name
        eigenvalue = 1 if parity else self.made().largest_eigenvalue or self.targets
        return int(query_lower_bound(self.targets, self.tolerance, eigenvalue=eigenvalue))  # it is finite

    @property
    def group_bound(self) -> int:
        """`group_learner_bound` for orthonormal targets: ceil((N - 1)/M*) + ceil(log2 M*)."""
        return group_learner_bound(self.targets, self.tolerance)

    def made(self) -> TargetFamily:
        """The family."""
        own = {"dim": self.dim, "bits": self.bits} | ({"noise": self.noise} if self.noise else {})
        family = FAMILIES[self.family].preset(**own)
        assert isinstance(family, TargetFamily)
        return family


@dataclass(frozen=True)
class CurvePoint:
    """The result of one cell."""

    cell: CurveCell  #: the cell
    #: Whether the learner named the right target, a wrong one (an honest oracle may miss its tolerance), or none; or
    #: the cell could not be run, or failed. Against an adversary "right" means that the named target is the only one
    #: for which every reply was valid.
    status: str
    explanation: str  #: the learner's explanation, or why there is none
    asked: int | None = None  #: scalar queries up to the end of the run, however it ended
    secret: tuple[int, ...] | None = None  #: the secret it named
    examples: int | None = None  #: examples the oracle drew

    @property
    def queries(self) -> int | None:
        """The queries that found the right target; None if the learner did not find it: then the curve has no point."""
        return self.asked if self.status == "found" else None

    def row(self) -> dict[str, Any]:
        """The point as one row of a table: its cell, the numbers of the cell, and what was measured, all scalars."""
        return {
            **asdict(self.cell),
            **{name: getattr(self.cell, name) for name in ("targets", "lower_bound", "group_bound")},
            **{
                name: getattr(self, name)
                for name in ("status", "queries", "asked", "examples", "explanation")
            },
            "secret": None if self.secret is None else " ".join(map(str, self.secret)),
        }


@checked
def curve_cells(
    dims: Sequence[int],
    bits: Sequence[int],
    tolerances: Sequence[float],
    *,
    learners: Sequence[str] = CURVE_LEARNERS,
    **others: Any,
) -> tuple[CurveCell, ...]:
    """Every combination, each once: by bits, tolerance (the largest first), dimension and learner.

    `others` are the other fields of `CurveCell`, the same for all cells.

    Examples
    --------
    >>> [cell.targets for cell in curve_cells([16, 10], [2], [0.1], learners=["exhaustive"])]
    [36, 105]
    """
    for name, values in (("dims", dims), ("bits", bits), ("tolerances", tolerances), ("learners", learners)):
        if not values:
            raise ValueError(f"{name} is empty: at least one is needed.")
    return tuple(
        CurveCell(learner, dim, one, tolerance, **others)
        for one in sorted(set(bits))
        for tolerance in sorted(set(tolerances), reverse=True)
        for dim in sorted(set(dims))
        for learner in sorted(set(learners), key=lambda name: [*CURVE_LEARNERS, name].index(name))
    )


@checked
def measure_cell(cell: CurveCell) -> CurvePoint:
    """Run the cell's learner against its oracle and count the queries; repeated calls give the same numbers.

    Notes
    -----
    A cell is "not run", with the reason, if it is too large: more than twenty million targets, or batches of more than
    10^8 numbers. Group queries take O(1) memory per query, and N bytes. Only an honest oracle
    evaluates heads.

    Examples
    --------
    >>> measure_cell(CurveCell("group", dim=16, bits=3, tolerance=0.3)).queries
    42
    """
    try:
        _require_reach(cell)
        family = cell.made()
        number = int(_stream(cell, 0).integers(family.secrets.size))
        oracle = _oracle(cell, family, number)
        result = _LEARNERS[cell.learner].learn(oracle, family, rng=_stream(cell, 2))
    except ValueError as error:
        return CurvePoint(cell, "not run", str(error))
    return CurvePoint(
        cell,
        _status(result, oracle, number),
        result.explanation,
        asked=result.asked,
        secret=result.secret,
        examples=result.examples,
    )


def _require_reach(cell: CurveCell) -> None:
    """Refuse a cell whose run is too large."""
    numbers = (cell.batch or 0) * _TOKENS * cell.dim
    if cell.targets > _MOST_TARGETS:
        raise ValueError(
            f"There are {_about(cell.targets)} targets: at most {_MOST_TARGETS:,} are gone through; take fewer bits or "
            "coordinates."
        )
    if numbers > _MOST_NUMBERS:
        raise ValueError(
            f"A batch has {_about(numbers)} numbers: at most {_MOST_NUMBERS:,} are drawn; take a larger tolerance, or "
            "a batch."
        )


def _about(number: int) -> str:
    return f"{number:.3g}" if number < 1e300 else "over 1e300"


def _enough_examples(cell: CurveCell) -> int:
    """ceil(4 ln(2 Q / delta) / (tau (1 - 2 eta))^2); Q is the learner's most queries while replies are within tau."""
    # a learner that keeps the consistent candidates rules out at least one with each query, except for one query
    logarithm = math.log(cell.targets) + math.log(2 / _MISS)
    return math.ceil(
        Fraction(4 * logarithm) / (exact_tolerance(cell.tolerance) * flip_factor(cell.noise)) ** 2
    )


def _oracle(cell: CurveCell, family: TargetFamily, number: int) -> SQOracle:
    model = CSQ(cell.tolerance)
    if cell.oracle == "reference":
        return ReferenceAdversary(model, family)
    if cell.oracle == "most-preserving":
        return MostPreservingAdversary(model, family)
    if cell.oracle == "exact":
        return ExactOracle(model, family, number)
    assert cell.batch is not None
    return HonestOracle(model, family.instance(number), batch=cell.batch, rng=_stream(cell, 1))


def _stream(cell: CurveCell, which: int) -> np.random.Generator:
    """A random stream that does not depend on learner and tolerance: all of them face the same target."""
    return np.random.default_rng([cell.seed, cell.dim, cell.bits, which])


def _status(result: SQResult, oracle: SQOracle, number: int) -> str:
    if result.number is None:
        return "refused"
    if isinstance(oracle, ReferenceAdversary | MostPreservingAdversary):
        return "found" if oracle.survivors.tolist() == [result.number] else "wrong"
    return "found" if result.number == number else "wrong"


@checked
def visible_below(targets: PositiveInt, queries: PositiveInt, *, full: bool = False) -> float:
    """The least tolerance at which so many queries cannot tell the targets apart; below it the bounds allow it.

    1/sqrt(ceil((N - 1)/Q)), about sqrt(Q/N), and half of it for STAT.

    Parameters
    ----------
    targets : int
        The number N of orthonormal targets.
    queries : int
        The number Q of queries, at least 1.
    full : bool
        Whether queries are those of STAT, about two-valued labels, rather than correlational ones: they rule out at
        most ceil(1/(4 tau^2)) - 1 targets, not M* = ceil(1/tau^2) - 1 (`lower.eliminated_per_query`).

    Notes
    -----
    Q < ceil((N-1)/M) is M < (N-1)/Q, that is M + 1 <= ceil((N-1)/Q), and M + 1 = ceil(1/tau^2).

    Examples
    --------
    >>> visible_below(401, 4), visible_below(401, 4, full=True), visible_below(455, 454)
    (0.1, 0.05, 1.0)
    """
    share = math.ceil(Fraction(targets - 1, queries))
    # 1/share underflows long before its root does: divide out a power of 4 first
    shift = max(0, share.bit_length() - 1000) // 2
    root = math.sqrt(Fraction(4**shift, max(share, 1)))
    return math.ldexp(root, -shift - (1 if full else 0))
