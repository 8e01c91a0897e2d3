"""The primal lattice attack: the errors as a short vector of Kannan's embedding, found by LLL and BKZ."""

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from attention.validation import PositiveInt, Whole, checked
from lwe.attacks.attack import Attack, AttackResult, Attempt
from lwe.attacks.bases import Embedding, primal_embedding
from lwe.attacks.best_secret import BestSecret
from lwe.attacks.blocks import Reduction, larger_block, most_rows, require_fpylll
from lwe.attacks.outcome import (
    AttackOutcome,
    BudgetSpentError,
    NotApplicableError,
    RefusedError,
    TooFewSamplesError,
)
from lwe.attacks.zero_columns import best_plan, secrets_of_zero_rows, zero_columns
from lwe.costs.deviations import deviations
from lwe.costs.primal import PrimalShape, best_primal_shape, fewest_samples, lengths_tell, primal_shape
from lwe.distributions import FixedWeight

__all__ = ["LatticeAttack"]

# Logs of the ratio of other vectors' length to that of the errors: first those for which LLL should suffice, largest
# first, then the least otherwise. A larger ratio is safer, but needs more samples, larger blocks and more time.
_WIDE_GAPS, _LEAST_GAP = (0.4, 0.12), 0.03
_ROUNDS = 3  # how many bases are reduced if neither seconds nor rounds are given
_SECONDS_OF_LISTS = 20.0  # the most that lists of secrets are expected to take if there is no time limit
_EASY = 20  # the largest predicted block of a lattice whose columns are guessed; blocks of 40 are used
_ROWS_OF_ROUNDS = 260  # the largest size of a basis if rounds, not seconds, limit the work


@dataclass(frozen=True)
@checked
class LatticeAttack(Attack):
    """Reduce Kannan's embedding of m samples until a row consists of the errors; compute the secret from it.

    With a public matrix of bits or trits it begins with samples that are zero in some columns, which are samples of a
    smaller problem.

    Notes
    -----
    Bits and trits: about one row in 2^f is zero in f columns. Trial by trial, the attack takes m such rows, reduces
    their lattice, and lists the vectors that are as close to the labels as the errors are, by pruned enumeration. Most
    of them belong to wrong secrets. Thousands of rows that were not used, with one nonzero entry in those columns,
    tell which one is right, and complete it (`lwe.attacks.zero_columns`). `best_plan` chooses f, m and the pruning. The
    trials end when the secret is missed with probability e^-7, or if the plan would outlast the budget it makes none.

    Sparse secrets: columns are left out at random, in the hope that the secret is zero there, and the embedding of the
    others is reduced; trial by trial, again until e^-7 (drop and solve, Albrecht 2017).

    Then, and otherwise, the embedding of all columns:

    A label counts as the middle of its interval, and rounding as an error uniform in it. If it helps, a secret smaller
    than uniform becomes a weighted part of the short vector. LLL runs first, then tours of BKZ with blocks growing from
    10. Rows that contain the target once are read as secrets and compared on all samples, by the number of
    right labels, and with errors by likelihood. A matrix of bits has short vectors of its own, so several secrets have
    nearly the same labels; such a secret is improved by least squares. The attack ends when the samples
    support a secret as `judged` requires. If the tours end first, it takes other and more samples.

    Time 2^(0.18 beta log2 beta) per tour with block size beta as in `lwe.costs.primal_cost`, and O(m^5) for LLL. The
    budget is checked between blocks. LLL cannot be stopped, so a rule of thumb limits bases to a size that LLL reduces
    in half of the budget.

    References
    ----------
    Kannan 1987; Schnorr and Euchner 1994; Chen and Nguyen 2011, "BKZ 2.0"; Bai and Galbraith 2014; fpylll.

    Examples
    --------
    >>> from lwe import LWEParameters, make_samples
    >>> parameters = LWEParameters(n=8, q=128, p=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = LatticeAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    largest_block: Annotated[int, Whole(2)] = 74  #: the largest block size of BKZ, from 2
    #: The most embeddings that are reduced. If left out, they are reduced while there is time, or 3 without a limit.
    #: Without a time limit neither the work nor the result depends on the machine.
    rounds: PositiveInt | None = None
    name: ClassVar[str] = "primal lattice"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Reduce, read secrets, and repeat with other samples while there is time."""
        require_fpylll()
        parameters = attempt.parameters
        if deviations(parameters).secret == 0:
            only = np.full(parameters.n, round(deviations(parameters).secret_mean))
            return attempt.found(
                only, "The law of the secret allows this one only: nothing had to be searched."
            )
        if not lengths_tell(parameters):
            raise NotApplicableError(
                "Lengths of errors say nothing here: the modulus is 2, or errors are as wide as the modulus."
            )
        training = attempt.samples
        most = self.rounds or (_ROUNDS if attempt.budget.seconds is None else None)
        shape = _first_shape(attempt, _most_rows(attempt, most))
        search, rounds = _Search(attempt), 0
        try:
            self._list(search, generator)
            self._guess(search, generator)
            while not search.solved and rounds != most:
                rounds += 1
                order = np.arange(len(training)) if rounds == 1 else generator.permutation(len(training))
                chosen = order[: shape.samples]
                some = training.at(chosen)
                attempt.details.update(samples=shape.samples, rounds=rounds)
                attempt.details.pop("zero_columns", None)
                embedding = primal_embedding(some, parameters, shape)
                self._reduce(search, embedding, Reduction(embedding.basis, attempt, generator))
                if rounds > 1 and shape.samples == len(training):
                    break
                within = _most_rows(attempt, most) - 1 - (parameters.n if shape.weighted else 0)
                more = min(math.ceil(1.15 * shape.samples), len(training), max(within, shape.samples))
                shape = primal_shape(parameters, more, weighted=shape.weighted)
        except BudgetSpentError as spent:
            if search.best.secret is None:
                raise
            return attempt.stopped(search.result(), spent)
        return search.result()

    def _list(self, search: "_Search", generator: np.random.Generator) -> None:
        """List secrets by rows that are zero in some columns, if such a plan exists; trials end before its seconds."""
        attempt = search.attempt
        parameters, public = attempt.parameters, attempt.samples.public
        if parameters.matrix not in ("binary", "ternary"):
            return
        seconds = _SECONDS_OF_LISTS if attempt.budget.seconds is None else attempt.seconds_left
        _, rows = zero_columns(public, parameters.n - 1, generator)
        plan = best_plan(parameters, [len(one) for one in rows], seconds)
        if plan is None:
            return
        for trial in range(plan.trials):
            attempt.check()
            attempt.details.update(samples=plan.samples, zero_columns=plan.columns, rounds=trial + 1)
            for secret in secrets_of_zero_rows(attempt, plan, generator):
                search.best.offer(secret)
                if search.solved:
                    return

    def _guess(self, search: "_Search", generator: np.random.Generator) -> None:
        """Guess columns where a sparse secret is zero, trial by trial, and leave them out."""
        attempt, parameters = search.attempt, search.attempt.parameters
        if search.solved or not isinstance(parameters.Xs, FixedWeight):
            return
        n, weight = parameters.n, parameters.Xs.total
        found, least = None, attempt.seconds_left if attempt.budget.seconds is not None else _SECONDS_OF_LISTS
        for size in range(n - 5, max(weight, n // 4), -5):
            few = parameters.updated(n=size)
            shape = best_primal_shape(few, len(attempt.samples), least_gap=_WIDE_GAPS[1])
            success = math.comb(size, weight) / math.comb(n, weight)
            if shape is None or (shape.block_size or 0) > _EASY:
                continue
            seconds = 0.07 * (shape.dimension / 58) ** 5 / success  # as measured on one core
            if seconds < least:
                found, least = (few, shape, math.ceil(7 / success)), seconds
        if found is None:
            return
        few, shape, trials = found
        for trial in range(trials):
            attempt.details.update(samples=shape.samples, guessed_zeros=n - few.n, rounds=trial + 1)
            columns = np.sort(generator.permutation(n)[: few.n])
            chosen = generator.permutation(len(attempt.samples))[: shape.samples]
            some = attempt.samples.at(chosen)
            some = replace(some, public=some.public[:, columns])
            embedding = primal_embedding(some, few, shape)
            reduction = Reduction(embedding.basis, attempt, generator)
            for block_size in (2, 10, 20, 30, 40):
                deque(reduction.tour(block_size), maxlen=0)
                search.look(reduction, embedding, range(reduction.dim), columns)
                if search.solved:
                    return
        del attempt.details["guessed_zeros"]

    def _reduce(self, search: "_Search", embedding: Embedding, reduction: Reduction) -> None:
        attempt, size = search.attempt, reduction.dim
        search.look(reduction, embedding, range(size))
        # once the lattice's own short vectors are the first rows, blocks among them find nothing
        own = len(embedding.own)
        both = np.vstack([embedding.own, reduction.rows(range(own))]).astype(np.float64)
        first = own if own and np.linalg.matrix_rank(both) <= own else 0
        largest = min(self.largest_block, size - first)
        block_size, still = min(10, largest), 0
        while not search.solved and still < 3:
            attempt.check()
            if reduction.tour_seconds(block_size, first) > attempt.seconds_left:
                raise BudgetSpentError(f"No time was left for a tour with blocks of {block_size}.")
            attempt.details["block_size"] = block_size
            for place in reduction.tour(block_size, first):
                # secrets near the right one may be in any row; the errors are only in the block just reduced
                block = range(place, min(place + block_size, size))
                search.look(reduction, embedding, range(size) if own else block)
                if search.solved:
                    return
            search.look(reduction, embedding, range(size))
            if block_size >= largest:
                still += 1
            block_size = min(larger_block(block_size), max(largest, 2))


class _Search:
    """The rows of a basis read as secrets, and the best of these."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.best = BestSecret(attempt)
        self._seen: set[bytes] = set()

    @property
    def solved(self) -> bool:
        return self.best.solved

    def look(
        self, reduction: Reduction, embedding: Embedding, places: range, columns: np.ndarray | None = None
    ) -> None:
        """Read rows as secrets if they contain the target once and may be the errors.

        With `columns` they are the secret's entries there, and its others are zero.
        """
        # with uniform vectors only the errors themselves are useful
        longest = math.inf if len(embedding.own) else embedding.factor * math.sqrt(2 * reduction.dim)
        for row in reduction.rows(reduction.marked(embedding.factor, places, longest=longest)):
            if row.tobytes() in self._seen:
                continue
            self._seen.add(row.tobytes())
            secret = embedding.secret(row)
            if secret is not None and columns is not None:
                whole = np.zeros(self.attempt.parameters.n, dtype=np.int64)
                whole[columns] = secret
                secret = whole
            if secret is not None:
                self.best.offer(secret)

    def result(self) -> AttackResult:
        details = self.attempt.details
        zero = f" that are 0 in {details['zero_columns']} columns" if "zero_columns" in details else ""
        less = f" without {details['guessed_zeros']} columns" if "guessed_zeros" in details else ""
        words = (
            f"{details['samples']} samples{zero}{less} in a lattice of dimension {details['dimension']}, LLL and BKZ "
            f"with blocks up to {details['block_size']}"
        )
        if self.best.secret is None:
            return self.attempt.ended(
                AttackOutcome.NOTHING, f"No vector of the lattice was as short as the errors are: {words}."
            )
        return self.attempt.found(self.best.secret, f"{words[0].upper()}{words[1:]}.")


def _most_rows(attempt: Attempt, rounds: int | None) -> int:
    """The rows that LLL can reduce in half of the time left, or the fixed number if rounds limit the work."""
    rows = most_rows(attempt.seconds_left, attempt.parameters.q)
    return rows if rounds is None else min(rows, _ROWS_OF_ROUNDS)


def _first_shape(attempt: Attempt, rows: int) -> PrimalShape:
    """The first lattice to reduce, with at most `rows` rows."""
    parameters, given = attempt.parameters, len(attempt.samples)
    for gap in (*_WIDE_GAPS, _LEAST_GAP, 0.0):
        shape = best_primal_shape(parameters, given, least_gap=gap, most_rows=rows, determined=False)
        # if LLL should suffice, a few more samples cost little and make success safer
        if shape is not None and (gap not in _WIDE_GAPS or (shape.block_size or 0) <= 10):
            return shape
    n, small = parameters.n, deviations(parameters).small_secret
    fewest, others = fewest_samples(parameters, determined=False), 1 + (n if small else 0)
    fewest = fewest if small else max(fewest, n + 1)
    if given < fewest:
        raise TooFewSamplesError(
            f"{given} samples to learn from are too few for a lattice with the secret in it: {fewest} are needed."
        )
    if fewest + others > rows:
        raise RefusedError(
            f"A basis of at least {fewest + others} rows is needed, and {rows} are the most: LLL cannot be "
            "stopped, and more might outlast half of the budget."
        )
    return primal_shape(parameters, min(given, rows - others))
