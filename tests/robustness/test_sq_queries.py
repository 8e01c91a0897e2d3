"""Every model, oracle and learner of `sq`, asked with what a user may give by mistake."""

import json
import math

import numpy as np
import pytest
from fuzzing import Argument, Subject, anything, array, choice, fixed, made, real, seed, whole
from hypothesis import strategies as st
from sq_makers import DIRECTION, OPTIONAL, PARITY, nothing_to_say, oracle_of, parity

import sq
from attention import BooleanInputs, ExampleOracle
from lower import all_sign_matrices, query_lower_bound
from sq import CSQ, STAT, ExactOracle, HonestOracle, ReferenceAdversary


def query_is_right(result, given):
    x = np.ones((3, 2, 5))
    assert np.shape(result(x, x)) == (3, 2)
    assert result.low <= result.high


def correlational_is_right(result, given):
    assert np.array_equal(result(np.ones((3, 2, 5))), np.ones((3, 2)))


def queries_are_right(result, given):
    assert len(result) == int(given["size"])
    assert result[len(result) - 1].name.endswith(str(len(result) - 1))


def group_is_right(result, given):
    assert result.norm == pytest.approx(
        math.sqrt(math.fsum(float(one) ** 2 for one in given["weights"])), rel=1e-6
    )
    assert result.numbers.tolist() == [int(one) for one in given["numbers"]]


def part_is_right(result, given):
    """Labels of a hidden part show it again."""
    x, hidden = np.ones((1, 2, 5)), np.array([[1.0, -0.5]])
    scale = float(given["scale"])
    if 1e-3 < scale < 1e3:
        np.testing.assert_allclose(result.of_labels(x, result.labels(x, hidden)), hidden, atol=1e-6)


def oracle_is_right(result, given):
    """An exact oracle gives the correlation with its target; an adversary one that the model allows for some target."""
    reply = result.query(sq.GroupQuery.single(0))
    rows = np.array(
        [given["family"].correlations(number)[0] for number in range(given["family"].secrets.size)]
    )
    if "number" in given:
        assert reply == pytest.approx(rows[int(given["number"])], abs=1e-12)
    else:
        assert result.model.allows(rows, reply).any()
    assert result.asked == 1


def honest_is_right(result, given):
    ones = sq.StatisticalQuery(lambda x, y: np.ones(len(x)), low=0.0)
    assert result.query(ones) == 1.0
    assert (result.asked, result.examples_used) == (1, result.batch)


def group_reply_is_right(result, given):
    wanted = weighted_correlation(given["query"])
    assert result == pytest.approx(wanted, abs=1e-9)


def weighted_correlation(query):
    """E sum_a h(X)_a f_0(X)_a over all inputs, for a combination h of hidden parts or a function of the tokens."""
    family, x = parity(), all_sign_matrices(2, 5)
    own = family.hidden(0, x)
    if isinstance(query, sq.GroupQuery):
        h = sum(
            (w * family.hidden(int(n), x) for n, w in zip(query.numbers, query.weights, strict=True)),
            np.zeros_like(own),
        )
    else:
        h = query(x)
    return float((h * own).sum() / len(x))


def replies_are_right(result, given):
    np.testing.assert_allclose(result, [weighted_correlation(one) for one in given["queries"]], atol=1e-9)


def mean_is_one(result, given):
    assert result == 1.0


def result_is_right(result, given):
    """A target that is named is the one there is; against an adversary, one with which all replies agree."""
    assert isinstance(result, sq.SQResult)
    assert result.asked >= 0
    json.dumps(result.to_json(), allow_nan=False)
    if result.number is not None:
        family = given["family"]
        assert result.secret == tuple(family.secrets.unrank(result.number).tolist())
        assert result.survivors in (None, 1)
        if isinstance(given["oracle"], ExactOracle):
            assert result.number == 0
        else:
            needed = query_lower_bound(family.secrets.size, given["oracle"].model.tolerance)
            assert result.asked >= needed


def run_is_right(result, given):
    assert isinstance(result, sq.SQResult)
    assert (result.answer == 1) is result.found


def elimination_is_right(result, given):
    """The examples are those of target 1."""
    if result.outcome.name == "EXACT":
        x = all_sign_matrices(2, 5)
        np.testing.assert_allclose(result.predict(x), parity().instance(1).layer(x), atol=1e-6)


def cells_are_right(result, given):
    names = ("bits", "tolerances", "dims", "learners")
    assert len(result) == math.prod(len(set(given[name])) for name in names)
    assert len(set(result)) == len(result)


def point_is_right(result, given):
    row = json.loads(json.dumps(result.row(), allow_nan=False))
    assert sq.CurvePoint.from_row(row) == result
    if result.status == "found" and given["oracle"] == "reference":
        assert result.asked >= query_lower_bound(result.cell.targets, result.cell.tolerance)


def learn(learner, oracle, family, rng=None):
    return learner.learn(oracle, family, rng=rng)


def learned_by(learner, queried=ReferenceAdversary):
    return {
        "learner": Argument(*[st.just(fixed(learner))] * 2),
        "oracle": made(lambda: queried(CSQ(0.3), parity()), "<oracle>"),
        "family": PARITY,
        "rng": seed(),
    }


def examples():
    instance = parity().instance(1)
    return ExampleOracle(instance.layer, BooleanInputs(2, 5), rng=0)


def ones(x, y=None):
    return np.ones(x.shape[:2])


MODEL = anything(st.sampled_from([fixed(one) for one in (CSQ(0.3), CSQ(0.9))]))


SUBJECTS = [
    Subject(
        "sq.StatisticalQuery",
        sq.StatisticalQuery,
        {
            "function": anything(fixed(ones, "<ones>")),
            "low": real(-1.0, -0.5),
            "high": real(0.5, 1.0),
            "name": anything("query"),
        },
        right=query_is_right,
    ),
    Subject(
        "sq.CorrelationalQuery",
        sq.CorrelationalQuery,
        {"function": anything(fixed(ones, "<ones>")), "name": anything("query")},
        right=correlational_is_right,
    ),
    Subject(
        "sq.CorrelationalQueries",
        sq.CorrelationalQueries,
        {"function": anything(fixed(ones, "<ones>")), "size": whole(), "name": anything("queries")},
        right=queries_are_right,
    ),
    Subject(
        "sq.GroupQuery",
        sq.GroupQuery,
        {
            "numbers": array((2,), of=lambda rng, shape: np.array([0, 1]), torch=False),
            "weights": array((2,), of=lambda rng, shape: np.array([0.6, 0.8]), torch=False),
            "name": anything("group"),
        },
        right=group_is_right,
    ),
    Subject(
        "sq.HiddenPart",
        sq.HiddenPart,
        {
            "known": made(lambda: parity().instance(0).known, "<known part>"),
            "direction": array((5,), of=lambda rng, shape: np.eye(5)[0], torch=False),
            "scale": real(),
        },
        right=part_is_right,
    ),
    Subject(
        "sq.ExactOracle",
        ExactOracle,
        {"model": MODEL, "family": PARITY, "number": whole(0, 2)},
        right=oracle_is_right,
    ),
    *(
        Subject(f"sq.{one.__name__}", one, {"model": MODEL, "family": PARITY}, right=oracle_is_right)
        for one in (ReferenceAdversary, sq.MostPreservingAdversary)
    ),
    Subject(
        "sq.HonestOracle",
        HonestOracle,
        {
            "model": made(lambda: STAT(0.3), "<STAT>"),
            "examples": made(examples, "<examples>"),
            "batch": whole(),
            "part": choice(None),
            "family": Argument(st.just(fixed(None)), PARITY.hostile),
        },
        right=honest_is_right,
    ),
    Subject(
        "sq.SQOracle.query",
        lambda query: ExactOracle(CSQ(0.3), parity(), 0).query(query),
        {"query": anything(fixed(sq.GroupQuery(np.array([0]), np.array([1.0])), "<group>"))},
        right=group_reply_is_right,
    ),
    Subject(
        "sq.SQOracle.query_many",
        lambda queries: ExactOracle(CSQ(0.3), parity(), 0).query_many(queries),
        {"queries": anything(fixed([sq.GroupQuery(np.array([0]), np.array([1.0]))], "<groups>"))},
        words=("query",),
        right=replies_are_right,
    ),
    Subject(
        "sq.HonestOracle.query",
        lambda query: HonestOracle(STAT(0.3), examples(), batch=20).query(query),
        {"query": anything(fixed(sq.StatisticalQuery(lambda x, y: np.ones(len(x))), "<query>"))},
        right=mean_is_one,
    ),
    *(
        Subject(
            f"sq.{type(learner).__name__}.learn",
            learn,
            learned_by(learner),
            right=result_is_right,
            words=("oracle", "family"),
        )
        for learner in (sq.ScanLearner(), sq.GroupLearner(), sq.SignedGroupLearner())
    ),
    *(
        Subject(
            f"sq.{type(learner).__name__}.learn",
            learn,
            learned_by(learner, lambda model, family: ExactOracle(model, family, 0)),
            right=result_is_right,
            words=("oracle", "family"),
            share=0.4,
        )
        for learner in (
            sq.LowDegreeLearner(degree=2, samples=50),
            sq.DescentLearner(heads=1, steps=2, samples=50),
        )
    ),
    Subject(
        "sq.ScanLearner",
        sq.ScanLearner,
        {"shuffled": choice(False, True), "queries": OPTIONAL},
        right=nothing_to_say,
    ),
    *(
        Subject(f"sq.{one.__name__}", one, {"queries": OPTIONAL}, right=nothing_to_say)
        for one in (sq.GroupLearner, sq.SignedGroupLearner)
    ),
    Subject(
        "sq.LowDegreeLearner",
        sq.LowDegreeLearner,
        {"degree": whole(), "samples": whole()},
        right=nothing_to_say,
    ),
    Subject(
        "sq.DescentLearner",
        sq.DescentLearner,
        {"heads": whole(), "steps": whole(), "rate": real(), "check": whole(), "samples": whole()},
        right=nothing_to_say,
    ),
    Subject(
        "sq.run_by_queries",
        sq.run_by_queries,
        {
            "learner": anything(fixed(lambda oracle: 1, "<learner>")),
            "oracle": made(lambda: oracle_of(parity()), "<oracle>"),
            "name": anything("mine"),
            "failures": choice((ArithmeticError,)),
        },
        right=run_is_right,
    ),
    Subject(
        "sq.ParityElimination",
        sq.ParityElimination,
        {
            "gate": choice(0),
            "direction": DIRECTION,
            "known": choice(None),
            "heads": choice(None),
            "examples": OPTIONAL,
            "surplus": whole(1),
            "tolerance": real(1e-4, 1e-3),
        },
        right=nothing_to_say,
    ),
    Subject(
        "sq.ParityElimination.fit",
        lambda oracle: sq.ParityElimination.for_instance(parity().instance(1)).fit(oracle),
        {"oracle": made(examples, "<examples>")},
        right=elimination_is_right,
        share=0.5,
    ),
    # curves
    Subject(
        "sq.curve_cells",
        sq.curve_cells,
        {
            "dims": anything([5]),
            "bits": anything([2]),
            "tolerances": anything([0.3]),
            "learners": anything(("scan",)),
            "oracle": choice("reference"),
            "batch": OPTIONAL,
            "seed": whole(0),
        },
        right=cells_are_right,
    ),
    Subject(
        "sq.measure_cell",
        lambda **given: sq.measure_cell(sq.CurveCell(**given)),
        {
            "learner": choice("scan", "group"),
            "dim": whole(4, 5),
            "bits": whole(1, 2),
            "tolerance": real(0.3, 0.5),
            "oracle": choice("reference", "exact"),
            "batch": OPTIONAL,
            "seed": whole(0),
        },
        right=point_is_right,
        share=0.5,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
