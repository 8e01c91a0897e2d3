"""The primal lattice attack: the errors as a short vector of Kannan's embedding, found by LLL and BKZ."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from attention.validation import count, non_negative, require_instance
from lwe.attack import AttackOutcome, AttackResult, BudgetSpentError, RefusedError
from lwe.attacks.bases import Embedding, label_intervals, primal_embedding
from lwe.attacks.blocks import FPYLLL_MISSING, Reduction, fpylll_installed, most_rows
from lwe.attempt import LEVEL, Attempt, BaseAttack, share_right
from lwe.costs import PrimalShape, best_primal_shape, deviations, fewest_samples, primal_shape
from lwe.costs.primal import lengths_tell
from lwe.evidence import accuracy_bar, as_likely_as_own, fits_in_order, label_log_likelihoods
from lwe.parameters import LWRParameters, centred, require_parameters
from lwe.residues import whole_array
from lwe.samples import LWRSamples

__all__ = ["LatticeAttack", "refined_secret"]

_WIDE_GAPS = (0.4, 0.12)
"""Gaps that are taken, the widest first, where LLL is said to find the errors with them."""

_ROUNDS = 3
"""How many bases are reduced where neither seconds nor rounds say it."""

_ROWS_OF_ROUNDS = 260
"""The size of a basis at the most where rounds limit the work in place of seconds."""

_JUDGES = 1000
"""How many samples at the most tell whether labels bear a secret out; as many as are ever held out."""

_STEPS_OF_PROGRAM = 20_000
"""Of the simplex method; a linear program that takes more of them is given up."""


@dataclass(frozen=True)
class LatticeAttack(BaseAttack):
    """Reduce Kannan's embedding of m samples until a row of it is the errors; read the secret off.

    Parameters
    ----------
    largest_block : int
        The largest block size of BKZ, from 2.
    samples : int, optional
        m; by default what the estimate of the block size is least for.
    least_gap : float
        The least log of the ratio by which the errors must be shorter than other vectors, where m is chosen here and
        LLL alone is not enough. Wider is surer, but takes more samples, larger blocks and so more time; another set of
        samples is the cheaper remedy.
    rounds : int, optional
        How many bases are reduced at most. Left out: while there is time, and 3 where the budget has no seconds.
        Without seconds the work has a limit that does not depend on the machine, and neither does the result.

    Notes
    -----
    Applies to learning with errors and with rounding: a label is the middle of its interval, rounding an error uniform
    in it. Secrets smaller than uniform are made a part of the short vector, weighted, where that helps (Bai and
    Galbraith); m is near sqrt(n log q / log delta). LLL, then tours of BKZ with blocks growing from 10; rows
    that have the target once are read as secrets and compared on all samples to learn from, by the labels they have
    right, and with errors by the likelihood of the labels. The
    best is the answer, whether or not it was planted: a matrix of bits has short vectors of its own, so that several
    secrets have nearly the same labels. Such a secret is then improved by least squares on all samples. It ends with a
    secret that these samples bear out as `Attempt.predicts` asks of one that breaks the others. If tours end, other
    samples are taken, more of them.

    Time 2^Theta(beta) per tour with block size beta, by enumeration 2^(0.18 beta log2 beta), and O(m^5) for LLL;
    beta as in `lwe.costs.primal_cost`. The budget is looked at between blocks; LLL cannot be stopped, and bases are
    kept to a size that it reduces in half of the budget, by a rule of thumb.

    References
    ----------
    Kannan 1987, "Minkowski's convex body theorem and integer programming"; Lenstra, Lenstra and Lovasz 1982; Schnorr
    and Euchner 1994; Chen and Nguyen 2011, "BKZ 2.0"; Bai and Galbraith 2014, "Lattice decoding attacks on binary
    LWE"; fpylll.

    Examples
    --------
    >>> from lwe import LWRParameters
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=8, modulus=128, levels=32, matrix="uniform")
    >>> samples, secret = make_samples(parameters, 200, rng=0)
    >>> result = LatticeAttack()(samples, parameters, rng=0)
    >>> result.outcome.name in ("BROKEN", "MISSING")  # missing without fpylll
    True
    """

    largest_block: int = 74
    samples: int | None = None
    least_gap: float = 0.03
    rounds: int | None = None
    name: ClassVar[str] = "primal lattice"

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest_block", count("largest_block", self.largest_block, least=2))
        object.__setattr__(self, "least_gap", non_negative("least_gap", self.least_gap))
        for name, least in (("samples", 2), ("rounds", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, count(name, getattr(self, name), least=least))

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Reduce, read, repeat with other samples while there is time."""
        if not fpylll_installed():
            return attempt.ended(AttackOutcome.MISSING, FPYLLL_MISSING)
        parameters = attempt.parameters
        if deviations(parameters).secret == 0:
            only = np.full(parameters.secret_dim, round(deviations(parameters).secret_mean))
            return attempt.found(
                only, "The law of the secret allows this one only: nothing had to be searched."
            )
        if not lengths_tell(parameters):
            return attempt.ended(
                AttackOutcome.NOT_APPLICABLE,
                "Lengths of errors say nothing here: the modulus is 2, or errors are as wide as the modulus.",
            )
        training = attempt.training
        shape = self._shape(attempt)
        if shape is None:
            return attempt.ended(AttackOutcome.TOO_FEW_SAMPLES, self._too_few(attempt))
        search = _Search(attempt)
        rounds = 0
        try:
            while not search.solved and rounds != self._most_rounds(attempt):
                rounds += 1
                order = np.arange(len(training)) if rounds == 1 else generator.permutation(len(training))
                chosen = LWRSamples(
                    training.public[order[: shape.samples]], training.labels[order[: shape.samples]]
                )
                attempt.details.update(samples=shape.samples, rounds=rounds)
                self._reduce(
                    search, primal_embedding(chosen, parameters, shape), int(generator.integers(2**31))
                )
                if rounds > 1 and shape.samples == len(training):
                    break
                shape = self._more(attempt, shape)
        except BudgetSpentError as spent:
            if search.best is None:
                raise
            return attempt.stopped(search.result(), spent)
        return search.result()

    def _shape(self, attempt: Attempt) -> PrimalShape | None:
        """The lattice to begin with, within what LLL can do in half of the budget."""
        if self.samples is not None:
            return primal_shape(attempt.parameters, min(self.samples, len(attempt.training)))
        rows = self._most_rows(attempt)
        given = len(attempt.training)
        for gap in (*_WIDE_GAPS, self.least_gap, 0.0):
            shape = best_primal_shape(
                attempt.parameters, given, least_gap=gap, most_rows=rows, determined=False
            )
            # where LLL is said to be enough a few samples more cost little, and make it surer
            if shape is not None and (gap not in _WIDE_GAPS or (shape.block_size or 0) <= 10):
                return shape
        fewest = _fewest(attempt.parameters)
        others = 1 + (attempt.parameters.secret_dim if deviations(attempt.parameters).small_secret else 0)
        if given < fewest:
            return None
        if fewest + others > rows:
            raise RefusedError(
                f"A basis of at least {fewest + others} rows is needed, and {rows} are the most: LLL cannot be "
                "stopped, and more might outlast half of the budget."
            )
        return primal_shape(attempt.parameters, min(given, rows - others))

    def _more(self, attempt: Attempt, shape: PrimalShape) -> PrimalShape:
        parameters = attempt.parameters
        others = 1 + (parameters.secret_dim if shape.weighted else 0)
        within = max(self._most_rows(attempt) - others, shape.samples)
        more = min(math.ceil(1.15 * shape.samples), len(attempt.training), within)
        return primal_shape(parameters, more, weighted=shape.weighted)

    def _most_rows(self, attempt: Attempt) -> int:
        rows = most_rows(attempt.seconds_left, attempt.parameters.modulus)
        return rows if self._most_rounds(attempt) is None else min(rows, _ROWS_OF_ROUNDS)

    def _most_rounds(self, attempt: Attempt) -> int | None:
        without_clock = _ROUNDS if attempt.budget.seconds is None else None
        return without_clock if self.rounds is None else self.rounds

    def _too_few(self, attempt: Attempt) -> str:
        return (
            f"{len(attempt.training)} samples to learn from are too few for a lattice with the secret in it: "
            f"{_fewest(attempt.parameters)} are needed."
        )

    def _reduce(self, search: "_Search", embedding: Embedding, seed: int) -> None:
        attempt = search.attempt
        size = len(embedding.basis)
        attempt.require_memory(64 * size**2, f"A basis of {size} rows")
        reduction = Reduction(embedding.basis, attempt.check, seed)
        attempt.details.update(dimension=size, block_size=2)
        reduction.lll()
        search.look(reduction, embedding)
        # blocks among its own short vectors find nothing, once those are the first rows
        own = len(embedding.own)
        first = own if own and embedding.leads(reduction.rows(range(own))) else 0
        largest = min(self.largest_block, size - first)
        block_size, still = min(10, largest), 0
        while not search.solved and still < 3:
            attempt.check()
            if reduction.tour_seconds(block_size, first) > attempt.seconds_left:
                raise BudgetSpentError(f"No time was left for a tour with blocks of {block_size}.")
            attempt.details["block_size"] = block_size
            for place in reduction.tour(block_size, first):
                # secrets near the right one may be in any row, the errors themselves only in a block just done
                block = range(place, min(place + block_size, size))
                search.look(reduction, embedding, None if own else block)
                if search.solved:
                    return
            search.look(reduction, embedding)
            if block_size >= largest:
                still += 1
            block_size = min(block_size + (4 if block_size < 46 else 2), max(largest, 2))


class _Search:
    """The best secret so far, by the labels of the samples to learn from."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.best: np.ndarray | None = None
        self.score = -math.inf
        self.solved = False
        """Whether the best secret predicts the labels as well as the true one would."""
        labels, parameters = attempt.training.labels, attempt.parameters
        chance = float(np.unique(labels, return_counts=True)[1].max()) / len(labels)
        self._above_chance = chance + 4 * math.sqrt(chance * (1 - chance) / len(labels))
        self._bar = accuracy_bar(parameters, len(labels))
        self._likelihoods: Callable[[np.ndarray], np.ndarray] | None = None
        if parameters.noisy:
            with suppress(
                BudgetSpentError
            ):  # too many errors to list: labels are compared as if there were none
                self._likelihoods = label_log_likelihoods(attempt.training, parameters)
        self._seen: set[bytes] = set()

    def look(self, reduction: Reduction, embedding: Embedding, places: range | None = None) -> None:
        """Read rows, all or some, as secrets, if they have the target once and might be the errors."""
        # among uniform vectors nothing but the errors themselves is of use
        longest = math.inf if len(embedding.own) else embedding.factor * math.sqrt(2 * reduction.dim)
        for place in reduction.marked(embedding.factor, places, longest=longest):
            row = reduction.rows((place,))[0]
            key = row.tobytes()
            if key in self._seen:
                continue
            self._seen.add(key)
            secret = embedding.secret(row)
            if secret is not None:
                self.offer(secret)

    def offer(self, secret: np.ndarray) -> None:
        """Compare a secret with the best so far, and so what least squares makes of it."""
        samples, parameters = self.attempt.training, self.attempt.parameters
        best = self._compare(secret)
        if self.solved or parameters.matrix not in ("binary", "ternary"):
            return
        # by its likelihood a secret leads long before it has more labels right than chance
        if best if self._likelihoods is not None else self._near(secret):
            self._compare(
                refined_secret(secret, samples, parameters, seconds=max(0.0, self.attempt.seconds_left))
            )

    def _compare(self, secret: np.ndarray) -> bool:
        """Whether it is the best so far, which it then becomes."""
        score = self._right(secret) if self._likelihoods is None else float(self._likelihoods(secret).sum())
        if score <= self.score:
            return False
        self.best, self.score = secret, score
        self.solved = self._as_the_true_one(secret)
        return True

    def _right(self, secret: np.ndarray) -> float:
        return share_right(secret, self.attempt.training, self.attempt.parameters)

    def _near(self, secret: np.ndarray) -> bool:
        return self._right(secret) > self._above_chance

    def _as_the_true_one(self, secret: np.ndarray) -> bool:
        if self._right(secret) < self._bar:
            return False
        if self._likelihoods is None:
            return self._near(secret)
        samples, parameters = self.attempt.training, self.attempt.parameters
        some = samples.take(min(len(samples), _JUDGES))
        return as_likely_as_own(secret, some, parameters) and (
            self._near(secret) or fits_in_order(secret, some, parameters, level=LEVEL)
        )

    def result(self) -> AttackResult:
        details = self.attempt.details
        words = (
            f"{details['samples']} samples in a lattice of dimension {details['dimension']}, LLL and BKZ with blocks "
            f"up to {details['block_size']}"
        )
        if self.best is None:
            return self.attempt.ended(
                AttackOutcome.NOTHING,
                f"No vector of the lattice was as short as the errors are: {words}.",
            )
        return self.attempt.found(self.best, f"{words[0].upper()}{words[1:]}.")


def refined_secret(
    secret: Int[np.ndarray, " n"],
    samples: LWRSamples,
    parameters: LWRParameters,
    *,
    most: int = 3000,
    seconds: float = math.inf,
) -> Int[np.ndarray, " n"]:
    """A secret near the right one, made exact where the public matrix is small: least squares, then a linear program.

    Parameters
    ----------
    secret : array of int (n,)
        One that predicts better than chance.
    samples : LWRSamples
        As many as there are; at most `most` of them are used.
    parameters : LWRParameters
        With a matrix of bits or trits.
    most : int
        How many samples are used.
    seconds : float
        How long the linear program may take, beside a limit on its steps.

    Notes
    -----
    A secret off by little has inner products off by little: it tells how often each one wraps around q, after
    which the labels are linear. Without errors before rounding each label is two inequalities, and the secret with the
    most room on both sides of all of them is rounded. Derived here. O(N n^2), and one linear program of N rows.
    """
    require_instance(
        "samples", samples, LWRSamples, needed="LWRSamples, as make_samples or read_samples give them,"
    )
    require_parameters(parameters)
    secret = whole_array("secret", secret)
    if secret.shape != (samples.secret_dim,):
        raise ValueError(f"secret has shape {secret.shape}: ({samples.secret_dim},) is needed.")
    if not (isinstance(seconds, float) and seconds == math.inf):
        seconds = non_negative("seconds", seconds)
    most = count("most", most, least=1)
    q = parameters.modulus
    public = samples.public[:most]
    low, high = label_intervals(samples.labels[:most], parameters)
    middle = (low + high) / 2 - deviations(parameters).error_mean
    best = centred(secret, q)
    products = public @ best
    for _ in range(5):
        wraps = q * np.rint((products - middle) / q)
        fitted = np.linalg.lstsq(public.astype(np.float64), middle + wraps, rcond=None)[0]
        products = public @ fitted
        again = np.rint(fitted).astype(np.int64)
        if np.array_equal(again, best):
            break
        best = again
    if parameters.noisy or share_right(best, samples, parameters) == 1.0:
        return best
    wraps = q * np.rint((products - middle) / q)
    room = _roomiest(public, low + wraps, high + wraps, seconds)
    return best if room is None else room


def _roomiest(public: np.ndarray, low: np.ndarray, high: np.ndarray, seconds: float) -> np.ndarray | None:
    """The s, rounded, with low <= A s <= high by the widest margin."""
    from scipy.optimize import linprog

    rows, n = public.shape
    above = np.column_stack([public, np.ones(rows)])
    below = np.column_stack([-public, np.ones(rows)])
    program = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([above, below]),
        b_ub=np.concatenate([high, -low]),
        bounds=(None, None),
        method="highs",
        options={"maxiter": _STEPS_OF_PROGRAM, "time_limit": max(seconds, 0.0)},
    )
    return None if program.x is None else np.rint(program.x[:n]).astype(np.int64)


def _fewest(parameters: LWRParameters) -> int:
    least = fewest_samples(parameters, determined=False)
    return least if deviations(parameters).small_secret else max(least, parameters.secret_dim + 1)
