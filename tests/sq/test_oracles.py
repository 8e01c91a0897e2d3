import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower import all_sign_matrices
from sq.adversaries import MostPreservingAdversary, ReferenceAdversary
from sq.answers import TrueAnswers
from sq.labels import hidden_of_labels
from sq.models import CSQ, STAT, VSTAT
from sq.oracles import ExactOracle, HonestOracle
from sq.parities import ParityFamily
from sq.periodic import PeriodicFamily
from sq.profile_family import ProfileFamily
from sq.queries import CorrelationalQuery, GroupQuery, StatisticalQuery

ADVERSARIES = [ReferenceAdversary, MostPreservingAdversary]
SMALL = ParityFamily(dim=4, bits=2)
BUMP = ProfileFamily.bump(dim=6, bits=4)


def every_oracle(model):
    honest = HonestOracle(model, SMALL.instance(0), batch=500, rng=0)
    return [ExactOracle(model, SMALL, 0), honest, *(adversary(model, SMALL) for adversary in ADVERSARIES)]


def as_function(family, query):
    """The same query as a plain function, for which the oracle knows no closed form."""
    return CorrelationalQuery(
        lambda x: sum(w * family.hidden(int(s), x) for s, w in zip(query.numbers, query.weights, strict=True))
    )


def random_group(rng, size, most=4):
    numbers = rng.choice(size, size=rng.integers(1, min(most, size) + 1), replace=False)
    weights = rng.standard_normal(len(numbers))
    return GroupQuery(numbers, weights / np.linalg.norm(weights))


def random_function(rng, bounded):
    """A statistical query on two entries of the tokens and one of the labels."""
    coefficients = rng.uniform(-1, 1, size=5)
    coefficients /= np.abs(coefficients).sum()
    places = [tuple(rng.integers([2, 4])) for _ in range(3)]

    def function(x, y):
        a, b, sign = x[:, *places[0]], x[:, *places[1]], np.sign(np.round(y[:, places[2][0], 0], 9))
        parts = [np.ones(len(x)), a, a * b, sign, sign * a * b * x[:, 1, 2]]
        value = sum(c * part for c, part in zip(coefficients, parts, strict=True))
        return (value + 1) / 2 if bounded else value

    return StatisticalQuery(function, low=0.0 if bounded else -1.0)


def candidate_means(family, query):
    """By the definition: all inputs, labels of the heads."""
    x = all_sign_matrices(family.tokens, family.dim)
    return np.array([query(x, family.instance(s).layer(x)).mean() for s in range(len(family.secrets))])


def test_exact_answers_to_groups_agree_with_enumeration():
    rng = np.random.default_rng(0)
    for family in (SMALL, BUMP):
        for number in range(3):
            oracle = ExactOracle(CSQ(0.3), family, number)
            for _ in range(4):
                query = random_group(rng, len(family.secrets))
                if not family.orthonormal:
                    query = GroupQuery(query.numbers, query.weights / 2)
                wanted = oracle.query(as_function(family, query))
                assert oracle.query(query) == pytest.approx(wanted, abs=1e-12)


def test_an_honest_oracle_draws_one_batch_a_call():
    query = StatisticalQuery(lambda x, y: x[:, 0, 0])
    oracle = HonestOracle(STAT(0.1), SMALL.instance(0), batch=70, rng=0)
    first = oracle.query(query)
    assert (oracle.asked, oracle.examples_used, oracle.batch) == (1, 70, 70)
    assert oracle.query(query) != first  # fresh examples
    assert (oracle.asked, oracle.examples_used) == (2, 140)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(ADVERSARIES),
    st.sampled_from([0.05, 0.1, 0.3, 0.5, 0.7, 0.9]),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_correlational_replies_stay_valid_for_exactly_the_survivors(adversary, tau, seed, orthonormal):
    family = ParityFamily(dim=8, bits=3) if orthonormal else BUMP
    rng = np.random.default_rng(seed)
    oracle = adversary(CSQ(tau), family)
    size = len(family.secrets)
    valid = np.ones(size, dtype=bool)
    for number in range(1, 13):
        query = random_group(rng, size, most=8)
        if not orthonormal:
            query = GroupQuery(query.numbers, query.weights / np.sqrt(len(query.weights)))
        rows = np.array([family.correlations(int(s)) for s in query.numbers])
        values = query.weights @ rows
        reply, before = oracle.query(query), valid
        valid = before & (np.abs(values - reply) <= tau + 1e-12)
        if adversary is MostPreservingAdversary:  # no reply leaves more
            ends = np.concatenate([values, values - tau, values + tau])
            left = (np.abs(values - ends[:, None]) <= tau + 1e-12) & before
            assert valid.sum() == left.sum(axis=1).max()
        assert oracle.asked == number
        assert oracle.survivors.tolist() == np.flatnonzero(valid).tolist()
        assert len(oracle.survivors) >= 1


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(ADVERSARIES),
    st.sampled_from([STAT(0.05), STAT(0.3), VSTAT(5), VSTAT(60)]),
    st.integers(0, 2**32),
)
def test_statistical_replies_stay_valid_for_exactly_the_survivors(adversary, model, seed):
    rng = np.random.default_rng(seed)
    oracle = adversary(model, SMALL)
    valid = np.ones(len(SMALL.secrets), dtype=bool)
    queries = [random_function(rng, bounded=isinstance(model, VSTAT)) for _ in range(4)]
    queries += [
        StatisticalQuery(
            lambda x, y, s=s: (1 + np.round(np.sum(y[..., 0] * SMALL.hidden(s, x), axis=1) / 20, 9)) / 2,
            low=0.0,
        )
        for s in range(3)
    ]
    replies = [oracle.query(query) for query in queries]
    for query, reply in zip(queries, replies, strict=True):
        values = candidate_means(SMALL, query)
        valid &= np.abs(values - reply) <= model.errors(values) + 1e-11
    assert oracle.survivors.tolist() == np.flatnonzero(valid).tolist()
    assert len(oracle.survivors) >= 1


def test_the_reference_adversary_keeps_to_the_reference_until_nobody_allows_it():
    family = ParityFamily(dim=4, bits=1)
    oracle = ReferenceAdversary(CSQ(0.4), family)
    assert oracle.query(GroupQuery.signed(np.array([0, 1]))) == 0.0
    assert oracle.survivors.tolist() == [2]
    # |h| = 1 on the only survivor: the valid value nearest to 0
    assert oracle.query(GroupQuery.single(2)) == pytest.approx(0.6)
    oracle = ReferenceAdversary(CSQ(0.4), family)
    weights = np.array([-0.5, 0.7, 0.5])
    assert oracle.query(GroupQuery(np.arange(3), weights)) == pytest.approx(-0.1)  # the lowest of the nearest
    assert oracle.survivors.tolist() == [0]


def test_the_reference_of_statistical_queries_has_a_uniform_sign_on_the_gate():
    answers = TrueAnswers(SMALL)
    x = answers.x
    gate = (x[:, 0, 0] != x[:, 1, 0]).astype(float)
    sign = StatisticalQuery(lambda x, y: np.sign(np.round(hidden_of_labels(answers.instance, x, y)[:, 0], 9)))
    size = StatisticalQuery(lambda x, y: np.abs(np.round(hidden_of_labels(answers.instance, x, y)[:, 0], 9)))
    assert answers.reference(sign) == pytest.approx(0, abs=1e-12)
    assert answers.reference(size) == pytest.approx(gate.mean())


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("model", "query", "words"),
    [
        (CSQ(0.3), GroupQuery(np.array([0, 1]), np.array([1.0, 1.0])), "has norm 1.41421"),
        (CSQ(0.3), CorrelationalQuery(lambda x: x[..., 0], name="entry"), "The entry has norm 1.41421"),
        (STAT(0.3), GroupQuery.single(0), "low and high"),
        (STAT(0.3), StatisticalQuery(lambda x, y: np.nan * x[:, 0, 0]), "value nan"),
        (VSTAT(9), StatisticalQuery(lambda x, y: x[:, 0, 0]), r"values in \[0, 1\]"),
    ],
)
def test_bad_queries_are_refused_by_every_oracle_and_leave_no_trace(model, query, words):
    for oracle in every_oracle(model):
        with pytest.raises(ValueError, match=words):
            oracle.query(query)
        assert oracle.asked == 0
        assert len(getattr(oracle, "survivors", range(3))) == 3


def test_oracles_take_the_tokens_of_the_family_and_assume_no_signs():
    wave = PeriodicFamily(dim=6, bits=2, gamma=0.3)
    mark = CorrelationalQuery(lambda x: x[..., 0] / np.sqrt(2))  # 1 and -1 in the two tokens
    honest = HonestOracle(CSQ(0.3), wave.instance(0), batch=4000, rng=0)
    assert abs(honest.query(mark)) < 0.1  # both rows show the same wave
    with pytest.raises(ValueError, match=r"MarkedInputs.*for signs"):
        ExactOracle(CSQ(0.3), wave, 0).query(mark)
    assert ExactOracle(CSQ(0.3), wave, 0).query(GroupQuery.single(0)) == pytest.approx(1)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 6))
def test_signed_groups_have_norm_one_and_one_sign_each_half(plus, minus):
    query = GroupQuery.signed(np.arange(plus), np.arange(plus, plus + minus))
    assert query.norm == pytest.approx(1, abs=1e-15)
    assert np.sign(query.weights).tolist() == [1.0] * plus + [-1.0] * minus


@settings(deadline=None)
@given(st.integers(1, 1000), st.floats(0, 1))
def test_vstat_error_is_the_larger_of_one_over_n_and_the_standard_error(n, p):
    expected = max(1 / n, (p * (1 - p) / n) ** 0.5)
    assert float(VSTAT(n).errors(p)) == pytest.approx(expected, rel=1e-12)
    assert VSTAT(n).errors(p) <= max(1 / n, 1 / (2 * n**0.5)) + 1e-15
