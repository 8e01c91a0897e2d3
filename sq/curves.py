"""Query-count curves: the queries each learner asks on each parity family, beside what is proved of them."""

import math
from fractions import Fraction

import numpy as np

from attention.validation import count, one_of
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.curve_cells import CurveCell, CurvePoint, learner_of
from sq.low_degree import LowDegreeLearner
from sq.models import CSQ
from sq.oracles import ExactOracle, HonestOracle, SQOracle
from sq.parities import ParityFamily
from sq.sq_result import SQResult

__all__ = ["measure_cell", "visible_below"]

_MOST_TARGETS = 20_000_000
_MOST_COEFFICIENTS = 10_000_000
_MOST_NUMBERS = 100_000_000
_MOST_BITS_OF_D = 19  # beyond, its equations have no solution in float64
_TOKENS = 2


def measure_cell(cell: CurveCell) -> CurvePoint:
    """Run the cell's learner against its oracle and count; the same numbers every time.

    Notes
    -----
    A cell out of reach (more than twenty million targets or ten million coefficients, inputs that an oracle would have
    to enumerate beyond 2^16, batches of more than 10^8 numbers, gradient steps of more derivatives) is "not run", with
    the reason. Group queries take O(1) memory a query and N bytes. The heads are of construction D up to 19 bits and of
    B beyond; only an honest oracle looks at them.

    Examples
    --------
    >>> measure_cell(CurveCell("group", dim=16, bits=3, tolerance=0.3)).queries
    42
    """
    if cell.targets > _MOST_TARGETS:
        return _not_run(
            cell,
            f"There are {cell.targets:.3g} targets" if cell.targets < 1e300 else "There are too many targets",
        )
    try:
        family = ParityFamily(
            dim=cell.dim, bits=cell.bits, construction="D" if cell.bits <= _MOST_BITS_OF_D else "B"
        )
        learner = learner_of(cell)
        if cell.batch is not None and (numbers := cell.batch * 2 * cell.dim) > _MOST_NUMBERS:
            words = f"A batch of {_about(cell.batch)} examples has {_about(numbers)} numbers"
            return CurvePoint(
                cell,
                "not run",
                f"{words}: at most {_MOST_NUMBERS:,} are drawn; take a larger tolerance, or a batch.",
            )
        if isinstance(learner, LowDegreeLearner):
            asks = learner.queries(_TOKENS, cell.dim)
            if asks > _MOST_COEFFICIENTS:
                words = f"There are {asks:.3g} coefficients of degree at most {learner.degree}"
                return _not_run(cell, words, most=_MOST_COEFFICIENTS)
        number = int(_stream(cell, 0).integers(family.secrets.size))
        oracle = _oracle(cell, family, number)
        result = learner.learn(oracle, family, rng=_stream(cell, 2))
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


def visible_below(targets: int, queries: int, *, full: bool = False) -> float:
    """The tolerance from which on so many queries cannot tell the targets apart; below it the bounds allow it.

    Parameters
    ----------
    targets : int
        The number N of orthonormal targets.
    queries : int
        The number Q of queries, at least 1.
    full : bool
        Whether queries are those of STAT, which look at the labels and count ceil(1/(4 tau^2)) - 1 targets each
        (`full_query_cap`, for two-valued labels), and not correlational ones, M* = ceil(1/tau^2) - 1.

    Returns
    -------
    float
        1/sqrt(ceil((N - 1)/Q)), about sqrt(Q/N), and half of it for STAT: Q < ceil((N - 1)/M*) from there on, and not
        below. 0.0 only where that is below the smallest float64, 5e-324.

    Notes
    -----
    Q < ceil((N-1)/M) is M < (N-1)/Q, that is M + 1 <= ceil((N-1)/Q), and M + 1 = ceil(1/tau^2). Where Q >= N - 1,
    correlational queries of any tolerance below 1 are enough as far as this bound goes: it is 1.

    References
    ----------
    Derived here, from `lower.query_lower_bound` and `full_query_cap`.

    Examples
    --------
    >>> visible_below(401, 4), visible_below(401, 4, full=True), visible_below(455, 454)
    (0.1, 0.05, 1.0)
    """
    one_of("full", full, (True, False))
    share = math.ceil(Fraction(count("targets", targets) - 1, count("queries", queries)))
    # 1/share underflows long before its root does: take off a power of 4 first
    shift = max(0, share.bit_length() - 1000) // 2
    root = math.sqrt(Fraction(4**shift, max(share, 1)))
    return math.ldexp(root, -shift - (1 if full else 0))


def _about(number: int) -> str:
    return f"{number:.3g}" if number < 1e300 else "over 1e300"


def _not_run(cell: CurveCell, words: str, *, most: int = _MOST_TARGETS) -> CurvePoint:
    return CurvePoint(
        cell, "not run", f"{words}: at most {most:,} are gone through; take fewer bits or coordinates."
    )


def _oracle(cell: CurveCell, family: ParityFamily, number: int) -> SQOracle:
    model = CSQ(cell.tolerance)
    if cell.oracle == "reference":
        return ReferenceAdversary(model, family)
    if cell.oracle == "most-preserving":
        return MostPreservingAdversary(model, family)
    if cell.oracle == "exact":
        return ExactOracle(model, family, number)
    assert cell.batch is not None
    return HonestOracle.for_instance(
        model, family.instance(number), batch=cell.batch, family=family, rng=_stream(cell, 1)
    )


def _stream(cell: CurveCell, which: int) -> np.random.Generator:
    """Independent of learner and tolerance: all of them face the same target."""
    return np.random.default_rng([cell.seed, cell.dim, cell.bits, which])


def _status(result: SQResult, oracle: SQOracle, number: int) -> str:
    if result.number is None:
        return "refused"
    if isinstance(oracle, ReferenceAdversary | MostPreservingAdversary):
        return "found" if oracle.survivors.tolist() == [result.number] else "wrong"
    return "found" if result.number == number else "wrong"
