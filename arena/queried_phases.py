"""The six-phase learner run through an oracle of statistical queries: what it asks, and which errors it bears."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from arena._answers import answers_to, jobs_allowed
from arena.calls import Call, WorkersLostError
from arena.cells import single_thread
from arena.curve_store import CurveStore
from arena.identity import cell_key
from arena.made_with import versions
from attention import AttentionLayer, BooleanInputs, ExampleOracle, make_nice_layer
from attention.inputs import Rng
from attention.validation import count, non_negative
from sq import STAT, SQOracle, run_by_queries
from upper.six_phase import PhaseFailedError, QueryPlan, learn_by_queries, six_phase_queries
from upper.six_phase.query_learner import QueriedSpan

__all__ = ["QUERIED_DIMS", "QUERIED_SLACKS", "PoolOracle", "QueriedPhases", "queried_phases"]

QUERIED_DIMS = (10, 16)
"""The dimensions d that are run."""
QUERIED_SLACKS = (1.0, 100.0)
"""By how many of its declared tolerances a reply may be off."""

_POOL = 100_000
_BLOCK = 5000
_GOOD = 0.05


class PoolOracle(SQOracle):
    """Replies for the uniform distribution over a pool of examples, off by up to so many declared tolerances.

    Parameters
    ----------
    x, y : array (n, k, d)
        The pool: the means over it are the truth here.
    slack : float
        A reply is the mean over the pool and an error, uniform up to `slack` times the tolerance that its query
        declares.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the errors.

    Notes
    -----
    Where the examples are a fresh sample for each call, replies are off by the sampling error, 1/sqrt(n): far more than
    this learner bears. A pool is a distribution with finitely many inputs, whose expectations are exact.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, *, slack: float = 1.0, rng: Rng = None) -> None:
        super().__init__(STAT(0.5))  # every query declares a tolerance of its own, which is kept instead
        self._x, self._y = x, y
        self._slack = non_negative("slack", slack)
        self._rng = np.random.default_rng(rng)

    def _reply(self, query: Any) -> float:
        blocks = np.concatenate([query(x, y) for x, y in self._blocks()])
        return float(blocks.mean() + self._error(query, 1)[0])

    def _replies(self, queries: Sequence[Any]) -> np.ndarray:
        if not hasattr(queries, "means"):
            return super()._replies(queries)
        blocks = [(queries.means(x, y), len(x)) for x, y in self._blocks()]
        means = np.average([one for one, _ in blocks], axis=0, weights=[size for _, size in blocks])
        return np.asarray(means + self._error(queries, len(means)))

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self._x), _BLOCK):
            yield self._x[start : start + _BLOCK], self._y[start : start + _BLOCK]

    def _error(self, asked: Any, size: int) -> np.ndarray:
        return self._slack * float(asked.tolerance) * self._rng.uniform(-1, 1, size)


@dataclass(frozen=True)
class QueriedPhases:
    """One run of phases 1 to 5 on a nice target of two heads and two tokens, by queries alone.

    Attributes
    ----------
    dim : int
        d.
    slack : float
        Replies were off by up to so many of the tolerances declared.
    queries : int
        Scalar queries asked.
    planned : float
        The smallest tolerance of the plan.
    tolerance : float or None
        The smallest tolerance that was declared, before a phase failed if one did.
    span_error : float or None
        How far the worse head is from the span found, relative to its norm; None if a phase failed.
    explanation : str
        What was found, or which phase failed.
    """

    dim: int
    slack: float
    queries: int
    planned: float
    tolerance: float | None
    span_error: float | None
    explanation: str

    @property
    def good(self) -> bool:
        """Whether the span holds both heads up to a twentieth of their norms."""
        return self.span_error is not None and self.span_error <= _GOOD

    def row(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**{name: getattr(self, name) for name in self.__dataclass_fields__}, "good": self.good}


def queried_phases(
    dims: Sequence[int] = QUERIED_DIMS,
    slacks: Sequence[float] = QUERIED_SLACKS,
    *,
    examples: int = _POOL,
    seed: int = 0,
    jobs: int | None = None,
    store: CurveStore | None = None,
    fresh: bool = False,
    isolated: bool = True,
    on_run: Callable[[QueriedPhases], None] | None = None,
) -> tuple[QueriedPhases, ...]:
    """Run phases 1 to 5 by queries, with replies off by up to so many of the tolerances that they declare.

    Parameters
    ----------
    dims : sequence of int
        d, at least 8; some seconds each up to 16.
    slacks : sequence of float
        How many tolerances.
    examples : int
        The size of the pool over which expectations are taken.
    seed : int
        Draws targets, pools and errors.
    jobs : int, optional
        How many runs go on at once; by default as `joblib` is configured, which is one. It changes no number.
    store : CurveStore, optional
        Where runs are kept as they are done, and taken from if they are there.
    fresh : bool
        Whether every one is run again, also those in the store.
    isolated : bool
        Whether runs go on in processes of their own; otherwise one after another, here.
    on_run : callable, optional
        Called with each run as it is there.

    Raises
    ------
    ValueError
        If a number is out of its range, or `jobs` is above 1 without processes of their own.
    StoreError
        If the store cannot be read or written.
    WorkersLostError
        If what makes the runs broke down, or one of them did: the others are done and kept by then.

    Notes
    -----
    An interruption ends the processes and is passed on: what was done by then is in the store. Within `arena.cluster`
    isolated runs go on on the workers of a dask cluster.

    Examples
    --------
    >>> found = queried_phases([10], [1.0], examples=20_000, isolated=False)
    >>> found[0].queries
    6547
    """
    examples = count("examples", examples)
    jobs = jobs_allowed(jobs, isolated=isolated)
    cells = [(count("dim", dim, least=8), float(slack)) for dim in dims for slack in slacks]
    keys = {cell: _key(*cell, examples, seed) for cell in cells}
    there = {} if store is None or fresh else store.find(keys.values())
    found: dict[tuple[int, float], QueriedPhases] = {}
    broken = ""

    def tell(cell: tuple[int, float], run: QueriedPhases) -> None:
        found[cell] = run
        if on_run is not None:
            on_run(run)

    for cell, key in keys.items():
        if key in there:
            names = QueriedPhases.__dataclass_fields__
            tell(cell, QueriedPhases(**{name: there[key][name] for name in names}))
    calls = [Call(cell, _run, (*cell, examples, seed)) for cell in keys if cell not in found]
    with answers_to(calls, jobs=jobs, isolated=isolated) as answers:
        for answer in answers:
            done: Any = answer.name
            if answer.failure:
                broken = broken or f"Six phases by queries at d = {done[0]}: {answer.failure}"
                continue
            if store is not None:
                store.put(keys[done], answer.value.row())
            tell(done, answer.value)
    if broken:
        raise WorkersLostError(broken)
    return tuple(found[cell] for cell in cells)


def _key(dim: int, slack: float, examples: int, seed: int) -> str:
    what = {"curve": "six phases by queries", "dim": dim, "slack": slack, "examples": examples}
    return cell_key(what, "six phases", seed, versions())


def _pool(dim: int, examples: int, seed: int) -> tuple[AttentionLayer, np.ndarray, np.ndarray]:
    layer = make_nice_layer(heads=2, dim=dim, rng=seed)
    return layer, *ExampleOracle(layer, BooleanInputs(k=2, d=dim), rng=seed + 1).draw(examples)


def _run(dim: int, slack: float, examples: int, seed: int) -> QueriedPhases:
    layer, x, y = _pool(dim, examples, seed)
    oracle = PoolOracle(x, y, slack=slack, rng=seed + 2)
    plan = QueryPlan(m=2, k=2, d=layer.dim)
    with single_thread():
        result = run_by_queries(
            partial(learn_by_queries, plan=plan), oracle, name="six phases", failures=(PhaseFailedError,)
        )
    error, said = None, result.explanation
    if isinstance(result.answer, QueriedSpan):
        error = float(result.answer.span.errors(layer)["span_error"])
        said = f"The heads are within {error:.2g} of the span found."
    planned = min(one.tolerance for one in six_phase_queries(plan))
    return QueriedPhases(layer.dim, slack, result.asked, planned, result.least_tolerance, error, said)
