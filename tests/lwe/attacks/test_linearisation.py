import numpy as np
import pytest

from lwe.attacks.linearisation import LinearisationAttack, label_degree
from lwe.attacks.outcome import AttackOutcome
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples, make_samples


def broken(parameters, number, **options):
    samples, secret = make_samples(parameters, number, rng=1)
    result = LinearisationAttack(**options)(samples, parameters, rng=2)
    assert result.outcome is AttackOutcome.BROKEN, result
    assert result.accuracy == 1
    return result, secret


def test_q_4_n_32_has_529_unknowns_and_is_predicted_exactly():
    result, secret = broken(LWRParameters(32, modulus=4, levels=2), 800)
    assert result.details["unknowns"] == result.details["rank"] == 529
    np.testing.assert_array_equal(result.secret, secret)


@pytest.mark.parametrize(
    ("matrix", "n", "q", "p", "number"),
    [
        ("gadget", 12, 8, 2, 2500),
        ("gadget", 30, 4, 2, 800),
        ("uniform", 5, 16, 2, 1900),
        ("ternary", 12, 8, 2, 2500),
        ("ternary", 30, 4, 2, 800),
        ("binary", 10, 256, 128, 1600),
        ("gadget", 10, 1 << 16, 1 << 14, 1600),
        ("uniform", 10, 64, 64, 1600),
        ("ternary", 10, 64, 16, 1600),
    ],
)
def test_other_matrices_and_more_levels_are_broken_at_degree_q_over_p(matrix, n, q, p, number):
    parameters = LWRParameters(n, modulus=q, levels=p, matrix=matrix)
    result, secret = broken(parameters, number)
    np.testing.assert_array_equal(result.secret, secret)
    assert result.details["degree"] == label_degree(parameters) == q // p


def test_rows_that_repeat_are_made_up_for_and_the_polynomial_predicts_alone_where_no_secret_is_read_off():
    # 512 rows in all: 64 equations more than unknowns are not of full rank, most samples together are
    parameters = LWRParameters(9, modulus=16, levels=2)
    samples, _ = make_samples(parameters, 4000, rng=5)
    result = LinearisationAttack()(samples, parameters, rng=0)
    assert result.accuracy == 1
    assert result.details["rank"] == result.details["unknowns"] == 511
    assert result.details["equations"] > 511 + 64

    class Blind(LinearisationAttack):
        def _secret(self, *_):
            return None

    alone = Blind()(samples, parameters, rng=0)
    assert alone.accuracy == 1
    assert alone.secret is None
    np.testing.assert_array_equal(alone.predict(samples.public), samples.labels)


def test_one_wrong_label_is_told():
    parameters = LWRParameters(16, modulus=4, levels=2)
    samples, _ = make_samples(parameters, 400, rng=0)
    labels = samples.labels.copy()
    labels[5] ^= 1
    result = LinearisationAttack()(LWRSamples(samples.public, labels), parameters)
    assert "contradict" in result.explanation
