"""Any learner that states its statistics as queries, run on an oracle that counts them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from attention.validation import require_callable
from sq.oracles import SQOracle
from sq.queries import as_sequence
from sq.sq_result import Account, SQResult

__all__ = ["run_by_queries"]


def run_by_queries(
    learner: Callable[[Any], Any],
    oracle: SQOracle,
    *,
    name: str = "learner",
    failures: tuple[type[Exception], ...] = (ArithmeticError,),
) -> SQResult:
    """Hand an oracle to a learner and count what it asks.

    Parameters
    ----------
    learner : callable
        Takes an oracle with `query(q)` and `query_many(queries)` and returns what it learned. A query is anything
        callable on (x, y) with `low` and `high`; many are a sequence of those, which may have `means(x, y)`.
    oracle : SQOracle
        Of the model STAT or VSTAT for learners that ask about labels.
    name : str
        The learner, for the result.
    failures : tuple of exceptions
        With which the learner says that it failed: the result is then a refusal with the exception's words.

    Returns
    -------
    SQResult
        With what the learner returned in `answer`, and in `least_tolerance` the smallest tolerance that its queries
        declare (an attribute `tolerance` of a query, or of a sequence of them).

    Notes
    -----
    Whether the oracle keeps the tolerances that the learner reckons with is for the caller to compare.

    Examples
    --------
    >>> from sq import STAT, HonestOracle, StatisticalQuery, make_parity_instance
    >>> def mean_label(oracle):
    ...     return oracle.query(StatisticalQuery(lambda x, y: np.clip(y[:, 0, 0] / 10, -1, 1)))
    >>> instance = make_parity_instance(dim=6, bits=1, rng=0)
    >>> result = run_by_queries(mean_label, HonestOracle.for_instance(STAT(0.1), instance, batch=500, rng=1))
    >>> result.asked, result.examples, result.found
    (1, 500, True)
    """
    require_callable("learner", learner, needed="a function of an oracle")
    account, recording = Account(name, oracle), _Recording(oracle)
    try:
        answer = learner(recording)
    except failures as failure:
        explanation = f"It gave up after {account.asked} queries: {failure or type(failure).__name__}"
        return account.result(explanation, least_tolerance=recording.least_tolerance)
    explanation = f"It returned {type(answer).__name__} after {account.asked} queries."
    return account.result(explanation, answer=answer, least_tolerance=recording.least_tolerance)


class _Recording:
    """Passes queries on and notes the tolerances that they declare."""

    def __init__(self, oracle: SQOracle) -> None:
        self._oracle = oracle
        self.least_tolerance: float | None = None

    def query(self, query: Any, /) -> float:
        self._note(query)
        return self._oracle.query(query)

    def query_many(self, queries: Iterable[Any], /) -> np.ndarray:
        queries = as_sequence(queries)  # what yields them does so once
        for one in [queries] if hasattr(queries, "tolerance") else queries:
            self._note(one)
        return self._oracle.query_many(queries)

    def _note(self, query: Any) -> None:
        declared = getattr(query, "tolerance", None)
        if declared is not None:
            before = self.least_tolerance
            self.least_tolerance = float(declared) if before is None else min(before, float(declared))
