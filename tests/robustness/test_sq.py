"""Every public function of `sq`, called with what a user may give it by mistake."""

import itertools
import math
from fractions import Fraction

import networkx
import numpy as np
import pytest
from fuzzing import (
    Argument,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    missing_subjects,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import sq
from attention import BooleanInputs, ExampleOracle
from sq import (
    CSQ,
    STAT,
    BumpFamily,
    ExactOracle,
    HiddenGateFamily,
    HonestOracle,
    PairFamily,
    ParityFamily,
    ReferenceAdversary,
    SecretSet,
    TokenParityFamily,
    TwoSlopeFamily,
)

# ------------------------------------------------------------------------------------------- what is right


def family_is_right(result, given):
    number = result.secrets.size
    if number > 5000 or result.dim > 30:
        return
    instance = result.instance(number - 1)
    x = instance.inputs.sample(16, rng=0)
    wanted = instance.known(x) + result.scale * np.einsum(
        "nk,d->nkd", result.hidden(number - 1, x), _direction(instance)
    )
    slack = instance.realisation_error + 1e-9 * (1 + np.abs(instance.layer.w).sum())
    assert np.abs(instance.layer(x) - wanted).max() <= slack
    assert abs(result.correlations(0)[0] - 1) < 1e-9


def _direction(instance):
    return np.asarray(instance.parameters["direction"])


def instance_is_right(result, given):
    if result.layer.dim <= 30:
        assert_finite((result.layer.theta, result.layer.w))
        assert sq.verify_instance(result, samples=50, rng=0).max_error <= result.allowed_error


def secrets_are_right(result, given):
    if result.size <= 1000:
        table = result.table
        assert len(table) == result.size == len({tuple(row) for row in table.tolist()})
        for number in {0, result.size - 1, result.size // 2}:
            assert np.array_equal(result.unrank(number), table[number])
            assert result.rank(table[number]) == number


def bound_is_right(result, given):
    assert result.whole >= 0


def gram_is_right(result, given):
    assert_finite(result.matrix)
    assert np.array_equal(result.matrix, result.matrix.T)


def result_is_right(result, given):
    assert isinstance(result, sq.SQResult)
    assert result.asked >= 0
    result.to_json()


def whole_number(result, given):
    assert isinstance(result, int)


def nothing_to_say(result, given):
    str(result)


def krawtchouk_is_right(result, given):
    bits, degree, number = (int(given[one]) for one in ("bits", "degree", "number"))
    wanted = sum(
        (-1) ** j * math.comb(number, j) * math.comb(bits - number, degree - j) for j in range(degree + 1)
    )
    assert result == wanted


def weights_are_right(result, given):
    assert abs(float(sum(result)) - 1) < 1e-9
    assert all(one >= -1e-12 for one in result)


# ------------------------------------------------------------------------------------------- what is given


def parity():
    return ParityFamily(dim=5, bits=2, construction="B")


def bump():
    return BumpFamily(dim=6, bits=4)


FAMILIES = {
    "parity": parity,
    "bump": bump,
    "pair": lambda: PairFamily(dim=4),
    "token parity": lambda: TokenParityFamily(dim=5, tokens=3, bits=2),
    "hidden gate": lambda: HiddenGateFamily(base=ParityFamily(dim=4, bits=1)),
}
FAMILY = anything(
    st.sampled_from([made(make, f"<{name}>").sane for name, make in FAMILIES.items()]).flatmap(lambda s: s)
)
PARITY = made(parity, "<parity>")
BUMP = made(bump, "<bump>")
INSTANCE = made(lambda: ParityFamily(dim=5, bits=2, construction="B").instance(1), "<instance>")
ANY_INSTANCE = anything(
    st.sampled_from(
        [
            made(lambda make=make: make().instance(0), f"<{name} instance>").sane
            for name, make in FAMILIES.items()
        ]
    ).flatmap(lambda s: s)
)
GRAM = made(lambda: sq.closed_form_gram(bump()), "<gram>")
OVERLAPS = made(lambda: sq.overlap_gram(bump()), "<overlap gram>")
TOLERANCE = anything(st.sampled_from([fixed(one) for one in (0.1, "0.5", Fraction(1, 3), 0.9)]))
CORRELATION = anything(st.sampled_from([fixed(one) for one in (0.1, "0.5", Fraction(1, 3))]))
MODEL = anything(st.sampled_from([fixed(one) for one in (CSQ(0.3), CSQ(0.9))]))
NUMBERS = Argument(
    st.sampled_from([fixed(None), fixed([0, 2]), fixed(np.array([1]))]),
    st.sampled_from([fixed(one) for one in ([], [0, 0], [-1], [10**9], [0.5], [[0]], "01", 3, [True])])
    | anything(None).hostile,
)
PROFILE = Argument(
    array((4,)).sane, array((4,), torch=False).hostile | st.sampled_from([fixed([1] * 3), fixed([0.5])])
)
CONSTRUCTION = choice("A", "B", "C", "D")
SLOPES = Argument(
    st.just(fixed(None)),
    st.sampled_from(
        [fixed(one) for one in ([0.5], (0.5, 1.0), [0.5, 0.5], [1.0, math.nan], [-1.0, 2.0], [1, 2, 3])]
    )
    | anything(None).hostile,
)
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
BETA = Argument(st.sampled_from([fixed(None), fixed(2.0)]), real().hostile)
DIRECTION = Argument(st.just(fixed(None)), array((5,), torch=False).hostile)
SMALL_DIM = whole(5, 8)


def tokens(size):
    return array((size.n, 2, 5), of=lambda rng, shape: rng.choice([-1.0, 1.0], shape), torch=False)


def oracle_of(family):
    return ReferenceAdversary(CSQ(0.3), family)


def examples():
    instance = parity().instance(1)
    return ExampleOracle(instance.layer, BooleanInputs(2, 5), rng=0)


def learn(learner, oracle, family, rng=None):
    return learner.learn(oracle, family, rng=rng)


def learned_by(learner, queried=ReferenceAdversary):
    return {
        "learner": Argument(*[st.just(fixed(learner))] * 2),
        "oracle": made(lambda: queried(CSQ(0.3), parity()), "<oracle>"),
        "family": PARITY,
        "rng": seed(),
    }


def method(name, **arguments):
    def call(of, **given):
        return getattr(of, name)(**given)

    return call


def on(make, label):
    """The object a method is called on, which is never hostile."""
    one = made(make, label).sane
    return Argument(one, one)


def ones(x, y=None):
    return np.ones(x.shape[:2])


def subject_of_gram(name, call, right, **more):
    return [
        Subject(
            f"sq.{name}{suffix}", call, {"gram": gram, **more}, right=right, words=("correlation", "matrix")
        )
        for suffix, gram in (("", GRAM), (" of overlaps", OVERLAPS))
    ]


SUBJECTS = [
    *(
        Subject(f"sq.{one.__name__}", one, {"tolerance": TOLERANCE}, right=nothing_to_say)
        for one in (CSQ, STAT)
    ),
    Subject("sq.VSTAT", sq.VSTAT, {"examples": whole()}, right=nothing_to_say),
    Subject(
        "sq.ParityFamily",
        ParityFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(1, 4),
            "construction": CONSTRUCTION,
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
        },
        right=family_is_right,
    ),
    Subject("sq.PairFamily", PairFamily, {"dim": whole(3, 8), "beta": real()}, right=family_is_right),
    Subject(
        "sq.BumpFamily",
        BumpFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(2, 4),
            "at": Argument(st.just(fixed(None)), whole(0, 3).hostile),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
    ),
    Subject(
        "sq.TwoSlopeFamily",
        TwoSlopeFamily,
        {
            "dim": whole(5, 8),
            "bits": whole(3, 4),
            "slopes": Argument(st.just(fixed((0.1, 1.0))), SLOPES.hostile),
        },
        right=family_is_right,
        words=("slope",),
    ),
    Subject(
        "sq.DesignedStepsFamily",
        sq.DesignedStepsFamily,
        {
            "dim": whole(7, 9),
            "bits": whole(4, 6),
            "heads_count": Argument(st.sampled_from([fixed(None), fixed(2)]), whole().hostile),
            "thresholds": Argument(
                st.just(fixed(None)),
                st.sampled_from(
                    [
                        fixed(one)
                        for one in ((0.5, 2.5), (1.0,), (), (0.5, 0.5), (-3.5,), (1e300,), (math.nan,))
                    ]
                )
                | anything(None).hostile,
            ),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
        words=("heads", "threshold"),
    ),
    Subject(
        "sq.CentreThresholdFamily",
        sq.CentreThresholdFamily,
        {
            "dim": whole(6, 8),
            "bits": choice(4),
            "heads_count": choice(2, 4),
            "steps": choice("alternating", "best fit"),
            "beta": real(30.0, 40.0),
        },
        right=family_is_right,
        words=("heads",),
    ),
    Subject(
        "sq.TokenParityFamily",
        TokenParityFamily,
        {"dim": whole(5, 7), "tokens": whole(2, 4), "bits": whole(1, 3), "beta": real(30.0, 40.0)},
        right=family_is_right,
    ),
    Subject(
        "sq.HiddenGateFamily",
        HiddenGateFamily,
        {"base": made(lambda: ParityFamily(dim=5, bits=3), "<parity>")},
        right=family_is_right,
        words=("family",),
    ),
    Subject(
        "sq.SecretSet",
        SecretSet,
        {"dim": whole(4, 7), "bits": whole(1, 3), "first": whole(0, 1)},
        right=secrets_are_right,
    ),
    Subject(
        "sq.GateAndSecretSet",
        sq.GateAndSecretSet,
        {"dim": whole(4, 6), "bits": whole(1, 3)},
        right=secrets_are_right,
    ),
    *(
        Subject(
            f"sq.SecretSet.{name}",
            method(name),
            {"of": on(lambda: SecretSet(dim=6, bits=2), "<secrets>"), **arguments},
            right=nothing_to_say,
            words=("secret",),
        )
        for name, arguments in {
            "draw": {"rng": seed()},
            "indicator": {"number": whole(0, 9)},
            "unrank": {"number": whole(0, 9)},
            "rank": {"secret": array((2,), of=lambda rng, shape: np.array([2, 4]), torch=False)},
            "overlaps": {"secret": array((2,), of=lambda rng, shape: np.array([1, 4]), torch=False)},
        }.items()
    ),
    *(
        Subject(
            f"sq.TargetFamily.instance of {name}",
            method("instance"),
            {
                "of": on(make, f"<{name}>"),
                "number": whole(0, 2),
                "rng": seed(),
                "direction": Argument(st.just(fixed(None)), array((make().dim,), torch=False).hostile),
            },
            right=instance_is_right,
            share=0.4,
        )
        for name, make in FAMILIES.items()
    ),
    *(
        Subject(
            f"sq.TargetFamily.hidden of {name}",
            method("hidden"),
            {
                "of": on(make, f"<{name}>"),
                "number": whole(0, 2),
                "x": array(
                    (3, make().tokens, make().dim),
                    of=lambda rng, shape: rng.choice([-1.0, 1.0], shape),
                    torch=False,
                ),
            },
            share=0.4,
        )
        for name, make in FAMILIES.items()
    ),
    Subject(
        "sq.make_parity_instance",
        sq.make_parity_instance,
        {
            "dim": whole(6, 8),
            "bits": Argument(st.sampled_from([fixed(None), fixed(2), fixed(3)]), whole().hostile),
            "construction": CONSTRUCTION,
            "heads": OPTIONAL,
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
            "rng": seed(),
            "secret": Argument(
                st.just(fixed(None)), array((2,), of=lambda rng, shape: np.array([1, 3]), torch=False).hostile
            ),
            "direction": Argument(st.just(fixed(None)), array((6,), torch=False).hostile),
        },
        right=instance_is_right,
    ),
    Subject(
        "sq.parity_heads",
        sq.parity_heads,
        {
            "construction": CONSTRUCTION,
            "bits": whole(1, 4),
            "beta": Argument(st.just(fixed(None)), real().hostile),
            "slopes": SLOPES,
        },
        right=lambda result, given: assert_finite(result.error()),
    ),
    Subject(
        "sq.heads_needed",
        sq.heads_needed,
        {"construction": CONSTRUCTION, "bits": whole()},
        right=whole_number,
    ),
    Subject(
        "sq.ProfileHeads.layer",
        lambda secret, dim, gate, direction: parity().heads.layer(
            secret, dim=dim, gate=gate, direction=direction
        ),
        {
            "secret": array((2,), of=lambda rng, shape: np.array([1, 3]), torch=False),
            "dim": whole(5, 5),
            "gate": choice(0),
            "direction": DIRECTION,
        },
        right=lambda result, given: assert_finite((result.theta, result.w)),
    ),
    Subject(
        "sq.parity_target",
        sq.parity_target,
        lambda size: {
            "x": tokens(size),
            "secret": array((2,), of=lambda rng, shape: np.array([1, 3]), torch=False),
            "known": made(lambda: parity().instance(0).known, "<known part>"),
            "gate": choice(0),
            "direction": array((5,), torch=False),
        },
    ),
    Subject(
        "sq.is_parity_realisation",
        sq.is_parity_realisation,
        {
            "layer": made(lambda: parity().instance(0).layer, "<layer>"),
            "secret": array((2,), of=lambda rng, shape: np.array([1, 2]), torch=False),
            "known": made(lambda: parity().instance(0).known, "<known part>"),
            "gate": choice(0),
            "direction": DIRECTION,
            "tolerance": real(1e-9, 1e-3),
            "rng": seed(),
            "samples": whole(1, 50),
        },
        right=lambda result, given: bool(result),
        share=0.5,
    ),
    Subject(
        "sq.gate_and_direction",
        sq.gate_and_direction,
        {"instance": ANY_INSTANCE},
        right=lambda result, given: assert_finite(result[1]),
        refuses=True,
    ),
    Subject("sq.rebuild_family", sq.rebuild_family, {"instance": ANY_INSTANCE}, right=family_is_right),
    Subject(
        "sq.verify_instance",
        sq.verify_instance,
        {"instance": ANY_INSTANCE, "rng": seed(), "samples": whole(1, 50)},
        right=lambda result, given: result.to_json(),
        share=0.5,
    ),
    Subject(
        "sq.verify_parity_instance",
        sq.verify_parity_instance,
        {"instance": INSTANCE, "rng": seed(), "samples": whole(1, 50)},
        right=lambda result, given: result.to_json(),
        share=0.5,
    ),
    Subject(
        "sq.verify_family",
        sq.verify_family,
        {
            "family": FAMILY,
            "targets": whole(1, 3),
            "samples": whole(20, 50),
            "confidence": real(0.9, 0.99),
            "rng": seed(),
        },
        right=lambda result, given: result.to_json(),
        share=0.4,
    ),
    Subject(
        "sq.two_head_families",
        sq.two_head_families,
        {"bits": choice(4, 6), "dim": whole(8, 12)},
        right=nothing_to_say,
    ),
    Subject(
        "sq.TwoHeadFamily.targets",
        lambda dim: sq.two_head_families()[0].targets(dim),
        {"dim": whole(5, 9)},
        right=whole_number,
    ),
    # correlations
    Subject(
        "sq.closed_form_gram",
        sq.closed_form_gram,
        {"family": FAMILY, "numbers": NUMBERS},
        right=gram_is_right,
        words=("number",),
    ),
    Subject(
        "sq.enumerated_gram",
        sq.enumerated_gram,
        {"family": FAMILY, "numbers": NUMBERS},
        right=gram_is_right,
        words=("number",),
        share=0.4,
    ),
    Subject(
        "sq.sampled_gram",
        sq.sampled_gram,
        {
            "family": FAMILY,
            "numbers": NUMBERS,
            "samples": whole(20, 40),
            "confidence": real(0.9, 0.99),
            "bound": Argument(st.just(fixed(None)), real().hostile),
            "rng": seed(),
        },
        right=gram_is_right,
        words=("number",),
        share=0.5,
    ),
    Subject(
        "sq.overlap_gram",
        sq.overlap_gram,
        {"family": BUMP, "rows": whole(1, 3)},
        right=lambda result, given: assert_finite(result.row(0)),
    ),
    Subject(
        "sq.reference_gram",
        sq.reference_gram,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>")},
        right=nothing_to_say,
    ),
    Subject(
        "sq.fourier_spectrum",
        sq.fourier_spectrum,
        {"family": FAMILY, "numbers": NUMBERS},
        right=lambda result, given: assert_finite(result.weights()),
        words=("number",),
        share=0.4,
    ),
    Subject("sq.hidden_values", sq.hidden_values, {"family": FAMILY, "number": whole(0, 2)}, share=0.4),
    *subject_of_gram(
        "average_correlation",
        sq.average_correlation,
        lambda result, given: assert_finite(result),
        subset=NUMBERS,
    ),
    *subject_of_gram(
        "largest_average_correlation",
        sq.largest_average_correlation,
        lambda result, given: assert_finite(result.most),
        size=whole(1, 3),
    ),
    *subject_of_gram("top_averages", sq.top_averages, lambda result, given: assert_finite(result)),
    *subject_of_gram(
        "correlation_graph",
        sq.correlation_graph,
        lambda result, given: len(result),
        correlation=choice(0.1, 0.5),
    ),
    *subject_of_gram(
        "correlation_clique",
        sq.correlation_clique,
        nothing_to_say,
        correlation=choice(0.1, 0.5),
        nodes=Argument(st.just(fixed(None)), whole().hostile),
    ),
    *subject_of_gram(
        "clique_dimension",
        sq.clique_dimension,
        bound_is_right,
        correlation=CORRELATION,
        nodes=Argument(st.just(fixed(None)), whole().hostile),
    ),
    *subject_of_gram(
        "statistical_dimension", sq.statistical_dimension, bound_is_right, correlation=CORRELATION
    ),
    *subject_of_gram("spectral_cap", sq.spectral_cap, bound_is_right, tolerance=TOLERANCE),
    *subject_of_gram("vstat_calls", sq.vstat_calls, bound_is_right, samples=whole()),
    Subject(
        "sq.OverlapGram",
        sq.OverlapGram,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>"), "values": anything((0.0, 0.5, 1.0))},
        right=lambda result, given: assert_finite(result.row(0)),
    ),
    Subject(
        "sq.OverlapGram.row", lambda number: sq.overlap_gram(bump()).row(number), {"number": whole(0, 2)}
    ),
    Subject(
        "sq.OverlapGram.matvec",
        lambda vector: sq.overlap_gram(bump()).matvec(vector),
        {"vector": array((5,), torch=False)},
        words=("vector", "v", "x"),
    ),
    Subject(
        "sq.maximum_clique",
        sq.maximum_clique,
        {
            "graph": made(lambda: networkx.path_graph(4), "<path>"),
            "transitive": choice(False),
            "at_most": OPTIONAL,
            "nodes": OPTIONAL,
        },
        right=nothing_to_say,
    ),
    Subject(
        "sq.overlap_graph",
        sq.overlap_graph,
        {"secrets": made(lambda: SecretSet(dim=6, bits=2), "<secrets>"), "overlap": whole(0, 1)},
        right=lambda result, given: len(result),
    ),
    Subject(
        "sq.packing_bound",
        sq.packing_bound,
        {"points": whole(4, 6), "bits": whole(2, 3), "overlap": whole(1, 1)},
        right=whole_number,
    ),
    Subject(
        "sq.eberlein",
        sq.eberlein,
        {"points": whole(5, 7), "bits": whole(2, 2), "distance": whole(0, 2), "space": whole(0, 2)},
        right=whole_number,
    ),
    Subject(
        "sq.krawtchouk",
        sq.krawtchouk,
        {"bits": whole(3, 5), "degree": whole(0, 3), "number": whole(0, 3)},
        right=krawtchouk_is_right,
    ),
    *(
        Subject(
            f"sq.{one.__name__}",
            one,
            {"profile": PROFILE, "exact": choice(False, True)},
            right=right,
            repeatable=False,
            words=("value", "g", "profile"),
        )
        for one, right in (
            (sq.fourier_weights, weights_are_right),
            (sq.fourier_coefficients, nothing_to_say),
            (sq.overlap_correlations, nothing_to_say),
        )
    ),
    Subject(
        "sq.fourier_coefficient",
        sq.fourier_coefficient,
        {"profile": PROFILE, "degree": whole(0, 3)},
        words=("value", "profile"),
    ),
    Subject(
        "sq.profile_moments",
        sq.profile_moments,
        {"profile": PROFILE},
        right=nothing_to_say,
        words=("value", "profile"),
    ),
    Subject(
        "sq.designed_coefficients",
        sq.designed_coefficients,
        {
            "bits": whole(4, 6),
            "thresholds": Argument(st.just(fixed((0.5, 3.5))), array((2,), torch=False).hostile),
        },
        right=nothing_to_say,
        words=("threshold",),
    ),
    # bounds
    *(
        Subject(f"sq.{one.__name__}", one, {"tolerance": TOLERANCE}, right=bound_is_right)
        for one in (sq.full_query_cap, sq.orthogonal_cap)
    ),
    *(
        Subject(
            f"sq.{one.__name__}",
            one,
            {"correlation": CORRELATION, "tolerance": TOLERANCE},
            right=bound_is_right,
            refuses=True,
        )
        for one in (sq.pairwise_cap, sq.szorenyi_cap)
    ),
    Subject(
        "sq.queries_needed",
        sq.queries_needed,
        {"targets": whole(), "cap": made(lambda: sq.orthogonal_cap(0.5), "<cap>"), "success": choice(1, 0.5)},
        right=bound_is_right,
    ),
    Subject(
        "sq.group_learner_bound",
        sq.group_learner_bound,
        {"targets": whole(), "tolerance": real(0.1, 0.5)},
        right=whole_number,
    ),
    Subject(
        "sq.visible_below",
        sq.visible_below,
        {"targets": whole(2, 9), "queries": whole(), "full": choice(False, True)},
    ),
    # queries, oracles and learners
    Subject(
        "sq.StatisticalQuery",
        sq.StatisticalQuery,
        {
            "function": anything(fixed(ones, "<ones>")),
            "low": real(-1.0, -0.5),
            "high": real(0.5, 1.0),
            "name": anything("query"),
        },
        right=nothing_to_say,
    ),
    Subject(
        "sq.CorrelationalQuery",
        sq.CorrelationalQuery,
        {"function": anything(fixed(ones, "<ones>")), "name": anything("query")},
        right=nothing_to_say,
    ),
    Subject(
        "sq.CorrelationalQueries",
        sq.CorrelationalQueries,
        {"function": anything(fixed(ones, "<ones>")), "size": whole(), "name": anything("queries")},
        right=lambda result, given: len(result),
    ),
    Subject(
        "sq.GroupQuery",
        sq.GroupQuery,
        {
            "numbers": array((2,), of=lambda rng, shape: np.array([0, 1]), torch=False),
            "weights": array((2,), of=lambda rng, shape: np.array([0.6, 0.8]), torch=False),
            "name": anything("group"),
        },
        right=nothing_to_say,
    ),
    Subject(
        "sq.HiddenPart",
        sq.HiddenPart,
        {
            "known": made(lambda: parity().instance(0).known, "<known part>"),
            "direction": array((5,), of=lambda rng, shape: np.eye(5)[0], torch=False),
            "scale": real(),
        },
        right=nothing_to_say,
    ),
    Subject(
        "sq.ExactOracle",
        ExactOracle,
        {"model": MODEL, "family": PARITY, "number": whole(0, 2)},
        right=nothing_to_say,
    ),
    *(
        Subject(f"sq.{one.__name__}", one, {"model": MODEL, "family": PARITY}, right=nothing_to_say)
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
        right=nothing_to_say,
    ),
    Subject(
        "sq.SQOracle.query",
        lambda query: ExactOracle(CSQ(0.3), parity(), 0).query(query),
        {"query": anything(fixed(sq.GroupQuery(np.array([0]), np.array([1.0])), "<group>"))},
    ),
    Subject(
        "sq.SQOracle.query_many",
        lambda queries: ExactOracle(CSQ(0.3), parity(), 0).query_many(queries),
        {"queries": anything(fixed([sq.GroupQuery(np.array([0]), np.array([1.0]))], "<groups>"))},
        words=("query",),
        right=nothing_to_say,
    ),
    Subject(
        "sq.HonestOracle.query",
        lambda query: HonestOracle(STAT(0.3), examples(), batch=20).query(query),
        {"query": anything(fixed(sq.StatisticalQuery(lambda x, y: np.ones(len(x))), "<query>"))},
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
        right=result_is_right,
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
        right=lambda result, given: str(result.outcome),
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
        right=nothing_to_say,
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
        right=lambda result, given: result.row(),
        share=0.5,
    ),
]

RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(("sq.CURVE_COLUMNS", "sq.CURVE_LEARNERS", "sq.CURVE_ORACLES"), "a constant"),
    **dict.fromkeys(
        [
            f"sq.{name}"
            for name in (
                "Bound",
                "Clique",
                "CliqueBound",
                "CurvePoint",
                "FamilyVerification",
                "FourierSpectrum",
                "GramMatrix",
                "InstanceVerification",
                "LargestAverage",
                "ParityHeads",
                "ParityVerification",
                "SQResult",
                "StatisticalDimension",
                "TwoHeadFamilies",
            )
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [f"sq.{name}" for name in ("BoundedQuery", "QueryModel", "SQLearner", "Construction")],
        "a protocol or the name of a type",
    ),
    "sq.walsh_hadamard": "lower.walsh_hadamard, which is tried there",
    "sq.SymmetricFamily": "abstract: its subclasses are tried",
    "sq.CurveCell": "a cell that curve_cells makes; sq.measure_cell is tried on it",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    missing, idle = missing_subjects({"sq": sq}, SUBJECTS, EXCEPTIONS)
    assert not missing
    assert not idle


def test_the_number_of_a_secret_of_many_coordinates_is_found_at_once():
    secrets = SecretSet(dim=10**9, bits=5)
    number = secrets.size // 3
    assert secrets.rank(secrets.unrank(number)) == number
    small = SecretSet(dim=8, bits=3, first=2)
    listed = list(itertools.combinations(range(2, 8), 3))
    assert [tuple(small.unrank(number).tolist()) for number in range(small.size)] == listed
    assert [small.rank(np.array(secret)) for secret in listed] == list(range(small.size))
