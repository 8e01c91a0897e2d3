"""Learners that rule candidates out by correlational queries.

=====================  ================================================================  ==========================
learner                asks                                                              over N orthonormal targets
=====================  ================================================================  ==========================
`ExhaustiveSearch`     one character after another                                       (N + 1)/2 on average
`GroupLearner`         M* at once, then bisects; the lower bound's match                 `group_learner_bound`
`SignedGroupLearner`   M* at once, half with a minus: one half falls whatever the reply  (N - 1)/floor(M*/2), about
=====================  ================================================================  ==========================
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from attention.inputs import Rng
from attention.validation import PositiveInt, checked, random_generator
from lower import eliminated_per_query
from lower.bounds import exact_tolerance
from sq.answers import Candidates, TrueAnswers
from sq.family import TargetFamily
from sq.models import CSQ
from sq.oracles import SQOracle
from sq.queries import GroupQuery

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
    survivors: int | None = None  #: how many candidates were consistent with all replies in the end
    examples: int | None = None  #: how many examples the oracle drew; None if it draws none

    @property
    def found(self) -> bool:
        """Whether the learner named a target."""
        return self.number is not None

    def __str__(self) -> str:
        return f"{self.learner}, {self.asked} queries: {self.explanation}"


@dataclass(frozen=True)
@checked
class _Eliminator(ABC):
    """Asks group queries until one candidate is consistent with all replies; a subclass chooses the queries."""

    name: ClassVar[str]
    orthonormal: ClassVar[bool] = True

    @checked
    def learn(self, oracle: SQOracle, family: TargetFamily, *, rng: Rng = None) -> SQResult:
        """Ask until one candidate is left, or no query is certain to rule out a candidate.

        The queries and examples of earlier runs on the same oracle do not count.

        Parameters
        ----------
        oracle : SQOracle
            Of the model CSQ, answering for this family or for none in particular.
        family : TargetFamily
            The candidates; orthonormal, except for the exhaustive search.
        rng : optional
            Anything `numpy.random.default_rng` accepts; draws the order of a shuffled search.
        """
        if not isinstance(oracle.model, CSQ):
            raise ValueError(
                f"The oracle answers {type(oracle.model).__name__} queries: the {self.name} asks correlational ones; "
                "give the oracle the model CSQ(tau)."
            )
        own = family if oracle.family is None else oracle.family
        if (own.name, own.tokens, own.secrets) != (family.name, family.tokens, family.secrets):
            raise ValueError(
                f"The oracle answers for the family {own.name!r}, {own.secrets}, and the {self.name} was given "
                f"{family.name!r}, {family.secrets}: give both the same."
            )
        if self.orthonormal and not family.orthonormal:
            raise ValueError(
                f"The family {family.name!r} is not known to be orthonormal: the {self.name} relies on it; take the "
                "exhaustive search."
            )
        asked, examples = oracle.asked, oracle.examples_used
        candidates, answers = Candidates(family.secrets.size, oracle.model), TrueAnswers(family)
        asking, why, seen = self._asking(candidates, oracle.model, rng), "", None
        while len(candidates) > 1:
            try:
                query = asking.send(seen)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as ended:
                why = ended.value
                break
            reply = oracle.query(query)
            seen = reply, candidates.update(answers.to_group(query), reply)
        number, left = None, len(candidates)
        if left == 1:
            number, why = int(candidates.first(1)[0]), "It is the only candidate consistent with all replies."
        elif left == 0:
            why = (
                "No candidate is consistent with all replies: one of them was off by more than the tolerance. Take "
                "larger batches, or a larger tolerance."
            )
        return SQResult(
            learner=self.name,
            asked=oracle.asked - asked,
            explanation=why,
            number=number,
            secret=None if number is None else tuple(family.secrets.unrank(number).tolist()),
            survivors=left,
            examples=None if examples is None else (oracle.examples_used or 0) - examples,
        )

    @abstractmethod
    def _asking(self, candidates: Candidates, model: Any, rng: Rng) -> Asking: ...


@dataclass(frozen=True)
@checked
class ExhaustiveSearch(_Eliminator):
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
    >>> result = ExhaustiveSearch().learn(ExactOracle(CSQ(0.3), family, 20), family)
    >>> result.secret, result.asked
    ((3, 9), 21)
    """

    shuffled: bool = False
    name = "exhaustive search"
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


def _in_between(tau: float, left: int, edge: str) -> str:
    return (
        f"The reply lay between the answers of the candidates and ruled out none; {left} are left. At tolerance "
        f"{tau:g} such replies are valid. For tau < {edge} this learner always succeeds."
    )
