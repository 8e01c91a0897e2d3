"""Learners that rule candidates out by statistical queries, and a way to run any other learner with an oracle.

=====================  ================================================================  ==========================
learner                asks                                                              over N orthonormal targets
=====================  ================================================================  ==========================
`ScanLearner`          one character after another                                       (N + 1)/2 on average
`GroupLearner`         M* at once, then bisects; the lower bound's match                 `group_learner_bound`
`SignedGroupLearner`   M* at once, half with a minus: one half falls whatever the reply  (N - 1)/floor(M*/2), about
`LowDegreeLearner`     every monomial of degree up to r                                  k sum_{i <= r} C(k d, i)
`DescentLearner`       gradients, d queries each                                         no bound
`run_by_queries`       whatever the learner that is handed in asks                       what it states
=====================  ================================================================  ==========================
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from attention.inputs import Rng
from attention.validation import PositiveInt, checked, random_generator
from lower.bounds import eliminated_per_query, exact_tolerance
from sq.answers import Candidates, TrueAnswers
from sq.models import WithinTolerance
from sq.oracles import SQOracle
from sq.queries import GroupQuery, as_sequence
from sq.target_family import TargetFamily

__all__ = [
    "GroupLearner",
    "QueryRun",
    "SQResult",
    "ScanLearner",
    "SignedGroupLearner",
    "group_learner_bound",
    "run_by_queries",
]

# Yields a query, receives its reply and the number of candidates ruled out; returns why no query is left.
Asking = Generator[GroupQuery, tuple[float, int], str]


@dataclass(frozen=True)
class SQResult:
    """What a learner found by statistical queries, or why it found nothing."""

    learner: str  #: its name
    asked: int  #: how many scalar queries it asked: a vector of d of them, such as a gradient, counts d
    explanation: str  #: what was found and how, or why nothing was found: a sentence
    #: The number of the target, None if the learner does not name one. A named target is the only candidate for
    #: which all replies were valid, so it is the right one if the oracle keeps its tolerance.
    number: int | None = None
    secret: tuple[int, ...] | None = None  #: its secret
    #: how many candidates were consistent with all replies in the end; None if the learner does not keep them
    survivors: int | None = None
    examples: int | None = None  #: how many examples the oracle drew; None if it draws none
    #: for `run_by_queries`: the smallest tolerance that the learner's queries declare; None if they declare none
    least_tolerance: float | None = None
    #: for `run_by_queries`: what the learner returned
    answer: Any = field(default=None, repr=False, compare=False)

    @property
    def found(self) -> bool:
        """Whether the learner named a target or, in `run_by_queries`, returned an answer."""
        return self.number is not None or self.answer is not None

    def __str__(self) -> str:
        return f"{self.learner}, {self.asked} queries: {self.explanation}"


class QueryRun:
    """One run of a learner: its queries, its examples and its end; earlier runs on the same oracle do not count.

    If the learner knows the family, the oracle must have the model CSQ and answer for no other family.
    """

    def __init__(self, learner: str, oracle: SQOracle, family: TargetFamily | None = None) -> None:
        if family is not None:
            if not isinstance(oracle.model, WithinTolerance) or not oracle.model.correlational:
                raise ValueError(
                    f"The oracle answers {type(oracle.model).__name__} queries: the {learner} asks correlational ones; "
                    "give the oracle the model CSQ(tau)."
                )
            own = family if oracle.family is None else oracle.family
            if (own.name, own.tokens, own.secrets) != (family.name, family.tokens, family.secrets):
                raise ValueError(
                    f"The oracle answers for the family {own.name!r}, {own.secrets}, and the {learner} was given "
                    f"{family.name!r}, {family.secrets}: give both the same."
                )
        self._learner, self._oracle, self._family = learner, oracle, family
        self._asked, self._examples = oracle.asked, oracle.examples_used

    @property
    def tolerance(self) -> float:
        """Tau of the oracle's model."""
        assert isinstance(self._oracle.model, WithinTolerance)
        return self._oracle.model.tolerance

    @property
    def asked(self) -> int:
        """Scalar queries of this run so far."""
        return self._oracle.asked - self._asked

    def ended(self, candidates: Candidates, why_not: str) -> SQResult:
        """The only remaining candidate, or a refusal with the reason: `why_not`, unless no candidate remains."""
        left = len(candidates)
        if left == 1:
            number = int(candidates.first(1)[0])
            return self.result("It is the only candidate consistent with all replies.", number=number)
        if left == 0:
            why_not = (
                "No candidate is consistent with all replies: one of them was off by more than the tolerance. Take "
                "larger batches, or a larger tolerance."
            )
        return self.result(why_not, survivors=left)

    def confirmed(self, number: int, why: str) -> SQResult:
        """Ask for the correlation with one target's hidden part; name it if only it is consistent with the reply.

        As long as the oracle keeps its tolerance, there is a candidate for which all replies are valid. So if the
        target is the only candidate for which this reply is valid, it is that candidate, whatever was asked before.
        """
        assert self._family is not None
        query = GroupQuery.single(number)
        candidates = Candidates(self._family.secrets.size, self._oracle.model)
        reply = self._oracle.query(query)
        candidates.update(TrueAnswers(self._family).to_group(query), reply)
        if len(candidates) == 1 and number in candidates:
            return self.result(
                f"{why} The reply to its own character, {reply:.3g}, allows no other.", number=number
            )
        return self.result(
            f"{why} But the reply to the character of target {number}, {reply:.3g}, does not single it out.",
            survivors=len(candidates),
        )

    def result(self, explanation: str, **found: Any) -> SQResult:
        """The counts of this run, and what was found: a `number` is the only target consistent with all replies."""
        if "number" in found and self._family is not None:
            secret = self._family.secrets.unrank(found["number"])
            found |= {"secret": tuple(int(one) for one in secret), "survivors": 1}
        used = self._oracle.examples_used
        examples = None if used is None else used - (self._examples or 0)
        return SQResult(
            learner=self._learner, asked=self.asked, explanation=explanation, examples=examples, **found
        )


@dataclass(frozen=True)
@checked
class _Eliminator(ABC):
    """Asks group queries until one candidate is consistent with all replies; a subclass chooses the queries."""

    name: ClassVar[str]
    orthonormal: ClassVar[bool] = True

    @checked
    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left, or no query is certain to rule out a candidate.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ.
        family : TargetFamily
            The candidates; orthonormal, except for the scan.
        rng : optional
            Anything `numpy.random.default_rng` accepts; draws the order of a shuffled scan.
        """
        run = QueryRun(self.name, oracle, family)
        if self.orthonormal and not family.orthonormal:
            raise ValueError(
                f"The family {family.name!r} is not known to be orthonormal: the {self.name} relies on it; take the "
                "scan."
            )
        candidates, answers = Candidates(family.secrets.size, oracle.model), TrueAnswers(family)
        asking = self._asking(candidates, oracle.model, rng)
        seen: Any = None
        while len(candidates) > 1:
            try:
                query = asking.send(seen)
            except StopIteration as ended:
                return run.ended(candidates, ended.value)
            reply = oracle.query(query)
            seen = reply, candidates.update(answers.to_group(query), reply)
        return run.ended(candidates, "")

    @abstractmethod
    def _asking(self, candidates: Candidates, model: Any, rng: Rng) -> Asking: ...


@dataclass(frozen=True)
@checked
class ScanLearner(_Eliminator):
    """Asks for the correlation with each candidate's own hidden part, in order, each at most once.

    Parameters
    ----------
    shuffled : bool
        Whether the order is drawn with `rng`; by number otherwise.

    Notes
    -----
    Consider N orthonormal candidates and answers within tau < 1/2. The learner asks one query per candidate up to the
    right one, and needs no query for the last candidate: min(place, N - 1) queries, (N + 1)/2 - 1/N on average. In
    families that are not orthogonal it skips candidates that are already ruled out.

    Examples
    --------
    >>> from sq import CSQ, ExactOracle, ParityFamily
    >>> family = ParityFamily(dim=10, bits=2)
    >>> result = ScanLearner().learn(ExactOracle(CSQ(0.3), family, 20), family)
    >>> result.secret, result.asked
    ((3, 9), 21)
    """

    shuffled: bool = False
    name = "scan"
    orthonormal = False

    def _asking(self, candidates: Candidates, model: Any, rng: Rng) -> Asking:
        size = len(candidates)
        for number in map(int, random_generator(rng).permutation(size) if self.shuffled else range(size)):
            if number in candidates:
                yield GroupQuery.single(number)
        return (
            f"All candidates left were asked for and {len(candidates)} are consistent with all replies: at this "
            "tolerance a reply can lie between that of the right one and that of the others."
        )


class GroupLearner(_Eliminator):
    """Asks for h_A = sum_{S in A} f_S / sqrt|A| with |A| = M*, group after group, and bisects the group that is hit.

    Notes
    -----
    |A| = min(M*, candidates left - 1), M* = ceil(1/tau^2) - 1: the answer on every member of A is 1/sqrt|A| > tau.
    Against `ReferenceAdversary` it asks ceil((N - 1)/M*) queries, which is the lower bound. A reply between 0 and
    1/sqrt|A| may rule out no candidate. Then the learner continues with smaller groups, with 1/sqrt|A| > 2 tau: every
    valid reply rules out either A or all others. If even a single character is too small for that (tau >= 1/2), the
    learner refuses.

    Examples
    --------
    >>> from sq import CSQ, ParityFamily, ReferenceAdversary
    >>> family = ParityFamily(dim=16, bits=3)
    >>> GroupLearner().learn(ReferenceAdversary(CSQ(0.1), family), family).asked
    5
    """

    name = "group learner"

    def _asking(self, candidates: Candidates, model: Any, rng: Rng) -> Asking:
        most, twice = eliminated_per_query(model.tolerance), 2 * exact_tolerance(model.tolerance)
        sure = eliminated_per_query(twice) if twice < 1 else 0  # the largest |A| with 1/sqrt|A| > 2 tau
        careful = bisecting = False
        while True:
            left = len(candidates)
            size = min(sure if careful else most, left // 2 if bisecting else left - 1)
            if size < 1:
                return _in_between(model.tolerance, left, "1/2")
            reply, out = yield GroupQuery.signed(candidates.first(size))
            # a hit: the reply rules out 0, the answer on all other candidates
            bisecting = bisecting or not model.allows(np.zeros(1), reply, size)[0]
            if out == 0:
                if careful:
                    return _in_between(model.tolerance, left, "1/2")
                careful = True


class SignedGroupLearner(_Eliminator):
    """Asks for h = (sum_{A+} f - sum_{A-} f) / sqrt|A|: every valid reply rules out at least A+ or A-.

    Notes
    -----
    |A| = min(M*, candidates left), and A- is the half rounded down. The answers on A+ and A- are 2/sqrt|A| > 2 tau
    apart, so no reply is valid for both. While M* >= 2, each query rules out at least floor(|A|/2) candidates. With
    M* = 1, that is tau >= 1/sqrt 2, a reply in the middle keeps any two candidates, whatever the query, and the learner
    refuses.

    Examples
    --------
    >>> from sq import CSQ, MostPreservingAdversary, ParityFamily
    >>> family = ParityFamily(dim=16, bits=3)
    >>> SignedGroupLearner().learn(MostPreservingAdversary(CSQ(0.3), family), family).asked
    93
    """

    name = "signed-group learner"

    def _asking(self, candidates: Candidates, model: Any, rng: Rng) -> Asking:
        most = eliminated_per_query(model.tolerance)
        while True:
            left = len(candidates)
            group = candidates.first(min(most, left))
            half = len(group) - len(group) // 2
            _, out = yield GroupQuery.signed(group[:half], group[half:])
            if out == 0:
                return _in_between(model.tolerance, left, "1/sqrt 2")


@checked
def group_learner_bound(targets: PositiveInt, tolerance: float) -> int:
    """ceil((N - 1)/M*) + ceil(log2 M*): the most queries of `GroupLearner` if every reply settles its group.

    Notes
    -----
    A reply settles the group A if it rules out either all of A or all others. Since 1/sqrt(M*) > tau, the replies of an
    exact oracle and of `ReferenceAdversary` do. Any valid reply does if 1/sqrt|A| > 2 tau. Other oracles may make the
    learner ask more: at N = 455, tau = .3 `MostPreservingAdversary` makes it ask 229 queries. The bound holds at every
    float64 tau, also where tau and 1/sqrt(M*) round to the same float64: M* and validity are exact there
    (`CSQ.allowance`).

    Examples
    --------
    >>> group_learner_bound(455, 0.3)
    46
    """
    most = eliminated_per_query(tolerance)
    return math.ceil(Fraction(targets - 1, most)) + (most - 1).bit_length()


@checked
def run_by_queries(
    learner: Callable[[Any], Any],
    oracle: SQOracle,
    *,
    name: str = "learner",
    failures: tuple[type[Exception], ...] = (ArithmeticError,),
) -> SQResult:
    """Hand an oracle to a learner and count what it asks.

    Parameters
    ----------
    learner : callable
        Takes an oracle with `query(q)` and `query_many(queries)` and returns what it learned. A query is anything
        callable on (x, y) with `low` and `high`; many are a sequence of those, which may have `means(x, y)`.
    oracle : SQOracle
        Of the model STAT or VSTAT for learners that ask about labels.
    name : str
        The learner, for the result.
    failures : tuple of exceptions
        Exceptions that mean that the learner failed. The result is then a refusal with the exception's text.

    Returns
    -------
    SQResult
        `answer` is what the learner returned. `least_tolerance` is the smallest tolerance that its queries declare, by
        an attribute `tolerance` of a query or of a sequence of queries.

    Examples
    --------
    >>> from sq import STAT, HonestOracle, StatisticalQuery, make_parity_instance
    >>> def mean_label(oracle):
    ...     return oracle.query(StatisticalQuery(lambda x, y: np.clip(y[:, 0, 0] / 10, -1, 1)))
    >>> instance = make_parity_instance(dim=6, bits=1, rng=0)
    >>> result = run_by_queries(mean_label, HonestOracle.for_instance(STAT(0.1), instance, batch=500, rng=1))
    >>> result.asked, result.examples, result.found
    (1, 500, True)
    """
    run, recording = QueryRun(name, oracle), _Recording(oracle)
    answer = None
    try:
        answer = learner(recording)
        explanation = f"It returned {type(answer).__name__} after {run.asked} queries."
    except failures as failure:
        explanation = f"It gave up after {run.asked} queries: {failure or type(failure).__name__}"
    return run.result(explanation, answer=answer, least_tolerance=min(recording.declared, default=None))


class _Recording:
    """Passes queries on and notes the tolerances that they declare."""

    def __init__(self, oracle: SQOracle) -> None:
        self._oracle = oracle
        self.declared: set[float] = set()

    def query(self, query: Any, /) -> float:
        self._note([query])
        return self._oracle.query(query)

    def query_many(self, queries: Iterable[Any], /) -> np.ndarray:
        queries = as_sequence(queries)  # a generator yields its queries only once
        self._note([queries] if hasattr(queries, "tolerance") else queries)
        return self._oracle.query_many(queries)

    def _note(self, queries: Iterable[Any]) -> None:
        declared = (getattr(query, "tolerance", None) for query in queries)
        self.declared |= {float(one) for one in declared if one is not None}


def _in_between(tau: float, left: int, edge: str) -> str:
    return (
        f"The reply lay between the answers of the candidates and ruled out none; {left} are left. At tolerance "
        f"{tau:g} such replies are valid: below {edge} this learner can do without luck."
    )
