"""The cells of a query-count curve: what is measured, and the result."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from attention._arrays import shown
from attention.validation import count, finite_number
from lower import exact_fraction, number_of_parities, query_lower_bound
from sq.descent import DescentLearner
from sq.groups import GroupLearner, SignedGroupLearner, group_learner_bound
from sq.low_degree import LowDegreeLearner
from sq.scan import ScanLearner
from sq.sq_result import SQLearner

__all__ = [
    "CURVE_COLUMNS",
    "CURVE_LEARNERS",
    "CURVE_ORACLES",
    "CurveCell",
    "CurvePoint",
    "curve_cells",
    "learner_of",
]

CURVE_LEARNERS = ("scan", "group", "signed-group", "low-degree", "descent")
"""The learners a curve can be measured of."""
CURVE_ORACLES = ("reference", "most-preserving", "exact", "honest")
"""The oracles: two adversaries, who choose the target as they go, and two that answer for one target."""

_TOKENS = 2
_MISS = 0.01  # the probability with which a reply of a default batch may be off by more than the tolerance
_LARGEST_DIM = 10_000  # binomial coefficients of more take longer to print than to say no


@dataclass(frozen=True)
class CurveCell:
    """One learner on the parities of l of d - 1 coordinates, at one tolerance, against one oracle.

    Parameters
    ----------
    learner : str
        One of `CURVE_LEARNERS`.
    dim, bits : int
        d and l, 1 <= l < d.
    tolerance : float
        tau of the model CSQ, in (0, 1).
    oracle : str
        One of `CURVE_ORACLES`.
    batch : int, optional
        Examples a query of the honest oracle, None for the others. When left out, ceil(4 ln(2 Q / delta) / tau^2) with
        delta = 1/100 and Q the queries that the learner asks at most while replies are within tau.
    seed : int
        Draws the target of an exact or honest oracle (the same for all learners and tolerances), its examples, and what
        the learner draws.

    Raises
    ------
    ValueError
        If one of them is not so.

    Notes
    -----
    A mean over n examples of a query's product with a parity has variance 2/n at most. So 4/tau^2 examples leave a
    standard deviation of tau/sqrt 2, and many a reply beyond tau; 4 ln(2 Q / delta) / tau^2 keep all of Q within it
    with probability 1 - delta: proved for single characters (`HonestOracle`), about so for sums of them and gradients.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> cell = CurveCell("group", dim=40, bits=3, tolerance=0.1)
    >>> cell.targets, cell.lower_bound, cell.group_bound
    (9139, 93, 100)
    >>> CurveCell("scan", dim=12, bits=2, tolerance=0.5, oracle="honest").batch
    149
    """

    learner: str
    dim: int
    bits: int
    tolerance: float
    oracle: str = "reference"
    batch: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _require_name("learner", self.learner, CURVE_LEARNERS)
        _require_name("oracle", self.oracle, CURVE_ORACLES)
        for name, least in (("dim", 2), ("bits", 1), ("seed", 0)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        if self.dim > _LARGEST_DIM:
            raise ValueError(f"dim is {self.dim}: at most {_LARGEST_DIM} coordinates are counted.")
        if self.bits >= self.dim:
            raise ValueError(
                f"bits is {self.bits} and dim {self.dim}: at most {self.dim - 1} of the coordinates can be secret, as "
                "one is the gate; take fewer bits or a larger dim."
            )
        object.__setattr__(self, "tolerance", float(exact_fraction("tolerance", self.tolerance)))
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance is {self.tolerance:g}: a number above 0 and below 1 is needed.")
        if self.oracle == "honest":
            batch = _enough_examples(self) if self.batch is None else count("batch", self.batch)
            object.__setattr__(self, "batch", batch)
        elif self.batch is not None:
            raise ValueError(
                f"batch is for the honest oracle: the oracle {self.oracle!r} draws no examples, leave it out instead."
            )

    @property
    def targets(self) -> int:
        """N = C(d - 1, l), the size of the family."""
        return number_of_parities(self.dim, self.bits)

    @property
    def lower_bound(self) -> int:
        """`lower.query_lower_bound`: ceil((N - 1)/M*)."""
        return query_lower_bound(self.targets, self.tolerance)

    @property
    def group_bound(self) -> int:
        """`group_learner_bound`: ceil((N - 1)/M*) + ceil(log2 M*)."""
        return group_learner_bound(self.targets, self.tolerance)


@dataclass(frozen=True)
class CurvePoint:
    """What one cell came to.

    Attributes
    ----------
    cell : CurveCell
        The cell.
    status : {"found", "wrong", "refused", "not run", "failed"}
        Whether the learner named the right target, a wrong one (an honest oracle may leave its tolerance), or none and
        said so; or the cell could not be run, or broke down.
    explanation : str
        The learner's own words, or why there are none.
    asked : int, optional
        Scalar queries up to the end, whatever the end.
    secret : tuple of int, optional
        The secret it named.
    examples : int, optional
        Examples the oracle drew.

    Notes
    -----
    Against an adversary right means that the target named is the only one left for which every reply was valid.
    """

    cell: CurveCell
    status: str
    explanation: str
    asked: int | None = None
    secret: tuple[int, ...] | None = None
    examples: int | None = None

    @property
    def queries(self) -> int | None:
        """What the right target cost; None where the learner did not find it: that is no point of a curve."""
        return self.asked if self.status == "found" else None

    def row(self) -> dict[str, Any]:
        """The point as one row of a table, by `CURVE_COLUMNS`: plain JSON values."""
        cell = self.cell
        return {
            **asdict(cell),
            "targets": cell.targets,
            "lower_bound": cell.lower_bound,
            "group_bound": cell.group_bound,
            "status": self.status,
            "queries": self.queries,
            "asked": self.asked,
            "secret": None if self.secret is None else list(self.secret),
            "examples": self.examples,
            "explanation": self.explanation,
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "CurvePoint":
        """The point that a row was made of.

        Raises
        ------
        ValueError
            If a column is missing or holds what no cell has.
        """
        try:
            secret = row["secret"]
            return cls(
                CurveCell(**{one.name: row[one.name] for one in fields(CurveCell)}),
                status=row["status"],
                explanation=row["explanation"],
                asked=row["asked"],
                secret=None if secret is None else tuple(secret),
                examples=row["examples"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"The row is no point of a curve: {error}.") from None


CURVE_COLUMNS = (
    *(one.name for one in fields(CurveCell)),
    *(
        "targets",
        "lower_bound",
        "group_bound",
        "status",
        "queries",
        "asked",
        "secret",
        "examples",
        "explanation",
    ),
)
"""The columns of `CurvePoint.row`; `queries` is empty unless the target was found, `asked` counts in any case."""


def curve_cells(
    dims: Sequence[int],
    bits: Sequence[int],
    tolerances: Sequence[float],
    *,
    learners: Sequence[str] = CURVE_LEARNERS[:3],
    oracle: str = "reference",
    batch: int | None = None,
    seed: int = 0,
) -> tuple[CurveCell, ...]:
    """Every combination, each once: by bits, tolerance (the largest first), dimension and learner.

    Raises
    ------
    ValueError
        If a list is empty or a cell is none (see `CurveCell`).

    Examples
    --------
    >>> [cell.targets for cell in curve_cells([16, 10], [2], [0.1], learners=["scan"])]
    [36, 105]
    """
    for name, values in (("dims", dims), ("bits", bits), ("tolerances", tolerances), ("learners", learners)):
        if (
            isinstance(values, str)
            or not isinstance(values, Iterable)
            or np.ndim(values) > 1
            or not getattr(values, "ndim", 1)
        ):
            raise ValueError(f"{name} is {shown(values)}: a list of them is needed.")
        if not len(list(values)):
            raise ValueError(f"{name} is empty: at least one is needed.")
    dims, bits = [count("dims", one, least=2) for one in dims], [count("bits", one) for one in bits]
    tolerances = [finite_number("tolerances", float(exact_fraction("tolerances", one))) for one in tolerances]
    for name in learners:
        _require_name("learner", name, CURVE_LEARNERS)
    named = sorted(set(learners), key=CURVE_LEARNERS.index)
    return tuple(
        CurveCell(learner, dim, one, tolerance, oracle, batch, seed)
        for one in sorted(set(bits))
        for tolerance in sorted(set(tolerances), reverse=True)
        for dim in sorted(set(dims))
        for learner in named
    )


def _require_name(what: str, name: str, allowed: Sequence[str]) -> None:
    if not isinstance(name, str) or name not in allowed:
        raise ValueError(f"The {what} is {shown(name)}: one of {', '.join(allowed)} is needed.")


def _enough_examples(cell: CurveCell) -> int:
    """ceil(4 ln(2 Q / delta) / tau^2)."""
    tau = exact_fraction("tolerance", cell.tolerance)
    return math.ceil(Fraction(4 * (math.log(_most_queries(cell)) + math.log(2 / _MISS))) / tau**2)


def _most_queries(cell: CurveCell) -> int:
    """Q: what the cell's learner asks at most as long as replies are within the tolerance."""
    learner = learner_of(cell)
    if isinstance(learner, DescentLearner):
        return learner.steps * learner.queries_per_step(cell.dim) + 1
    if isinstance(learner, LowDegreeLearner):
        return learner.queries(_TOKENS, cell.dim) + 1
    # those that keep the candidates consistent rule out one or more with each query but one
    return max(cell.targets, 1)


def learner_of(cell: CurveCell) -> SQLearner:
    """The learner of a cell, set up for its number of bits."""
    if cell.learner == "low-degree":
        # below this degree a parity has no coefficient at all
        return LowDegreeLearner(degree=2 * cell.bits + 1)
    kinds = {
        "scan": ScanLearner,
        "group": GroupLearner,
        "signed-group": SignedGroupLearner,
        "descent": DescentLearner,
    }
    learner: SQLearner = kinds[cell.learner]()
    return learner
