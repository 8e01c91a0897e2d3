"""Up to which size attacks and learners break learning with rounding: sizes in turn, until two are not broken."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from arena._answers import answers_to, jobs_allowed
from arena.attacking import attack_here, came_of, longest_seconds
from arena.attacks import ATTACKS, AttackKind
from arena.calls import Call
from arena.curve_store import CurveStore
from arena.identity import cell_key
from arena.made_with import versions
from attention.validation import count, non_negative, require_instance
from lwe import AttackOutcome, AttackResult, Budget, LWRParameters, Matrix, law_from_json, make_samples

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
    jobs: int | None = None,
    store: CurveStore | None = None,
    fresh: bool = False,
    isolated: bool = True,
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
    jobs : int, optional
        How many attacks run at once, by default as `joblib` is configured, which is one; they share the machine, and
        with it what a second is worth.
    store : CurveStore, optional
        Where points are kept, and taken from if they are there.
    fresh : bool
        Whether every cell is run again, also those in the store.
    isolated : bool
        Whether attacks run in processes of their own; otherwise one after another, here, where nothing ends one that
        does not look at its clock.
    on_point : callable, optional
        Called with each point as it is there.

    Returns
    -------
    tuple of LWRPoint
        By attack, p and n; sizes beyond the second failure are not tried.

    Raises
    ------
    ValueError
        If a list is empty, a name unknown, or numbers do not fit together, or `jobs` is above 1 without processes of
        their own.
    StoreError
        If the store cannot be read or written.
    WorkersLostError
        If what runs the attacks broke down.

    Notes
    -----
    What is broken within seconds depends on the machine. One secret a size: a lucky or unlucky one moves a point.

    An interruption ends the processes and is passed on: what was done by then is in the store. Within `arena.cluster`
    isolated attacks run on the workers of a dask cluster. The next size of an attack begins when the one before is
    done; workers wait only where fewer sizes can begin than there are workers.
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
    jobs = jobs_allowed(jobs, isolated=isolated)
    turns, longest = _Turns(series, known), longest_seconds(Budget(seconds=float(seconds)))

    def tell(points: Sequence[LWRPoint]) -> None:
        if on_point is not None:
            for point in points:
                on_point(point)

    tell(turns.begin())
    # whoever is asked for calls must not wait for answers: the calls end, and what is ready by then begins anew
    while turns.ready:
        with answers_to(turns.calls(), jobs=jobs, timeout=longest, isolated=isolated) as answers:
            for answer in answers:
                cell: Any = answer.name
                point = _point(cell, came_of(cell.attack, answer, longest))
                if store is not None and point.outcome not in _PASSING:
                    store.put(_key(cell), point.row())
                tell(turns.go_on(point))
    found = turns.found
    order = {cell: place for place, cell in enumerate(cell for cells in series for cell in cells)}
    return tuple(sorted(found, key=lambda point: order[point.cell]))


def largest_broken(points: Sequence[LWRPoint]) -> dict[tuple[str, int], int | None]:
    """The largest n broken, by attack and p; None where none was."""
    found: dict[tuple[str, int], int | None] = {}
    for point in points:
        require_instance("A point", point, LWRPoint, needed="an LWRPoint")
        key = (point.cell.attack, point.cell.levels)
        found[key] = max(found.get(key) or 0, point.cell.secret_dim if point.broken else 0) or None
    return found


class _Turns:
    """Which cells are to be run: of each series one at a time, until so many in turn are not broken.

    Points that are known take their turn without being run. Another thread may take the calls.
    """

    def __init__(self, series: Sequence[Sequence[LWRCell]], known: Mapping[LWRCell, LWRPoint]) -> None:
        self._rest = {_series_of(cells[0]): iter(cells) for cells in series}
        self._known = known
        self._missed: Counter[tuple[str, int]] = Counter()
        self.ready: deque[LWRCell] = deque()
        self.found: list[LWRPoint] = []

    def begin(self) -> list[LWRPoint]:
        """Make the first cells ready; the points that were known."""
        return [point for series in self._rest for point in self._advance(series)]

    def go_on(self, point: LWRPoint) -> list[LWRPoint]:
        """Make the cell after this point ready, if there is to be one; the point, and those known that follow it."""
        self._settle(point)
        return [point, *self._advance(_series_of(point.cell))]

    def calls(self) -> Iterator[Call]:
        """What is ready, and what becomes so while calls are taken; it never waits."""
        while self.ready:
            cell = self.ready.popleft()
            yield Call(cell, _attacked, (ATTACKS[cell.attack], cell))

    def _advance(self, series: tuple[str, int]) -> list[LWRPoint]:
        known = []
        while self._missed[series] < _PATIENCE and (cell := next(self._rest[series], None)) is not None:
            if cell not in self._known:
                self.ready.append(cell)
                break
            known.append(self._known[cell])
            self._settle(known[-1])
        return known

    def _settle(self, point: LWRPoint) -> None:
        series = _series_of(point.cell)
        self.found.append(point)
        self._missed[series] = 0 if point.broken else self._missed[series] + 1


def _series_of(cell: LWRCell) -> tuple[str, int]:
    return cell.attack, cell.levels


def _attacked(kind: AttackKind, cell: LWRCell) -> AttackResult:
    parameters = cell.parameters
    try:
        samples, _ = make_samples(parameters, cell.samples, rng=[cell.seed, cell.secret_dim])
    except ValueError as error:  # there is not the memory for so many
        return AttackResult(cell.attack, AttackOutcome.FAILED, str(error))
    budget = Budget(seconds=cell.seconds)
    return attack_here(kind, samples, parameters, budget, [cell.seed, cell.secret_dim, 1])


def _point(cell: LWRCell, result: AttackResult) -> LWRPoint:
    return LWRPoint(cell, result.outcome.name, result.explanation, result.accuracy, result.seconds)


def _key(cell: LWRCell) -> str:
    what = {name: value for name, value in asdict(cell).items() if name not in ("attack", "seed")}
    return cell_key({"curve": "learning with rounding", **what}, cell.attack, cell.seed, versions())


def _stored(store: CurveStore, cells: Sequence[LWRCell]) -> dict[LWRCell, LWRPoint]:
    keys = {cell: _key(cell) for cell in cells}
    there = store.find(keys.values())
    return {cell: LWRPoint.from_row(there[key]) for cell, key in keys.items() if key in there}
