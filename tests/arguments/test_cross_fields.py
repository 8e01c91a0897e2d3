"""Arguments that are right one by one and wrong together are refused, by a word that says why."""

import dataclasses

import numpy as np
import pytest

import attention
import lower
import lwe
import sq
import upper
import upper.linear_attention as linear
from attention import BooleanInputs, GroundTruth
from lower.walsh import walsh_hadamard
from lwe import LWEParameters
from sq.krawtchouk import krawtchouk
from sq.profiles import designed_coefficients

pytestmark = pytest.mark.bad_input
LAYER, INPUTS = attention.make_nice_layer(heads=2, dim=3, rng=0), BooleanInputs(2, 3)
X, Y = attention.ExampleOracle(LAYER, INPUTS, rng=0).draw(60)
VALUES = Y.sum(axis=1)
PARITY = sq.ParityFamily(dim=5, bits=2, construction="B")
INSTANCE, SECRETS = PARITY.instance(1), sq.SecretSet(dim=6, bits=2)
ZERO = lower.KnownComponent.zero(2, 3)
SMALL = LWEParameters(n=4, q=8, p=2)
SAMPLES, _ = lwe.make_samples(SMALL, 60, rng=0)
LWR = lwe.LWRFamily.of(SMALL).instance(rng=0)
FORM = np.array([1, -2, 3, 0])
CSQ, STAT = sq.CSQ(0.3), sq.STAT(0.3)
TOKENS = sq.TokenParityFamily(dim=6, tokens=3, bits=2)
SIZES = {"n": 4, "q": 8, "p": 2}
SMALL_SHAPE = {"heads": 1, "dim": 4, "rank": 2}
UNIFORM = LWEParameters(4, 8, 2, matrix="uniform")
ATTACK = sq.ParityElimination.for_instance(INSTANCE)


def oracle():
    return attention.ExampleOracle(LAYER, INPUTS, rng=0)


def changed(**fields):
    return dataclasses.replace(INSTANCE, **fields)


def layer(m, d):
    return attention.make_nice_layer(heads=m, dim=d, rng=0)


def samples(public=SAMPLES.public, labels=SAMPLES.labels):
    return lwe.LWRSamples(public, labels)


ATTENTION = [
    (lambda: GroundTruth(layer=LAYER, x=np.ones((1, 2, 4))), "x"),
    (lambda: attention.make_close_heads_layer(heads=4, dim=2, gap=0.1), "heads"),
    (lambda: attention.make_low_rank_layer(heads=1, dim=3, rank=2, w_rank=4), "w_rank"),
    (lambda: attention.make_transformer_shaped_layer(**SMALL_SHAPE, strengths=(8.0, 2.0)), "strengths"),
]
UPPER = [
    (lambda: upper.Newton(heads="auto", rank=2), "rank"),
    (lambda: upper.Newton(heads=1, start=LAYER, examples=300).fit(oracle()), "start"),
    (lambda: list(upper.gauss_newton(X, Y, np.ones((1, 4, 4)), rng=np.random.default_rng(0))), "start"),
    (lambda: upper.counting_floor(heads=1, tokens=2, dim=3, rank=4), "rank"),
    (lambda: linear.regress(X[:2], VALUES[:2]), "examples"),
    (lambda: linear.certify(X, X[..., :2]), "domain"),
    (lambda: linear.another_minimiser(linear.regress(X, VALUES), linear.certify(X, X)), "deficit"),
    (lambda: linear.tensor_from_features(np.ones((3, 1)), 2), "coefficients"),
    (lambda: linear.LinearAttention(v=np.ones((1, 1, 2)), q=np.ones((2, 2, 2))), "q"),
    (lambda: linear.regress_moments(linear.FeatureMoments(6, 1)), "moments"),
    (lambda: linear.FeatureMoments(6, 1).add(X, VALUES), "features|outputs"),
]
LOWER = [
    (lambda: changed(family="other"), "family"),
    (lambda: dataclasses.replace(ZERO, gate=3, off=ZERO), "gate"),
    (lambda: dataclasses.replace(ZERO, gate=0, off=lower.KnownComponent.zero(2, 4)), "agree"),
    (lambda: lower.Heads([0, 1, 1], [1.0], [1.0], [1.0], gate=3), "gate"),
    (lambda: lower.solve_gf2(np.eye(3), np.ones(2)), "bits"),
    (lambda: walsh_hadamard(np.ones(3)), "power of two"),
]
SQ = [
    (lambda: sq.ParityFamily(dim=5, bits=5), "bits"),
    (lambda: sq.ParityFamily(dim=5, heads_count=3, bits=2), "heads_count"),
    (lambda: sq.ParityFamily(dim=5, bits=2, slopes=[0.5], construction="D"), "slopes"),
    (lambda: sq.ProfileFamily.bump(dim=6, bits=4, at=5), "at"),
    (lambda: sq.ProfileFamily.two_slope(dim=6, bits=4, slopes=[0.5, 0.5]), "slopes"),
    (lambda: sq.ProfileFamily.designed_steps(dim=8, bits=6, heads_count=7), "heads_count"),
    (lambda: sq.ProfileFamily.designed_steps(dim=8, bits=6, heads_count=3, thresholds=[0.5]), "thresholds"),
    (lambda: designed_coefficients(4, [0.5, 0.5]), "thresholds"),
    (lambda: sq.ProfileFamily.centre_threshold(dim=6, bits=4, heads_count=3), "heads_count"),
    (lambda: sq.TokenParityFamily(dim=6, tokens=40, beta=0.01), "beta"),
    (lambda: sq.HiddenGateFamily(base=sq.ParityFamily(dim=5, bits=2, construction="B")), "c0"),
    (lambda: SECRETS.unrank(SECRETS.size), "number"),
    (lambda: SECRETS.rank([1, 1]), "secret"),
    (lambda: PARITY.instance(PARITY.secrets.size), "number"),
    (lambda: PARITY.instance(0, direction=np.zeros(5)), "direction"),
    (lambda: sq.two_head_families(bits=6, dim=6), "dim"),
    (lambda: sq.GroupQuery([0, 0], [0.5, 0.5]), "twice"),
    (lambda: sq.StatisticalQuery(len, low=1.0, high=-1.0), "low"),
    (lambda: sq.ExactOracle(CSQ, PARITY, PARITY.secrets.size), "number"),
    (lambda: sq.ExactOracle(CSQ, PARITY, 0).query(sq.GroupQuery([10**9], [1.0])), "names target"),
    (lambda: sq.ExactOracle(CSQ, PARITY, 0).query(sq.StatisticalQuery(len)), "CorrelationalQuery"),
    (lambda: sq.HonestOracle(CSQ, LWR, batch=9), "family"),
    (lambda: sq.ExhaustiveSearch().learn(sq.ReferenceAdversary(STAT, PARITY), PARITY), "CSQ"),
    (lambda: sq.ExhaustiveSearch().learn(sq.ReferenceAdversary(CSQ, PARITY), TOKENS), "family"),
    (lambda: sq.ParityElimination.for_instance(TOKENS.instance(0)), "family"),
    (lambda: ATTACK.fit(oracle()), "coordinates"),
    (lambda: sq.gram_matrix(sq.PairFamily(dim=200)), "targets"),
    (lambda: lower.eliminated_per_query(0.1, correlation=0.5), "correlation"),
    (lambda: krawtchouk(3, 4, 1), "degree"),
    (lambda: sq.CurveCell("exhaustive", 5, 5, 0.3), "bits"),
    (lambda: sq.CurveCell("exhaustive", 5, 2, 0.3, batch=9), "batch"),
    (lambda: sq.curve_cells([], [2], [0.3]), "dims"),
]
LWE = [
    (lambda: LWEParameters(4, 9, 2, matrix="gadget"), "power of two"),
    (lambda: LWEParameters(4, 8, 2, Xe=lwe.SparseSigned(2)), "Xe"),
    (lambda: LWEParameters.from_json({"n": 4}), "q"),
    (lambda: samples(labels=SAMPLES.labels[:3]), "labels"),
    (lambda: lwe.make_samples(SMALL, 3, secret=[1, 2]), "secret"),
    (lambda: lwe.uniformity.wrap_ratio([2**62, 1], 8), "form"),
    (lambda: lwe.uniformity.wrap_ratio(FORM, 8, matrix="uniform"), "matrix"),
    (lambda: lwe.labels.low_degree_weights(FORM[:2], SMALL), "form"),
    (lambda: lwe.labels.low_degree_weights(FORM, UNIFORM), "matrix"),
    (lambda: lwe.labels.root_mean_square_correlation(UNIFORM), "binary"),
    (lambda: lwe.LinearisationAttack()(samples(SAMPLES.public[:, :3]), SMALL), "columns"),
    (lambda: lwe.LinearisationAttack()(samples(labels=SAMPLES.labels + 9), SMALL), "labels"),
    (lambda: lwe.LinearisationAttack()(samples(3 * SAMPLES.public), SMALL), "rows"),
    (lambda: lwe.LearnerAttack(upper.LinearBaseline), "instance"),
    (
        lambda: lwe.distinguish(upper.LinearBaseline(), dataclasses.replace(UNIFORM, q=7)),
        "heads|matrix|uniform",
    ),
    (lambda: lwe.LWRFamily(**SIZES, Xs=lwe.BINARY).instance(secret=[7, 3, 1, 2]), "secret"),
    (lambda: lwe.LWRFamily(n=300, q=2**20, p=2**19).instance(), "heads"),
    (lambda: lwe.samples_from_examples(X, Y, SMALL), "x"),
]


CASES = {"attention": ATTENTION, "upper": UPPER, "lower": LOWER, "sq": SQ, "lwe": LWE}


@pytest.mark.parametrize(
    ("call", "words"),
    [pytest.param(*row, id=f"{room}-{n}-{row[1]}") for room in CASES for n, row in enumerate(CASES[room])],
)
def test_what_does_not_fit_together_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
