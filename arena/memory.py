"""What a comparison remembers from earlier runs, and what it shares with others that run at the same time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from arena.execution import CellId, Job
from arena.identity import cell_key, learner_identity, target_identity
from arena.results import Cell
from arena.store import RunStore, StoredCell, StoreError
from arena.students import Effort, set_up_for
from attention.errors import FileFormatError

__all__ = ["Memory"]


class Memory:
    """The part of a run store that one comparison speaks of; without a store, it remembers nothing.

    Parameters
    ----------
    store : RunStore or None
        Where cells are kept.
    jobs : sequence of Job
        All the cells of the comparison.
    effort : Effort
        How hard the students try.
    versions : mapping of str to str
        Versions of what the numbers depend on.
    timeout : float or None
        Seconds a cell may take.
    """

    def __init__(
        self,
        store: RunStore | None,
        jobs: Sequence[Job],
        effort: Effort,
        versions: Mapping[str, str],
        timeout: float | None,
    ) -> None:
        self._store, self._versions, self._timeout = store, dict(versions), timeout
        self._jobs = {job.id: job for job in jobs}
        self._effort = effort
        self._claimed: set[str] = set()
        self._old: dict[str, StoredCell] = {}
        self.failure: StoreError | FileFormatError | None = None
        """What went wrong with the store while jobs were claimed: `claimed` cannot raise it."""
        if store is None:
            self._keys: dict[CellId, str] = {}
            return
        # seeds share their pair, and pairs their target
        of_target = {job.target.name: job for job in jobs}
        of_pair = {job.id[:2]: job for job in jobs}
        targets = {name: target_identity(job.target) for name, job in of_target.items()}
        pairs = {
            pair: (targets[pair[0]], learner_identity(job.student, job.target, effort))
            for pair, job in of_pair.items()
        }
        self._keys = {job.id: cell_key(*pairs[job.id[:2]], job.seed, versions) for job in jobs}

    def disregard(self, *, everything: bool, failed: bool) -> None:
        """Take what is there now, everything or what failed, as if it were not; it stays until it is replaced."""
        self._old |= {
            key: stored
            for key, stored in self._found().items()
            if everything or (failed and stored.cell.status in ("failed", "timed out"))
        }

    def recall(self) -> dict[CellId, Cell]:
        """The cells that are there, those left out that ran out of a shorter time than this comparison allows."""
        found = self._found()
        self._old |= {key: stored for key, stored in found.items() if self._was_stopped_early(stored)}
        return {
            which: replace(found[key].cell, target=which[0])
            for which, key in self._keys.items()
            if key in found and not self._is_old(found[key])
        }

    def claimed(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Those of the jobs that no other process has or has done, each claimed when it is asked for."""
        for job in jobs:
            if self._store is None:
                yield job
                continue
            try:
                key = self._keys[job.id]
                free = self._store.claim(key, instead_of=self._old.get(key))
            except (StoreError, FileFormatError) as error:
                # whoever iterates is in the middle of starting work: it just ends
                self.failure = error
                return
            if free:
                self._claimed.add(self._keys[job.id])
                yield job

    def keep(self, cell: Cell) -> None:
        """Keep a cell that is done.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        if self._store is None:
            return
        which = (cell.target, cell.learner, cell.seed)
        job = self._jobs[which]
        self._store.put(
            self._keys[which],
            cell,
            target=job.target.record,
            learner=job.student.record(set_up_for(job.student, [job.target], self._effort)),
            versions=self._versions,
            timeout=self._timeout,
        )

    def give_back(self) -> None:
        """End the claims of what was begun and not done, so that others, or the next comparison, may do it."""
        if self._store is not None:
            with suppress(StoreError, FileFormatError):
                self._store.give_back(self._claimed)

    def _found(self) -> dict[str, StoredCell]:
        return {} if self._store is None else self._store.find(self._keys.values())

    def _is_old(self, stored: StoredCell) -> bool:
        old = self._old.get(stored.key)
        return old is not None and old.finished == stored.finished

    def _was_stopped_early(self, stored: StoredCell) -> bool:
        if stored.cell.status != "timed out":
            return False
        return self._timeout is None or self._timeout > (stored.timeout or 0.0)
