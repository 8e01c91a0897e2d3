"""What an attack on learning with rounding is, what it returns, and how it is judged."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from attention._arrays import shown
from attention.inputs import Rng
from attention.validation import count, non_negative, random_generator, require_instance
from lwe.parameters import LWRParameters, centred, require_parameters
from lwe.samples import LWRSamples

__all__ = [
    "Attack",
    "AttackOutcome",
    "AttackResult",
    "Budget",
    "BudgetSpentError",
    "LabelPredictor",
    "RefusedError",
    "require_samples",
    "run_attacks",
]

LabelPredictor = Callable[[np.ndarray], np.ndarray]
"""The labels that rows of a public matrix, an array (N, n), are predicted to have: an array (N,)."""


class AttackOutcome(Enum):
    """How an attack ended; each value is a sentence a user can act on."""

    BROKEN = "Broken: all labels held out are predicted; with errors, as well as the secret itself would."
    PREDICTS = "In part: labels of samples held out are predicted better than by chance."
    NOTHING = "Nothing found: labels of samples held out are predicted no better than by chance."
    DISTINGUISHED = "Distinguished: the labels are told from random ones, but none is predicted."
    BUDGET_SPENT = "Out of budget: it was stopped before it had an answer; allow more seconds or memory."
    REFUSED = (
        "Refused: it needs more than it may spend, and was not begun; allow more, or take a smaller problem."
    )
    TOO_FEW_SAMPLES = "Too few samples: it needs more of them to say anything; give more."
    NOT_APPLICABLE = "Not of this kind: the attack is for other parameters."
    MISSING = "Missing: a package it needs is not installed."
    FAILED = "Failed: it broke down; the others are not affected."
    INTERRUPTED = "Interrupted: it was stopped from outside before it had an answer, or not begun any more."

    @property
    def succeeded(self) -> bool:
        """Whether something was learned about the labels."""
        return self in (AttackOutcome.BROKEN, AttackOutcome.PREDICTS, AttackOutcome.DISTINGUISHED)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What an attack found.

    Attributes
    ----------
    attack : str
        Its name.
    outcome : AttackOutcome
        How it ended.
    explanation : str
        What it did and found, or what stood in the way: a sentence with numbers.
    accuracy : float or None
        The share of labels predicted among `fresh` samples that it never looked at; None if it predicts none.
    chance : float or None
        The share of the most frequent label among them, which a constant prediction reaches.
    fresh : int
        How many samples were held out.
    secret : array of int (n,) or None
        The secret it found, centred mod q, if it found one. Others may have the same labels.
    samples_used : int
        How many samples it learned from.
    seconds : float
        How long it took.
    details : mapping
        Numbers of its own, as JSON values: block sizes, equations, candidates.
    predict : callable or None
        Maps rows of a public matrix (N, n) to labels (N,).
    """

    attack: str
    outcome: AttackOutcome
    explanation: str
    accuracy: float | None = None
    chance: float | None = None
    fresh: int = 0
    secret: Int[np.ndarray, " n"] | None = None
    samples_used: int = 0
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    predict: LabelPredictor | None = field(default=None, repr=False)

    def __str__(self) -> str:
        share = "" if self.accuracy is None else f", {self.accuracy:.3g} of {self.fresh} fresh labels"
        return f"{self.attack}{share}: {self.explanation}"

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values, without `predict`."""
        return {
            "attack": self.attack,
            "outcome": self.outcome.name,
            "explanation": self.explanation,
            "accuracy": self.accuracy,
            "chance": self.chance,
            "fresh": self.fresh,
            "secret": None if self.secret is None else [int(one) for one in self.secret],
            "samples_used": self.samples_used,
            "seconds": self.seconds,
            "details": dict(self.details),
        }


class BudgetSpentError(RuntimeError):
    """The budget of an attack is spent; caught where its result is made."""


class RefusedError(BudgetSpentError):
    """More is needed than an attack may spend: it is not begun, or given up as soon as that shows."""


@dataclass(frozen=True)
class Budget:
    """What an attack may spend.

    Parameters
    ----------
    seconds : float, optional
        Wall-clock seconds, which attacks look at from time to time; None for no limit.
    memory : int
        Bytes that its largest tables may take.
    """

    seconds: float | None = 30.0
    memory: int = 1 << 31

    def __post_init__(self) -> None:
        if self.seconds is not None:
            object.__setattr__(self, "seconds", non_negative("seconds", self.seconds, strictly=True))
        object.__setattr__(self, "memory", count("memory", self.memory))


@runtime_checkable
class Attack(Protocol):
    """An attack: a frozen dataclass of options that is called with samples."""

    @property
    def name(self) -> str:
        """Its name, for tables."""

    def __call__(
        self,
        samples: LWRSamples,
        parameters: LWRParameters,
        *,
        rng: Rng = None,
        budget: Budget | None = None,
    ) -> AttackResult:
        """Attack the samples. What goes wrong is in the result; only wrong arguments raise ValueError."""


def require_samples(samples: LWRSamples, parameters: LWRParameters, *, least: int = 5) -> None:
    """Raise unless the samples are such as the parameters describe.

    Raises
    ------
    ValueError
        If the columns are too many or few, a label is out of range, an entry is none of the matrix's, or there are
        fewer than `least`, of which one is held out.
    """
    require_instance(
        "samples", samples, LWRSamples, needed="LWRSamples, as make_samples or read_samples give them,"
    )
    require_parameters(parameters)
    if len(samples) < least:
        raise ValueError(
            f"There are {len(samples)} samples: at least {least} are needed, one of them held out."
        )
    if samples.secret_dim != parameters.secret_dim:
        raise ValueError(
            f"The samples have {samples.secret_dim} columns and the parameters {parameters.secret_dim} secret entries: "
            "they must agree."
        )
    least, most = int(samples.labels.min()), int(samples.labels.max())
    if least < 0 or most >= parameters.levels:
        raise ValueError(
            f"The labels go from {least} to {most}: from 0 to {parameters.levels - 1} is allowed for {parameters}."
        )
    if parameters.matrix in ("binary", "ternary"):
        entries = centred(samples.public, parameters.modulus)
        lowest = 0 if parameters.matrix == "binary" or parameters.modulus == 2 else -1
        if entries.min() < lowest or entries.max() > 1:
            raise ValueError(
                f"The rows have entries from {entries.min()} to {entries.max()} mod {parameters.modulus}: from "
                f"{lowest} to 1 is allowed for {parameters}; for residues take matrix='uniform'."
            )


def run_attacks(
    attacks: Iterable[Attack],
    samples: LWRSamples,
    parameters: LWRParameters,
    *,
    rng: Rng = None,
    budget: Budget | None = None,
    on_result: Callable[[AttackResult], None] | None = None,
) -> list[AttackResult]:
    """Run attacks one after another on the same samples; what one does never loses what others found.

    Parameters
    ----------
    attacks : iterable of Attack
        The attacks.
    samples, parameters
        What they are run on.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); each attack gets a stream of its own, which depends on
        its place alone.
    budget : Budget, optional
        Of each of them.
    on_result : callable, optional
        Called with each result as it is there.

    Returns
    -------
    list of AttackResult
        One for each attack, in order. One that raised is FAILED. After a KeyboardInterrupt the attack that was
        running and those after it are INTERRUPTED, and what others found is returned all the same: a caller
        that runs more than this looks for INTERRUPTED and stops.

    Raises
    ------
    ValueError
        If the samples do not fit the parameters.

    Notes
    -----
    A budget is looked at by the attack itself; one that never looks at its clock is not stopped here.

    Examples
    --------
    >>> from lwe.attacks.exhaustive import ExhaustiveAttack
    >>> from lwe.samples import make_samples
    >>> parameters = LWRParameters(secret_dim=3, modulus=4, levels=2)
    >>> samples, _ = make_samples(parameters, 300, rng=0)
    >>> attacks = [ExhaustiveAttack(), ExhaustiveAttack(work=10)]
    >>> [result.outcome.name for result in run_attacks(attacks, samples, parameters, rng=0)]
    ['BROKEN', 'REFUSED']
    """
    if budget is not None:
        require_instance("budget", budget, Budget, needed="a Budget")
    require_instance(
        "samples", samples, LWRSamples, needed="LWRSamples, as make_samples or read_samples give them,"
    )
    require_parameters(parameters)
    require_samples(samples, parameters)
    if isinstance(attacks, str) or not isinstance(attacks, Iterable):
        raise ValueError(f"attacks is {shown(attacks)}: a list of attacks is needed.")
    attacks = list(attacks)
    results: list[AttackResult] = []
    interrupted = False
    for attack, stream in zip(attacks, random_generator(rng).spawn(len(attacks)), strict=True):
        if interrupted:
            result = _unfinished(
                attack, AttackOutcome.INTERRUPTED, "It was not begun: the run was interrupted."
            )
        else:
            result = _run(attack, samples, parameters, stream, budget)
        interrupted = result.outcome is AttackOutcome.INTERRUPTED
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def _run(
    attack: Attack,
    samples: LWRSamples,
    parameters: LWRParameters,
    stream: np.random.Generator,
    budget: Budget | None,
) -> AttackResult:
    start = time.perf_counter()
    try:
        result = attack(samples, parameters, rng=stream, budget=budget)
        if not isinstance(result, AttackResult):
            raise TypeError(f"it returned {type(result).__name__} where an AttackResult is needed")
        return result
    except KeyboardInterrupt:
        seconds = time.perf_counter() - start
        told = f"It was interrupted after {seconds:.1f} seconds."
        return _unfinished(attack, AttackOutcome.INTERRUPTED, told, seconds)
    except Exception as error:  # whatever it is, the other attacks go on
        told = f"It broke down with {type(error).__name__}: {str(error).removesuffix('.')}."
        return _unfinished(attack, AttackOutcome.FAILED, told, time.perf_counter() - start)


def _unfinished(attack: Attack, outcome: AttackOutcome, told: str, seconds: float = 0.0) -> AttackResult:
    name = getattr(attack, "name", None)
    return AttackResult(
        name if isinstance(name, str) else type(attack).__name__, outcome, told, seconds=seconds
    )
