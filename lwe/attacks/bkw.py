"""Blum, Kalai and Wasserman's attack: differences of samples that agree in a block of coordinates."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from attention.validation import checked
from lower.walsh import walsh_hadamard
from lwe.attacks.attack import Attack, AttackEndedError, AttackOutcome, Attempt, Finding
from lwe.attacks.evidence import label_residues
from lwe.costs.combinatorial import agreement_chances
from lwe.costs.deviations import deviations, error_character
from lwe.parameters import LWEParameters

_MOST_STEPS = 12
_MOST_SAMPLES = 1 << 22  # kept after a step
_FEWEST = 300.0  # differences of fewer samples depend on one another too much
_RELIANCE = 3.0  # standard deviations between the largest wrong sum and the right sum
_SAFETY = 2.0  # differences are dependent: twice as many as independent ones would have to be
_SPREAD = (
    0.5  # standard deviation of a coordinate of the secret where its neighbours have nearly the same sum
)
_MORE = 4  # times the samples needed are made in the last step
_PASSES = 4  # orders of the coordinates that are tried


@dataclass(frozen=True)
@checked
class BKWAttack(Attack):
    """Subtract samples that agree in a block of coordinates until few are left; find those by a Fourier transform.

    Notes
    -----
    For rounding, errors and parity with noise, at any q, with rows of bits, trits or residues. A label is read as the
    middle c of its interval of residues, so z = exp(2 pi i (c - <a, s>) / q) has a mean of modulus phi, as
    `lwe.costs.error_character` gives it. A step subtracts pairs that agree in a block, which squares the mean. After t
    steps k coordinates are left, and sum exp(2 pi i (c - <a, u>) / q) over N samples is largest at the right u among
    q^k: its mean is N phi^(2^t), and the others have a standard deviation of at most sqrt(N). Then those k coordinates
    are subtracted from all samples, and the attack starts again with the rest.

    With p = 2 the middles c are opposite points of the circle, so the sums at u and -u have one size: both secrets are
    tried.

    Two samples agree in a bit with probability 1/2, in a residue with 1/q. So rows of bits are far easier than uniform
    ones, at the same secret. Differences of bits stay small, and the sum at a neighbour of the right u is nearly the
    largest one. Such coordinates may be wrong by a little, which costs later sums little; at the end least squares on
    all samples make the secret exact (`refined_secret`). If this fails, the coordinates are taken in another order.

    It is a heuristic that sums behave as if they were independent; the secret found is checked on all samples.
    Work: N n per step and k q^k, for about n/k rounds; memory: twice the samples of a step and q^k complex numbers.

    References
    ----------
    Blum, Kalai and Wasserman 2003; Levieil and Fouque 2006 (all pairs, and the transform for q = 2); Duc, Tramer and
    Vaudenay 2015, "Better algorithms for LWE and LWR" (the transform mod q, and rounding). Coordinates round by round
    and small rows: derived here.

    Examples
    --------
    >>> from lwe import Flips, LWEParameters, make_samples
    >>> parameters = LWEParameters(32, q=2, p=2, Xe=Flips(0.1))
    >>> samples, secret = make_samples(parameters, 20_000, rng=0)
    >>> result = BKWAttack()(samples, parameters, rng=0)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    name: ClassVar[str] = "bkw"
    title: ClassVar[str] = "BKW"

    def run(self, attempt: Attempt, rng: np.random.Generator) -> Iterator[Finding]:
        """Find the secret in several orders of its coordinates until the labels support it."""
        parameters, samples, details = attempt.parameters, attempt.samples, attempt.details
        if error_character(parameters) == 0:
            raise AttackEndedError(
                AttackOutcome.NOT_APPLICABLE,
                f"Labels of {parameters} hold nothing: their errors are uniform mod q.",
            )
        first, after = label_residues(samples.labels, parameters, samples.rounding)
        public = np.mod(samples.public, parameters.q)
        for _ in range(_PASSES):
            order = rng.permutation(parameters.n)
            secret = np.empty(parameters.n, dtype=np.int64)
            secret[order] = _coordinates(public[:, order], first + after - 1, attempt, rng)
            words = (
                f"Differences over blocks of {details['blocks']} coordinates left {details['samples'][-1]} samples of "
                f"{details['tail']} coordinates with a mean of {details['character']:.3g}, where most were unknown."
            )
            yield Finding(words, secret, near=True)
            if parameters.p == 2:
                yield Finding(words, -secret, near=True)


@dataclass(frozen=True)
class ReductionPlan:
    """How samples are reduced to few coordinates."""

    blocks: tuple[int, ...]  #: how many coordinates each step removes, from the first on
    tail: int  #: how many are left
    #: how many samples are expected before each step and after the last; a step makes no more than this
    samples: tuple[int, ...]
    character: float  #: the mean of exp(2 pi i (c - <a, s>) / q) after the last step
    work: float  #: operations, roughly


def plan_reduction(
    parameters: LWEParameters, dim: int, samples: int, *, memory: int = 1 << 31
) -> ReductionPlan | None:
    """The reduction of least work of `samples` samples in the last `dim` coordinates unknown; None if none exists.

    All numbers of steps up to 12 and all tails that fit into a quarter of the memory are tried, with about as many
    samples after each step as before it.
    """
    q, phi, column = parameters.q, error_character(parameters), deviations(parameters).column
    most = min(_MOST_SAMPLES, memory // (8 * (dim * _row_type(q).itemsize + 16)))
    best: ReductionPlan | None = None
    chances = agreement_chances(parameters, _MOST_STEPS)
    means = phi ** (2.0 ** np.arange(_MOST_STEPS + 1))
    for tail in range(1, dim + 1):
        transform = tail * float(q) ** tail
        if q**tail > memory // 64 or (best is not None and transform > best.work):
            break
        needed = _samples_needed(q, column, tail, means)
        for steps in range(min(_MOST_STEPS, dim - tail) + 1):
            blocks, counts = list[int](), [samples]
            for step, chance in enumerate(chances[:steps]):
                left, last = dim - tail - sum(blocks), step == steps - 1
                pairs = counts[-1] * (counts[-1] - 1) / 2
                level = max(pairs / max(min(samples, most), needed[step + 1]), 1.0)
                blocks.append(left if last else min(int(math.log(level) / -math.log(chance)), left))
                made = pairs * chance ** blocks[-1]
                counts.append(int(min(made, most, _MORE * needed[step + 1] if last else math.inf)))
            work = float(sum(counts)) * dim + transform
            possible = sum(blocks) == dim - tail and np.all(np.array(counts) >= needed[: steps + 1])
            if possible and max(needed[: steps + 1]) <= most and (best is None or work < best.work):
                best = ReductionPlan(tuple(blocks), tail, tuple(counts), float(means[steps]), work)
    return best


def _samples_needed(
    q: int, column: float, tail: int, means: Float[np.ndarray, " steps"]
) -> Float[np.ndarray, " steps"]:
    """How many samples after 0, 1, ... steps tell the right values of `tail` coordinates from all others.

    `means` are those of exp(2 pi i (c - <a, s>) / q) after so many steps. `column` is the variance of an entry of the
    matrix, or 0 if it is uniform.

    The right sum of N samples is N phi, and the largest of q^k wrong ones about sqrt(2 k ln q N): three standard
    deviations are between them. An entry of variance v gives a coordinate with the standard deviation
    q / (2 pi phi sqrt(N v)), which has to be at most 1/2. Differences are dependent, so there are twice as many, and at
    least 300.
    """
    uniform = (q * q - 1) / 12
    variance = np.minimum(column * 2.0 ** np.arange(len(means)), uniform) if column else uniform
    distinct = (math.sqrt(2 * tail * math.log(q)) + _RELIANCE) ** 2
    near = (q / (2 * math.pi * _SPREAD)) ** 2 / variance
    return np.maximum(_FEWEST, _SAFETY * np.maximum(distinct, near) / np.maximum(means, 1e-100) ** 2)


def _row_type(modulus: int) -> np.dtype:
    return np.min_scalar_type(-2 * modulus)


def _coordinates(
    public: Int[np.ndarray, "N n"],
    middles: Int[np.ndarray, " N"],
    attempt: Attempt,
    generator: np.random.Generator,
) -> Int[np.ndarray, " n"]:
    """The secret, the last coordinates first; `middles` are twice the middles of the labels' residues."""
    parameters, q = attempt.parameters, attempt.parameters.q
    rows, secret = public.astype(_row_type(q)), np.zeros(public.shape[1], dtype=np.int64)
    left = public.shape[1]
    while left:
        plan = plan_reduction(parameters, left, len(rows), memory=attempt.budget.memory)
        if plan is None:
            raise _too_few(attempt, left)
        now, labels, counts = rows[:, :left], middles, [len(rows)]
        for width, most in zip(plan.blocks, plan.samples[1:], strict=True):
            attempt.check()
            left_rows, right_rows = _agreeing(now[:, :width], most, generator)
            now, labels = (
                (now[left_rows, width:] - now[right_rows, width:]) % q,
                labels[left_rows] - labels[right_rows],
            )
            counts.append(len(now))
        attempt.check()
        tail = _largest(now, labels, q) if len(now) else np.zeros(plan.tail, dtype=np.int64)
        if left == public.shape[1]:  # the first plan is the one with most unknowns
            attempt.details.update(
                blocks=list(plan.blocks),
                tail=plan.tail,
                character=plan.character,
                expected=list(plan.samples),
                samples=counts,
            )
        secret[left - plan.tail : left] = tail
        middles = middles - 2 * (public[:, left - plan.tail : left] @ tail)
        left -= plan.tail
    return secret


def _agreeing(
    block: Int[np.ndarray, "N width"], most: int, generator: np.random.Generator
) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Pairs of rows that are equal in a block: at most `most`, those that are nearest in a sorted order first.

    Rows are compared by a random 64-bit linear hash.
    """
    keys = block.astype(np.int64) @ (2 * generator.integers(1 << 62, size=block.shape[1]) + 1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    firsts, chosen, made, distance = np.arange(max(len(keys) - 1, 0)), [], 0, 1
    while len(firsts) and made < most:
        # equal rows are an interval: a row without a partner at one distance has none at larger distances
        firsts = firsts[firsts + distance < len(keys)]
        firsts = firsts[keys[firsts] == keys[firsts + distance]]
        chosen.append((firsts[: most - made], distance))
        made += len(chosen[-1][0])
        distance += 1
    firsts_of_pairs = np.concatenate([places for places, _ in chosen] or [firsts])
    seconds_of_pairs = np.concatenate([places + apart for places, apart in chosen] or [firsts])
    return order[firsts_of_pairs], order[seconds_of_pairs]


def _largest(
    rows: Int[np.ndarray, "N tail"], middles: Int[np.ndarray, " N"], modulus: int
) -> Int[np.ndarray, " tail"]:
    """The u mod q with the largest |sum exp(2 pi i (c - <a, u>) / q)|, by a Fourier transform over Z_q^k."""
    shape = (modulus,) * rows.shape[1]
    places = np.ravel_multi_index(tuple(rows.T.astype(np.int64)), shape)
    size = modulus ** rows.shape[1]
    if modulus == 2:  # signs are real, and so is the transform
        sums = walsh_hadamard(np.bincount(places, 1.0 - np.mod(middles, 4), size))
    else:
        phases = np.exp(1j * np.pi / modulus * np.mod(middles, 2 * modulus))
        table = np.bincount(places, phases.real, size) + 1j * np.bincount(places, phases.imag, size)
        sums = np.fft.fftn(table.reshape(shape)).ravel()
    return np.array(np.unravel_index(np.argmax(np.abs(sums)), shape), dtype=np.int64)


def _too_few(attempt: Attempt, dim: int) -> AttackEndedError:
    parameters, given, memory = attempt.parameters, len(attempt.samples), attempt.budget.memory
    words = f"No reduction of {given} samples of {parameters} leaves enough of them"
    for exponent in range(given.bit_length(), 41):
        if plan_reduction(parameters, dim, 1 << exponent, memory=memory) is not None:
            return AttackEndedError(
                AttackOutcome.TOO_FEW_SAMPLES, f"{words}; 2^{exponent} of them would be enough."
            )
    limit = f"{memory / 2**30:.3g} GiB of memory"
    return AttackEndedError(AttackOutcome.REFUSED, f"{words}; nor of any number up to 2^40 within {limit}.")
