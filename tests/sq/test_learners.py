import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lower import query_lower_bound
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.fitting import DescentLearner, LowDegreeLearner, _Student
from sq.learners import GroupLearner, ScanLearner, SignedGroupLearner, group_learner_bound, run_by_queries
from sq.models import CSQ, STAT
from sq.oracles import ExactOracle, HonestOracle, SQOracle
from sq.parities import ParityFamily
from sq.profiles import BumpFamily
from sq.queries import StatisticalQuery

ELIMINATORS = [ScanLearner(), GroupLearner(), SignedGroupLearner()]

# at most 715 candidates, and tolerances of four digits, so that 1/tau^2 is a whole number or clearly none
cells = st.integers(2, 14).flatmap(
    lambda dim: st.tuples(
        st.just(dim), st.integers(1, min(dim - 1, 4)), st.integers(300, 9999).map(lambda n: n / 1e4)
    )
)


class Recorded(SQOracle):
    """Passes queries on and keeps them with their replies."""

    def __init__(self, oracle):
        super().__init__(oracle.model)
        self.oracle, self.log = oracle, []

    def _reply(self, query):
        self.log.append((query, self.oracle.query(query)))
        return self.log[-1][1]


def consistent(family, log, tau):
    """The candidates that every reply is valid for, from the definition."""
    left = np.ones(len(family.secrets), dtype=bool)
    for query, reply in log:
        values = np.zeros(len(left))
        values[query.numbers] = query.weights
        left &= np.abs(values - reply) <= tau + 1e-12
    return np.flatnonzero(left)


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


@settings(max_examples=30, deadline=None)
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
    oracle = Recorded(adversary)
    result = learner.learn(oracle, family)
    left = consistent(family, oracle.log, tau)
    assert result.asked == len(oracle.log) == adversary.asked
    assert left.tolist() == adversary.survivors.tolist()
    assert result.survivors == len(left)
    if result.found:
        assert left.tolist() == [result.number]
    else:
        assert len(left) > 1
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


def test_honest_scan_of_real_layers_takes_half_the_candidates_on_average():
    family = ParityFamily(dim=10, bits=2, construction="B")
    size, runs = len(family.secrets), 20
    rng = np.random.default_rng(10_002)
    counts = []
    for run in range(runs):
        number = int(rng.integers(size))
        oracle = HonestOracle.for_instance(
            CSQ(0.5), family.instance(number), batch=256, family=family, rng=run
        )
        result = ScanLearner(shuffled=True).learn(oracle, family, rng=rng)
        assert result.number == number
        assert result.examples == 256 * result.asked == oracle.examples_used
        counts.append(result.asked)
    assert abs(np.mean(counts) - (size + 1) / 2) <= 4 * math.sqrt((size**2 - 1) / (12 * runs))


def test_a_reply_off_by_more_than_the_tolerance_is_noticed_or_at_least_not_hidden():
    family = ParityFamily(dim=8, bits=2)
    noisy = HonestOracle.for_instance(CSQ(0.1), family.instance(3), batch=5, family=family, rng=0)
    result = ScanLearner().learn(noisy, family)
    assert (result.number, result.survivors) == (None, 0)
    assert "off by more than the tolerance" in result.explanation


def test_scan_serves_families_that_are_not_orthogonal_and_groups_say_why_they_do_not():
    bump = BumpFamily(dim=9, bits=4)
    for number in (0, 17, 69):
        assert ScanLearner().learn(ExactOracle(CSQ(0.2), bump, number), bump).number == number
    for learner in (GroupLearner(), SignedGroupLearner()):
        with pytest.raises(ValueError, match="not known to be orthonormal"):
            learner.learn(ExactOracle(CSQ(0.2), bump, 0), bump)


@pytest.mark.parametrize(("dim", "bits"), [(4, 1), (5, 1), (6, 2)])
def test_low_degree_finds_nothing_below_2l_plus_1_and_everything_there(dim, bits):
    family = ParityFamily(dim=dim, bits=bits)
    degree, number = 2 * bits + 1, len(family.secrets) // 2
    below = LowDegreeLearner(degree=degree - 1)
    nothing = below.learn(ExactOracle(CSQ(0.01), family, number), family)
    assert nothing.number is None
    assert nothing.asked == below.queries(2, dim) == 2 * sum(math.comb(2 * dim, r) for r in range(degree))
    assert f"None of the {nothing.asked} coefficients" in nothing.explanation
    found = LowDegreeLearner(degree=degree).learn(ExactOracle(CSQ(0.4), family, number), family)
    assert found.number == number
    assert found.asked == LowDegreeLearner(degree=degree).queries(2, dim) + 1
    # +-1/2, two in each row
    assert found.explanation.startswith(f"4 coefficients were seen from degree {degree} on, of 0.5 to 0.5. ")
    blind = LowDegreeLearner(degree=degree).learn(ExactOracle(CSQ(0.6), family, number), family)
    assert blind.number is None


@pytest.mark.parametrize(
    "kind", [ReferenceAdversary, pytest.param(MostPreservingAdversary, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("tau", [0.2, 0.45, 0.6])
def test_low_degree_and_descent_name_only_what_the_replies_allow(kind, tau):
    family = ParityFamily(dim=4, bits=1)
    for learner in (LowDegreeLearner(degree=3), DescentLearner(heads=2, steps=20)):
        adversary = kind(CSQ(tau), family)
        result = learner.learn(adversary, family, rng=0)
        assert result.asked == adversary.asked
        if result.found:
            assert adversary.survivors.tolist() == [result.number]


def test_derivatives_of_the_student_are_its_differences():
    rng = np.random.default_rng(0)
    m, d = 2, 3
    parameters, x = rng.standard_normal(m * (d * d + d)), rng.standard_normal((5, 2, d))
    slopes, step = _Student(parameters, m, d).slopes(x), 1e-6
    for place in range(len(parameters)):
        shift = step * np.eye(len(parameters))[place]
        difference = _Student(parameters + shift, m, d)(x) - _Student(parameters - shift, m, d)(x)
        np.testing.assert_allclose(slopes[..., place], difference / (2 * step), atol=1e-8)


def test_descent_learns_one_bit_and_counts_every_coordinate_of_every_gradient():
    family = ParityFamily(dim=5, bits=1)
    learner = DescentLearner(heads=3)
    result = learner.learn(ExactOracle(CSQ(0.01), family, 2), family, rng=0)
    assert result.number == 2
    assert learner.queries_per_step(5) == 90
    assert (result.asked - 1) % 90 == 0
    few = DescentLearner(heads=3, steps=2).learn(ExactOracle(CSQ(0.01), family, 2), family, rng=0)
    assert (few.number, few.asked) == (None, 180)
    assert "near no candidate" in few.explanation


class Entries(list):
    """A matrix of means asked for at once, with the tolerance it needs."""

    low, high, name = -1.0, 1.0, "token means"
    tolerance = 0.02

    def means(self, x, y):
        return x[:, 0, : len(self)].mean(axis=0)


def asks_for_all(oracle):
    one = oracle.query(StatisticalQuery(lambda x, y: x[:, 0, 0]))
    family = Entries(StatisticalQuery(lambda x, y, j=j: x[:, 0, j]) for j in range(3))
    many = oracle.query_many(family)
    family.tolerance = 0.5  # a later one that needs less
    return one, many, oracle.query_many(family)


@pytest.mark.parametrize("temper", ["exact", "honest", "reference", "preserving"])
def test_a_learner_handed_in_is_answered_and_counted_by_every_oracle(temper):
    family = ParityFamily(dim=4, bits=2)
    model = STAT(0.1)
    oracle = {
        "exact": lambda: ExactOracle(model, family, 0),
        "honest": lambda: HonestOracle.for_instance(model, family.instance(0), batch=4000, rng=0),
        "reference": lambda: ReferenceAdversary(model, family),
        "preserving": lambda: MostPreservingAdversary(model, family),
    }[temper]()
    result = run_by_queries(asks_for_all, oracle, name="means")
    assert result.found
    assert (result.asked, result.learner, result.least_tolerance) == (7, "means", 0.02)
    assert result.examples == (12_000 if temper == "honest" else None)
    one, *many = result.answer
    assert abs(one) <= 0.1
    assert np.abs(many).max() <= 0.1
