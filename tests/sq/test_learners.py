import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lower import query_lower_bound
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.learners import ExhaustiveSearch, GroupLearner, SignedGroupLearner, group_learner_bound
from sq.models import CSQ
from sq.oracles import ExactOracle, HonestOracle
from sq.parities import ParityFamily

ELIMINATORS = [ExhaustiveSearch(), GroupLearner(), SignedGroupLearner()]

# at most 715 candidates, and tolerances of four digits, so that 1/tau^2 is a whole number or clearly none
cells = st.integers(2, 14).flatmap(
    lambda dim: st.tuples(
        st.just(dim), st.integers(1, min(dim - 1, 4)), st.integers(300, 9999).map(lambda n: n / 1e4)
    )
)


def stepped(number, steps):
    for _ in range(abs(steps)):
        number = math.nextafter(number, math.copysign(1, steps))
    return number


# tolerances at 1/sqrt(M) and 1/(2 sqrt(M)), a few floats beside them, and within the 4e-12 that rounding could hide
edges = st.tuples(st.integers(2, 129), st.sampled_from([1, 2])).flatmap(
    lambda one: st.one_of(
        st.integers(-3, 3).map(lambda steps: stepped(1 / math.sqrt(one[0]) / one[1], steps)),
        st.floats(-5e-12, 5e-12).map(lambda shift: 1 / math.sqrt(one[0]) / one[1] + shift),
    )
)


@settings(max_examples=12, deadline=None)
@given(edges, st.sampled_from([(8, 3), (9, 2)]))
@example(1 / math.sqrt(2), (8, 3))
@example(math.nextafter(1 / math.sqrt(2), 1), (8, 3))
@example(0.49999999999999994, (8, 3))
@example(0.5, (8, 3))
@example(0.5 - 1e-12, (8, 3))
@example(1 / math.sqrt(11) - 3e-12, (8, 3))
@example(1 / math.sqrt(3), (9, 2))
def test_counts_meet_the_bounds_at_and_around_the_tolerances_where_these_jump(tau, cell):
    family = ParityFamily(dim=cell[0], bits=cell[1])
    size = len(family.secrets)
    # M* by the definition, with tau as the decimal that it prints
    most = max(one for one in range(1, 600) if one * Fraction(repr(tau)) ** 2 < 1)
    result = GroupLearner().learn(ReferenceAdversary(CSQ(tau), family), family)
    assert result.asked == math.ceil((size - 1) / most) == query_lower_bound(size, tau)
    assert group_learner_bound(size, tau) == result.asked + math.ceil(math.log2(most))
    exact = GroupLearner().learn(ExactOracle(CSQ(tau), family, size // 2), family)
    assert (exact.number, exact.asked <= group_learner_bound(size, tau)) == (size // 2, True)
    for learner, sure in ((GroupLearner(), tau < 0.5), (SignedGroupLearner(), most >= 2)):
        adversary = MostPreservingAdversary(CSQ(tau), family)
        found = learner.learn(adversary, family)
        assert found.found == sure
        assert not sure or adversary.survivors.tolist() == [found.number]
        assert not sure or found.asked >= query_lower_bound(size, tau)


@settings(max_examples=30, deadline=None)
@given(
    cells,
    st.sampled_from(ELIMINATORS),
    st.sampled_from([ReferenceAdversary, MostPreservingAdversary]),
)
def test_right_secret_or_honest_refusal_against_every_adversary(cell, learner, kind):
    dim, bits, tau = cell
    family = ParityFamily(dim=dim, bits=bits)
    adversary = kind(CSQ(tau), family)
    result = learner.learn(adversary, family)
    assert result.asked == adversary.asked
    assert result.survivors == len(adversary.survivors)
    if result.found:
        assert adversary.survivors.tolist() == [result.number]
    else:
        assert result.survivors > 1
        assert "left" in result.explanation or "consistent" in result.explanation
    # what refusing is reserved for
    if kind is ReferenceAdversary or tau < 0.5 or (tau < 0.7071 and learner == SignedGroupLearner()):
        assert result.found
    elif len(family.secrets) > 1 and tau > 0.7072:
        assert not result.found


@settings(max_examples=20, deadline=None)
@given(cells, st.sampled_from(ELIMINATORS), st.integers(0, 2**32))
def test_any_valid_replies_lead_to_the_target_or_a_refusal(cell, learner, seed):
    dim, bits, tau = cell
    family = ParityFamily(dim=dim, bits=bits)
    rng = np.random.default_rng(seed)
    number = int(rng.integers(len(family.secrets)))

    class Wavering(ExactOracle):
        def _reply(self, query):
            return super()._reply(query) + tau * rng.choice([-1, -0.5, 0, 0.5, 1])

    result = learner.learn(Wavering(CSQ(tau), family, number), family)
    assert result.number in (number, None)
    if tau < 0.5:
        assert result.number == number


def test_exhaustive_search_of_real_layers_takes_half_the_candidates_on_average():
    family = ParityFamily(dim=10, bits=2, construction="B")
    size, runs = len(family.secrets), 20
    rng = np.random.default_rng(10_002)
    counts = []
    for run in range(runs):
        number = int(rng.integers(size))
        oracle = HonestOracle(CSQ(0.5), family.instance(number), batch=256, rng=run)
        result = ExhaustiveSearch(shuffled=True).learn(oracle, family, rng=rng)
        assert result.number == number
        assert result.examples == 256 * result.asked == oracle.examples_used
        counts.append(result.asked)
    assert abs(np.mean(counts) - (size + 1) / 2) <= 4 * math.sqrt((size**2 - 1) / (12 * runs))


def test_a_reply_off_by_more_than_the_tolerance_is_noticed_or_at_least_not_hidden():
    family = ParityFamily(dim=8, bits=2)
    noisy = HonestOracle(CSQ(0.1), family.instance(3), batch=5, rng=0)
    result = ExhaustiveSearch().learn(noisy, family)
    assert (result.number, result.survivors) == (None, 0)
    assert "off by more than the tolerance" in result.explanation
