"""How a fit ended, and the sentence that tells it."""

from enum import Enum
from typing import Literal


class Outcome(Enum):
    """How a fit ended; the value tells the user what happened and what to do."""

    EXACT = "Exact: the held-out {examples} are reproduced to the precision of the arithmetic."
    REACHED_TOLERANCE = "Reached: the error on fresh {examples} is below the requested tolerance."
    PRECISION_FLOOR = (
        "Floor: the error stopped falling at the floor of the arithmetic; use a wider dtype for more."
    )
    NOISE_FLOOR = (
        "Learned to the noise: fresh labels are predicted as well as their noise allows; allow more {examples}, "
        "average more answers, or allow longer tokens, for more."
    )
    UNCONFIRMED = (
        "Unconfirmed: the held-out {examples} are reproduced, but others may not be: too few of them do not follow "
        "from fitted ones, or another layer has the same outputs on all {examples}; give more {examples}, of more "
        "different inputs."
    )
    NOTHING_LEARNED = (
        "Nothing learned: held-out {examples} are predicted no better than by zero; allow more {examples}, or take it "
        "as evidence that the labels are random or the target is hard for this learner."
    )
    BEST_OF_CLASS = (
        "Best of its class: no better predictor of this kind exists on the {examples}, but the {examples} are not "
        "reproduced; a richer class is needed."
    )
    LOCAL_MINIMUM = (
        "Stuck: every start ended in a local minimum; allow more restarts or {examples}, another number of heads, a "
        "higher rank or biases, or take it as evidence that the target is hard for this learner."
    )
    OVERFITTED = (
        "Overfitted: the {examples} are reproduced but held-out ones are not; allow more {examples}, or take it as "
        "evidence that the target is hard for this learner."
    )
    RESIDUAL_FLOOR = (
        "Too small or stuck: independent starts end at the same error, on held-out {examples} too, and what is left of "
        "the labels is not noise, for it depends on the tokens; allow more heads, a higher rank, biases or a mask."
    )
    WORK_SPENT = (
        "Out of work: the budget of passes over the data was spent before convergence; allow more work."
    )
    ONE_PASS = (
        "One pass done: this learner estimates once and promises no error; one that iterates may go further."
    )
    EXAMPLES_SPENT = (
        "Out of {examples}: the budget of {examples} was spent before convergence; allow more {examples}."
    )
    EXAMPLES_RAN_OUT = (
        "Out of {examples}: the given {examples} ran out before convergence; give more of them."
    )
    DIVERGED = (
        "Diverged: the parameters left the finite numbers; lower the learning rate or rescale the target."
    )
    NO_PROJECTION_SUM = (
        "Phase 1 failed: the estimate of the sum of the projections does not stand out from its statistical error; "
        "allow more {examples}, or take it that the projections cancel."
    )
    NO_AGREEMENT = (
        "Too few rows were found on which all heads have the same attention pattern; allow more "
        "{examples}: agreement within eps has probability of order eps^((m-1)(k-1))."
    )
    CONTRADICTION = (
        "Phase 2 or 4 failed: no attention matrix satisfies what the certified rows say; the certificates are false, "
        "as they are where the projections are not in general position."
    )
    NO_LARGE_MARGIN = (
        "Phase 3 failed: too few rows were found on which every head attends to one token; the asymptotics have not "
        "set in at this number of coordinates, or the heads attend too weakly."
    )
    NOT_REFINED = (
        "Phase 4 failed: with the refined sum of the projections the rows agree no better, or no longer; allow more "
        "{examples} to phase 3."
    )
    NO_SPECTRAL_GAP = (
        "Phase 5 failed: the body has no m - 1 directions that are clearly wider than the others; allow more "
        "{examples}, or check the number of heads."
    )
    NET_TOO_COARSE = (
        "Phase 6 failed: no tuple of the net reaches the tolerance on held-out {examples}; allow more work or more "
        "{examples}, or a larger tolerance."
    )
    NOT_SEPARATED = (
        "Heads not separated: the queries do not tell the heads apart, as where their outputs lie in one "
        "direction, where there are more heads than coordinates, or where answers are too coarse."
    )
    NO_LAYER = (
        "No attention layer: equal tokens are not answered by a bias and a linear map, as every layer answers them; "
        "leave out norms and activations."
    )
    NO_BLOCK = (
        "No such block: one token is not answered by a network of one hidden layer whose neurons can be told apart; "
        "take ReLU, GELU or tanh, and behind norms (post-norm) GELU or tanh."
    )
    NOT_APPLICABLE = (
        "Not of this kind: the {examples} contradict what this attack assumes; use a general learner."
    )

    @property
    def succeeded(self) -> bool:
        """Whether held-out examples confirm a small error; BEST_OF_CLASS may have a large one, so it is no success."""
        return self in _SUCCESSES

    def sentence(self, counted: Literal["example", "query"] = "example") -> str:
        """The sentence for a learner that counts examples or value queries."""
        return str(self.value).format(examples={"example": "examples", "query": "queries"}[counted])

    def __str__(self) -> str:
        return self.sentence()


_SUCCESSES = frozenset(
    {Outcome.EXACT, Outcome.REACHED_TOLERANCE, Outcome.PRECISION_FLOOR, Outcome.NOISE_FLOOR}
)
