"""Every secret that the law can draw is tried, and dropped at the first sample that it contradicts."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attention.validation import count
from lwe.attack import AttackOutcome, AttackResult, BudgetSpentError, RefusedError
from lwe.attacks.candidates import Judge, Windows
from lwe.attacks.secret_space import Half, SecretSpace, secret_space
from lwe.attempt import Attempt, BaseAttack

__all__ = ["ExhaustiveAttack", "search_secrets"]

Search = Callable[[Attempt, SecretSpace, Windows, Judge], None]

_BLOCK = 1 << 16  # candidates at once: the numbers of a block stay in the processor's cache
_PREFIXES = 256
_MISSED = 0.01  # of one round with errors


@dataclass(frozen=True)
class ExhaustiveAttack(BaseAttack):
    """Try all secrets of the law, sample by sample with early abort.

    Applies to secrets from few: binary, ternary, sparse, binomial and rounded Gaussian ones, and uniform ones of a
    small modulus; with any public matrix, with rounding and with small errors.

    Parameters
    ----------
    work : int, optional
        The most candidates it may have to look at; None for no limit but the budget's seconds. More are refused
        before any is looked at, whatever the machine.

    Raises
    ------
    ValueError
        If `work` is below 1.

    Notes
    -----
    S candidates cost O(S / (1 - r)) tests if a sample leaves a share r, which is about 1/p: v^n for entries of v
    values, C(n, h) 2^h for sparse ones. The inner products of the last entries are a table, to which those of the
    first ones are added, so a test is an addition and a comparison of small integers, a block of candidates at
    once. The samples that exclude most are taken first. Memory is constant.

    Without errors it is complete: if a secret of the law has all labels, one is found. With errors a candidate is
    dropped at an error that is rarer than a share of 1/100 over all samples used; should nobody remain, up to two
    more rounds use other samples. Tails of the law that a secret reaches with a probability below 1/1000 are not
    tried. Both are in `details`.

    References
    ----------
    Folklore; as a baseline in Albrecht, Player and Scott 2015, "On the concrete hardness of learning with errors".
    The tables and the windows are derived here.

    Examples
    --------
    >>> from lwe.laws import TernaryLaw
    >>> from lwe.parameters import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=8, modulus=16, levels=2, secret=TernaryLaw())
    >>> samples, secret = make_samples(parameters, 500, rng=0)
    >>> result = ExhaustiveAttack()(samples, parameters, rng=0)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    work: int | None = 1 << 36

    name: ClassVar[str] = "exhaustive"

    def __post_init__(self) -> None:
        if self.work is not None:
            object.__setattr__(self, "work", count("work", self.work))

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Search, in up to three rounds where there are errors."""
        return search_secrets(attempt, generator, self.work, self._search)

    @staticmethod
    def _search(attempt: Attempt, space: SecretSpace, windows: Windows, judge: Judge) -> None:
        n, tried, began = attempt.parameters.secret_dim, 0, time.perf_counter()
        size = max(one for one in range(n + 1) if max(r.number for _, r in space.split(one)) <= _BLOCK)
        dense = 1 + int(np.argmax(np.append(np.cumprod(windows.passing), 0) < 1 / 12))
        for first, last in space.split(size):
            right = windows.sums(last, slice(n - size, n), shifted=True, check=attempt.check)
            for start in range(0, first.number, _PREFIXES):
                prefixes = first.vectors(np.arange(start, min(start + _PREFIXES, first.number)))
                left = windows.some_sums(prefixes, slice(0, n - size))
                for column, prefix in enumerate(prefixes):
                    attempt.check()
                    found = _survivors(windows, left[:, column : column + 1], right, dense)
                    tried += last.number
                    attempt.details["tried"] = tried
                    if len(found) and judge.offer(_joined(prefix, last, found)):
                        return
                _require_time(attempt, space, tried, time.perf_counter() - began)


def search_secrets(
    attempt: Attempt, generator: np.random.Generator, work: int | None, search: Search
) -> AttackResult:
    """What exhaustive search and meet in the middle share: limits, the choice of samples, rounds, the answer.

    `search(attempt, space, windows, judge)` offers to the judge all candidates that pass the windows.
    """
    parameters = attempt.parameters
    space = secret_space(parameters)
    if space is None:
        return attempt.ended(
            AttackOutcome.NOT_APPLICABLE,
            f"The entries of a {parameters.secret} secret have too many values to list.",
        )
    if parameters.noise.is_uniform(parameters.modulus) and space.number > 1:
        return attempt.ended(
            AttackOutcome.NOT_APPLICABLE,
            f"Labels do not depend on the secret: errors {parameters.noise} are uniform mod {parameters.modulus}.",
        )
    limit = min(1 << 62, work or 1 << 62)
    if space.number > limit:
        raise RefusedError(
            f"There are {space.words} candidates; work for 2^{math.log2(limit):.1f} is allowed: take a smaller secret."
        )
    attempt.details |= {"candidates": space.number, "missed_tails": space.missed}
    if space.number == 1:
        return attempt.found(_only(space, parameters.secret_dim), "The law has one secret only: this one.")
    rounds = 3 if parameters.noisy else 1
    for turn in range(1, rounds + 1):
        windows = Windows.choose(
            attempt.training, parameters, space, missed=_MISSED / 64, generator=generator
        )
        if not len(windows) and space.number > 1:
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE,
                "No sample excludes any candidate: the labels of all of them are alike, or the errors too wide.",
            )
        if windows.left * space.number > 1e6:
            return attempt.ended(
                AttackOutcome.TOO_FEW_SAMPLES,
                f"{len(windows)} samples would leave about {windows.left * space.number:.2g} of {space.words} "
                "candidates: give more samples.",
            )
        missed = len(windows) * _MISSED / 64 if parameters.noisy else 0.0
        attempt.details |= {"windows": len(windows), "rounds": turn, "missed_errors": missed**turn}
        judge = Judge(attempt)
        spent = None
        try:
            search(attempt, space, windows, judge)
        except BudgetSpentError as error:
            if judge.best is None:
                raise
            spent = error
        attempt.details["judged"] = judge.offered
        if judge.best is not None:
            told = "the likeliest" if parameters.noisy else "with all labels"
            result = attempt.found(
                judge.best,
                f"Of {space.words} candidates a secret was found, {told} of {len(attempt.training)}.",
            )
            return result if spent is None else attempt.stopped(result, f"Others were left over. {spent}")
    return attempt.ended(
        AttackOutcome.NOTHING,
        f"None of {space.words} candidates has the labels: the secret or the errors are of another law.",
    )


def _only(space: SecretSpace, size: int) -> np.ndarray:
    none, whole = space.split(size)[0]
    at = np.zeros(1, dtype=np.int64)
    return np.concatenate([none.vectors(at), whole.vectors(at)], axis=1)[0]


def _survivors(windows: Windows, left: np.ndarray, right: np.ndarray, dense: int) -> np.ndarray:
    """The columns of `right` that pass: the first tests on all of them, the later ones on those that are left."""
    ring, widths = windows.ring, windows.widths
    passed = (
        ring.below(left[0], right[0], int(widths[0])) if len(windows) else np.ones(right.shape[1], dtype=bool)
    )
    for test in range(1, min(dense, len(windows))):
        passed &= ring.below(left[test], right[test], int(widths[test]))
    found = np.flatnonzero(passed)
    for test in range(max(dense, 1), len(windows)):
        if not len(found):
            break
        found = found[ring.below(left[test], right[test].take(found), int(widths[test]))]
    return found


def _joined(prefix: np.ndarray, last: Half, found: np.ndarray) -> np.ndarray:
    ends = last.vectors(found)
    return np.concatenate([np.broadcast_to(prefix, (len(ends), len(prefix))), ends], axis=1)


def _require_time(attempt: Attempt, space: SecretSpace, tried: int, seconds: float) -> None:
    """Give up at once where the speed so far says that the time does not suffice."""
    if seconds < 0.2:
        return
    needed = seconds / tried * (space.number - tried)
    if needed > attempt.seconds_left:
        raise RefusedError(
            f"There are {space.words} candidates, looked at {tried / seconds:.2g} a second: {needed:.3g} more seconds "
            f"are needed and {attempt.seconds_left:.3g} are left."
        )
