"""Blum, Kalai and Wasserman's attack on learning parity with noise."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Int, UInt32

from attention.validation import PositiveInt, Real, checked
from lower.walsh import walsh_hadamard
from lwe.attacks.attack import Attack, AttackResult, Attempt
from lwe.attacks.evidence import share_right
from lwe.attacks.outcome import AttackOutcome, NotApplicableError, RefusedError, TooFewSamplesError

__all__ = ["BKWAttack", "ReductionPlan", "plan_reduction", "samples_needed"]

Pairing = Literal["LF1", "LF2"]

_LARGEST_TABLE = 28
_MOST_STEPS = 12
_RELIANCE = 3.0  # standard deviations between the largest wrong sum and the right sum


@dataclass(frozen=True)
@checked
class BKWAttack(Attack):
    """Add samples that agree in a block of bits until few bits are left; find those by a Walsh-Hadamard transform.

    Notes
    -----
    For q = p = 2 with labels flipped at a rate eta below 1/2. A step over b bits adds pairs of samples, so after t
    steps the labels have bias (1 - 2 eta)^(2^t). LF1 loses 2^b samples per step; LF2 makes from N samples about
    N^2 / 2^(b+1) dependent ones. For the k remaining bits the attack takes the values whose parity agrees with the most
    labels. With N samples of bias epsilon the right values have a sum of mean N epsilon. The 2^k - 1 wrong ones have
    sums of standard deviation sqrt(N), which rarely exceed sqrt(2 k ln 2 N). So the attack needs
    N >= (sqrt(2 k ln 2) + 3)^2 / epsilon^2: three standard deviations between right and wrong. The samples before each
    step are kept, and the bits of earlier blocks follow from them in the same way. It is a heuristic that sums behave
    as if they were independent; the secret found is checked on all training samples.
    Work: N t n / 32 words and k 2^k; memory: the samples of all steps and 2^k numbers.

    References
    ----------
    Blum, Kalai and Wasserman 2003; Levieil and Fouque 2006 (LF1, LF2 and the transform).

    Examples
    --------
    >>> from lwe import FlipLaw, LWRParameters, make_samples
    >>> parameters = LWRParameters(32, modulus=2, levels=2, noise=FlipLaw(0.1))
    >>> samples, secret = make_samples(parameters, 20_000, rng=0)
    >>> result = BKWAttack()(samples, parameters)
    >>> result.outcome.name, bool((result.secret == secret).all())
    ('BROKEN', True)
    """

    name: ClassVar[str] = "bkw"
    title: ClassVar[str] = "BKW"

    def run(self, attempt: Attempt, generator: np.random.Generator) -> AttackResult:
        """Plan, reduce, transform, go back block by block; the generator is not used."""
        parameters, training = attempt.parameters, attempt.training
        if parameters.modulus != 2:
            raise NotApplicableError(f"It is for q = p = 2 with flipped labels; these are {parameters}.")
        rate, given = parameters.noise.error_rate(2), len(training)
        if rate >= 0.5 or parameters.noise.is_uniform(2):
            raise NotApplicableError(
                f"Labels flipped at a rate of {rate:g} hold nothing: below 1/2 is needed."
            )
        memory = attempt.budget.memory
        plan = plan_reduction(parameters.secret_dim, rate, given, memory=memory)
        if plan is None:
            words = (
                f"No reduction of {given} samples of {parameters.secret_dim} bits at a rate of {rate:g} leaves enough "
                "of them"
            )
            for exponent in range(given.bit_length(), 41):
                if plan_reduction(parameters.secret_dim, rate, 1 << exponent, memory=memory) is not None:
                    raise TooFewSamplesError(f"{words}; 2^{exponent} of them would be enough.")
            raise RefusedError(
                f"{words}; nor of any number up to 2^40 within {memory / 2**30:.3g} GiB of memory."
            )
        attempt.details.update(
            pairing=plan.pairing,
            blocks=list(plan.blocks),
            tail=plan.tail,
            bias=plan.bias,
            expected=list(plan.samples),
        )
        levels = _reduced(_columns(training.public, training.labels, plan), plan, attempt)
        attempt.details["samples"] = [len(level) for level in levels]
        secret = _solved(levels, plan, attempt)
        agreeing = share_right(secret, training, parameters)
        words = (
            f"{plan.pairing} over blocks of {list(plan.blocks)} bits left {len(levels[-1])} samples of {plan.tail} "
            f"bits with bias {plan.bias:.3g}; what they gave agrees with {agreeing:.3f} of the labels."
        )
        # halfway between chance and the share that the secret predicts
        if agreeing < (1.5 - rate) / 2 or agreeing - 0.5 < 2 / math.sqrt(given):
            return attempt.ended(AttackOutcome.NOTHING, words)
        return attempt.found(secret, words)


@dataclass(frozen=True)
class ReductionPlan:
    """How samples of learning parity with noise are reduced."""

    pairing: Pairing  #: which samples of a class are added
    #: how many bits each step removes, from the first bits on, and how many are left
    blocks: tuple[int, ...]
    tail: int
    #: how many samples are expected before each step and after the last, and how many a step may make
    samples: tuple[int, ...]
    most: int
    #: (1 - 2 eta)^(2^t) of the last labels; operations, roughly
    bias: float
    work: float


@checked
def plan_reduction(
    dim: PositiveInt,
    rate: Annotated[float, Real(least=0, below=0.5)],
    samples: PositiveInt,
    *,
    memory: int = 1 << 31,
) -> ReductionPlan | None:
    """The reduction of least work for n = `dim` bits, a number of samples and a flip rate; None if none exists.

    Both pairings, all numbers of steps up to 12 and all tails that fit into memory are tried.
    """
    best: ReductionPlan | None = None
    for number in range(_MOST_STEPS + 1):
        bias = (1 - 2 * rate) ** (2**number)
        if bias < 2**-30:
            break
        row = 4 * (number + 2)
        most = max(1, memory // (4 * row * (number + 2)))
        # the table and the arrays of the transform may each use a quarter of the memory
        largest = min(_LARGEST_TABLE, (memory // 32).bit_length() - 1)
        for tail in range(1 if number else dim, min(largest, dim - number) + 1):
            if number and dim - tail > largest * number:
                continue
            short, more = divmod(dim - tail, number) if number else (0, 0)
            blocks = (short + 1,) * more + (short,) * (number - more)
            for kind in get_args(Pairing):
                counts = _expected(min(samples, most) if number else samples, blocks, kind, most)
                if any(
                    counts[step] < samples_needed(bits, (1 - 2 * rate) ** (2**step))
                    for step, bits in enumerate((*blocks, tail))
                ):
                    continue
                work = sum(counts) * (number + 2) * 8.0 + sum(bits * 2.0**bits for bits in (*blocks, tail))
                if best is None or work < best.work:
                    best = ReductionPlan(kind, blocks, tail, counts, most, bias, work)
    return best


def samples_needed(bits: int, bias: float) -> float:
    """(sqrt(2 k ln 2) + 3)^2 / epsilon^2: how many samples tell the right k bits from all others."""
    return (math.sqrt(2 * bits * math.log(2)) + _RELIANCE) ** 2 / bias**2


def _expected(samples: int, blocks: tuple[int, ...], pairing: Pairing, most: int) -> tuple[int, ...]:
    counts = [samples]
    for bits in blocks:
        classes, now = 2.0**bits, float(counts[-1])
        if pairing == "LF1":
            # each class that contains a sample loses one
            made = now + classes * math.expm1(now * math.log1p(-1 / classes)) if bits else now - 1
        else:
            made = now * (now - 1) / (2 * classes)
        counts.append(int(min(max(made, 0.0), most)))
    return tuple(counts)


def _columns(
    public: np.ndarray, labels: np.ndarray, plan: ReductionPlan
) -> UInt32[np.ndarray, "samples columns"]:
    """Each sample as one number for every block, one for the tail, and its label."""
    parts = np.split(public & 1, np.cumsum(plan.blocks), axis=1)
    numbers = [part @ (1 << np.arange(part.shape[1])) for part in parts]
    return np.stack([*numbers, labels], axis=1).astype(np.uint32)


def _reduced(columns: np.ndarray, plan: ReductionPlan, attempt: Attempt) -> list[np.ndarray]:
    """The samples before each step and after the last; each step removes the first column."""
    levels = [columns[: plan.most] if plan.blocks else columns]
    for _ in plan.blocks:
        attempt.check()
        now = levels[-1]
        if plan.pairing == "LF1":
            _, heads, classes = np.unique(now[:, 0], return_index=True, return_inverse=True)
            made = np.delete(now ^ now[heads[classes]], heads, axis=0)
        else:
            made = _all_pairs(now[np.argsort(now[:, 0], kind="stable")], plan.most, attempt)
        levels.append(made[:, 1:])
    return levels


def _all_pairs(ordered: np.ndarray, most: int, attempt: Attempt) -> np.ndarray:
    """Sums of all pairs in a class, those that are nearest in the order first, up to a number of them."""
    parts, made, distance = [ordered[:0]], 0, 1
    firsts = np.arange(max(0, len(ordered) - 1))
    while len(firsts) and made < most:
        attempt.check()
        # a class is an interval: a sample without a partner at one distance has none at larger distances
        firsts = firsts[firsts + distance < len(ordered)]
        firsts = firsts[ordered[firsts, 0] == ordered[firsts + distance, 0]]
        chosen = firsts[: most - made]
        parts.append(ordered[chosen] ^ ordered[chosen + distance])
        made += len(chosen)
        distance += 1
    return np.concatenate(parts)


def _solved(levels: list[np.ndarray], plan: ReductionPlan, attempt: Attempt) -> Int[np.ndarray, " n"]:
    """The parts of the secret, the tail first; once the later parts are known, each level has one unknown part."""
    sizes = (*plan.blocks, plan.tail)
    parts: list[int] = []
    for level, size in zip(reversed(levels), reversed(sizes), strict=True):
        attempt.check()
        labels = level[:, -1] & 1
        for column, part in enumerate(parts, start=1):
            labels = labels ^ (np.bitwise_count(level[:, column] & np.uint32(part)) & 1)
        signs = np.bincount(level[:, 0], weights=1.0 - 2.0 * labels, minlength=1 << size)
        parts.insert(0, int(walsh_hadamard(signs).argmax()))
    bits = [part >> bit & 1 for part, size in zip(parts, sizes, strict=True) for bit in range(size)]
    return np.array(bits, dtype=np.int64)
