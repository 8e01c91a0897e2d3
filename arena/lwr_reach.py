"""Up to which size attacks and learners break learning with rounding: sizes in turn, until two are not broken."""

import secrets as tokens
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from arena.attacking import attack_apart
from arena.attacks import ATTACKS
from arena.compare import versions
from arena.curve_store import CurveStore
from arena.identity import cell_key
from arena.isolation import end_processes
from attention._arrays import count, non_negative
from lwe import AttackOutcome, Budget, LWRParameters, Matrix, law_from_json, make_samples

__all__ = ["BROKEN_FROM", "LWRCell", "LWRPoint", "largest_broken", "lwr_curve"]

BROKEN_FROM = 0.95
"""The share of fresh labels from which a size counts as broken."""

_PASSING = (AttackOutcome.FAILED.name, AttackOutcome.MISSING.name)  # another run may find otherwise
_SAMPLES = 20_000
_PATIENCE = 2


@dataclass(frozen=True)
class LWRCell:
    """One attack on learning with rounding of one size.

    Attributes
    ----------
    attack : str
        One of `ATTACKS`.
    secret_dim, modulus, levels : int
        n, q and p.
    matrix : str
        What the rows of the public matrix are: binary, ternary, gadget or uniform.
    secret : str
        The law of the secret, in words such as "uniform" or "ternary".
    samples : int
        How many samples it gets.
    seconds : float
        What it may take.
    seed : int
        Draws the secret and the samples, the same for all attacks.
    """

    attack: str
    secret_dim: int
    modulus: int
    levels: int
    matrix: Matrix = "binary"
    secret: str = "uniform"
    samples: int = _SAMPLES
    seconds: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.attack not in ATTACKS:
            raise ValueError(f"{self.attack!r} is no attack: choose among {', '.join(ATTACKS)}.")
        object.__setattr__(self, "samples", count("samples", self.samples, least=5))
        object.__setattr__(self, "seconds", non_negative("seconds", self.seconds, strictly=True))
        object.__setattr__(self, "seed", count("seed", self.seed, least=0))
        _ = self.parameters  # for its errors

    @property
    def parameters(self) -> LWRParameters:
        """The problem."""
        law = law_from_json(self.secret)
        return LWRParameters(self.secret_dim, self.modulus, self.levels, matrix=self.matrix, secret=law)


@dataclass(frozen=True)
class LWRPoint:
    """What came of one attack on one size.

    Attributes
    ----------
    cell : LWRCell
        What was attacked.
    outcome : str
        The name of an `AttackOutcome`.
    explanation : str
        What the attack says.
    accuracy : float or None
        The share of fresh labels it predicts.
    took : float
        Seconds.
    """

    cell: LWRCell
    outcome: str
    explanation: str
    accuracy: float | None
    took: float

    @property
    def broken(self) -> bool:
        """Whether 95 % of the fresh labels are predicted, which learners come to that never reach all of them."""
        succeeded = AttackOutcome[self.outcome].succeeded
        return succeeded and self.accuracy is not None and self.accuracy >= BROKEN_FROM

    def row(self) -> dict[str, Any]:
        """The point as one row of a table: plain JSON values."""
        own = {name: getattr(self, name) for name in ("outcome", "accuracy", "took", "explanation")}
        return {**asdict(self.cell), **own, "broken": self.broken}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "LWRPoint":
        """The point that `row` wrote."""
        cell = LWRCell(**{name: row[name] for name in LWRCell.__dataclass_fields__})
        return cls(cell, row["outcome"], row["explanation"], row["accuracy"], row["took"])


def lwr_curve(
    attacks: Sequence[str],
    dims: Sequence[int],
    modulus: int,
    levels: Sequence[int],
    *,
    matrix: Matrix = "binary",
    secret: str = "uniform",
    samples: int = _SAMPLES,
    seconds: float = 5.0,
    seed: int = 0,
    jobs: int = 1,
    store: CurveStore | None = None,
    fresh: bool = False,
    on_point: Callable[[LWRPoint], None] | None = None,
) -> tuple[LWRPoint, ...]:
    """Run each attack at each p on growing n, until two sizes in turn are not broken.

    Parameters
    ----------
    attacks : sequence of str
        Names of `ATTACKS`, learners among them.
    dims : sequence of int
        The sizes n.
    modulus : int
        q.
    levels : sequence of int
        The numbers p of levels, from 2 to q.
    matrix, secret, samples, seconds, seed
        As of `LWRCell`.
    jobs : int
        How many attacks run at once; they share the machine, and with it what a second is worth.
    store : CurveStore, optional
        Where points are kept, and taken from if they are there.
    fresh : bool
        Whether every cell is run again, also those in the store.
    on_point : callable, optional
        Called with each point as it is there.

    Returns
    -------
    tuple of LWRPoint
        By attack, p and n; sizes beyond the second failure are not tried.

    Raises
    ------
    ValueError
        If a list is empty, a name unknown, or numbers do not fit together.

    Notes
    -----
    What is broken within seconds depends on the machine. One secret a size: a lucky or unlucky one moves a point.
    """
    for name, values in (("attacks", attacks), ("dims", dims), ("levels", levels)):
        if not len(values):
            raise ValueError(f"{name} is empty: at least one is needed.")
    make = partial(
        LWRCell,
        modulus=modulus,
        matrix=matrix,
        secret=secret,
        samples=samples,
        seconds=seconds,
        seed=seed,
    )
    series = [
        [make(attack=attack, levels=one, secret_dim=n) for n in sorted(set(dims))]
        for attack in dict.fromkeys(attacks)
        for one in sorted(set(levels))
    ]
    known = {} if store is None or fresh else _stored(store, [cell for cells in series for cell in cells])
    arrived: SimpleQueue[LWRPoint | None] = (
        SimpleQueue()
    )  # the store belongs to this thread: points come here
    group, found = tokens.token_hex(8), []
    pool = ThreadPoolExecutor(max_workers=min(count("jobs", jobs), len(series)))
    try:
        running = [pool.submit(_run_series, cells, known, arrived, group) for cells in series]
        for _ in series:
            while (point := arrived.get()) is not None:
                found.append(point)
                if store is not None and point.cell not in known and point.outcome not in _PASSING:
                    store.put(_key(point.cell), point.row())
                if on_point is not None:
                    on_point(point)
        for one in running:
            one.result()
    finally:
        end_processes(group)  # first, or a thread would wait for its attack
        pool.shutdown(wait=True, cancel_futures=True)
    order = {cell: place for place, cell in enumerate(cell for cells in series for cell in cells)}
    return tuple(sorted(found, key=lambda point: order[point.cell]))


def largest_broken(points: Sequence[LWRPoint]) -> dict[tuple[str, int], int | None]:
    """The largest n broken, by attack and p; None where none was."""
    found: dict[tuple[str, int], int | None] = {}
    for point in points:
        key = (point.cell.attack, point.cell.levels)
        found[key] = max(found.get(key) or 0, point.cell.secret_dim if point.broken else 0) or None
    return found


def _run_series(
    cells: Sequence[LWRCell],
    known: Mapping[LWRCell, LWRPoint],
    arrived: "SimpleQueue[LWRPoint | None]",
    group: str,
) -> None:
    missed = 0
    try:
        for cell in cells:
            point = known[cell] if cell in known else _attacked(cell, group)
            arrived.put(point)
            missed = 0 if point.broken else missed + 1
            if missed == _PATIENCE:
                break
    finally:
        arrived.put(None)


def _attacked(cell: LWRCell, group: str) -> LWRPoint:
    parameters = cell.parameters
    samples, _ = make_samples(parameters, cell.samples, rng=[cell.seed, cell.secret_dim])
    kind, budget = ATTACKS[cell.attack], Budget(seconds=cell.seconds)
    result = attack_apart(kind, samples, parameters, budget, [cell.seed, cell.secret_dim, 1], group=group)
    return LWRPoint(cell, result.outcome.name, result.explanation, result.accuracy, result.seconds)


def _key(cell: LWRCell) -> str:
    what = {name: value for name, value in asdict(cell).items() if name not in ("attack", "seed")}
    return cell_key({"curve": "learning with rounding", **what}, cell.attack, cell.seed, versions())


def _stored(store: CurveStore, cells: Sequence[LWRCell]) -> dict[LWRCell, LWRPoint]:
    keys = {cell: _key(cell) for cell in cells}
    there = store.find(keys.values())
    return {cell: LWRPoint.from_row(there[key]) for cell, key in keys.items() if key in there}
