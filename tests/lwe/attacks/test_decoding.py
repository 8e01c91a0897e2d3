import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from lwe import LWEParameters, LWRSamples
from lwe.attacks.attack import Attempt
from lwe.attacks.decoding import DecodingAttack, ZeroColumns, _successes, best_plan, zero_columns
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.outcome import AttackOutcome, Budget
from lwe.attacks.reduction import Reduction
from lwe.distributions import DiscreteGaussian
from lwe.parameters import centred
from lwe.samples import make_samples

WITHOUT = "fpylll is not installed (extra `lattice`)"
BITS = LWEParameters(n=16, q=64, p=2)


def attempted():
    return Attempt(make_samples(BITS, 80, rng=0)[0], BITS, Budget(60.0))


@pytest.mark.parametrize("matrix", ["binary", "ternary"])
def test_rows_are_all_those_that_are_zero_in_the_first_columns(matrix):
    samples, _ = make_samples(BITS.updated(matrix=matrix), 2000, rng=0)
    chosen, rows = zero_columns(samples.public, 6, np.random.default_rng(0))
    assert len(set(chosen)) == 6
    for number, found in enumerate(rows):
        zero = np.all(samples.public[:, chosen[:number]] == 0, axis=1)
        np.testing.assert_array_equal(found, np.flatnonzero(zero))
    assert len(rows[6]) > 2000 / 2**6  # more than columns at random leave


@pytest.mark.parametrize("matrix", ["binary", "ternary"])
def test_a_secret_is_completed_from_what_it_is_on_the_other_columns(matrix):
    made = BITS.updated(matrix=matrix)
    samples, secret = make_samples(made, 8000, rng=0)
    zeros = ZeroColumns(samples, made, 5, np.random.default_rng(1))
    near = secret[zeros.others] + np.random.default_rng(2).integers(-1, 2, size=len(zeros.others))
    np.testing.assert_array_equal(centred(zeros.completed(near), 64), secret)


def test_fresh_rows_support_the_right_secret_and_with_random_labels_none_more_often_than_said():
    parameters = BITS.updated(n=24)
    samples, secret = make_samples(parameters, 8000, rng=0)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    assert zeros.evidence(secret[zeros.others][None], 40)[0] < -100
    random = np.random.default_rng(3).integers(2, size=6400)
    samples = LWRSamples(samples.public[:6400], random)
    zeros = ZeroColumns(samples, parameters, 6, np.random.default_rng(1))
    evidence = zeros.evidence(np.random.default_rng(0).integers(64, size=(2000, 18)), 40)
    # four standard deviations of the share at most 1/10
    assert abs(np.mean(evidence <= np.log(0.1)) - 0.1) < 4 * np.sqrt(0.09 / 2000)


def test_close_vectors_are_those_of_an_enumeration_of_all_combinations():
    pytest.importorskip("fpylll", reason=WITHOUT)
    rng = np.random.default_rng(0)
    basis, target = (
        rng.integers(-9, 10, size=(5, 5)) + 12 * np.eye(5, dtype=int),
        rng.normal(scale=20, size=5),
    )
    reduction = Reduction(basis, attempted(), rng)
    rows = reduction.rows(range(5))
    away = np.linalg.qr(rows.T.astype(float))[0]  # the parts orthogonal to the first rows
    combinations = np.array(list(itertools.product(range(-6, 7), repeat=4))) @ rows[1:]
    parts = ((target - combinations) @ away)[:, 1:] ** 2
    lengths = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
    for bounds in ([600.0, 600, 600, 600], [600.0, 350, 200, 80]):
        wanted = combinations[np.all(lengths <= bounds, axis=1)]
        assert len(wanted) > 5
        found = reduction.close(target, 1, np.array(bounds), most=10_000)
        assert {tuple(one) for one in found} == {tuple(one) for one in wanted}
    assert len(reduction.close(target, 1, np.full(4, 1e-6), most=10)) == 0


def test_short_vectors_of_the_lattice_come_first():
    pytest.importorskip("fpylll", reason=WITHOUT)
    short = np.array([[1, 0, 1, 0, 0, 1], [0, 1, 1, 0, 1, 0]])
    basis = np.vstack([short, 50 * np.eye(6, dtype=int)[2:]])
    mixed = np.triu(np.random.default_rng(0).integers(-3, 4, size=(6, 6)), 1) + np.eye(6, dtype=int)
    reduction = Reduction(mixed @ basis, attempted(), np.random.default_rng(0), short=short)
    rows = reduction.rows(range(6))
    assert rows.shape == (6, 6)
    assert np.linalg.matrix_rank(np.vstack([short, rows[:2]])) == 2
    assert abs(np.linalg.det(rows)) == pytest.approx(abs(np.linalg.det(basis)))


def test_the_probability_of_success_is_that_of_normal_errors():
    for margin in (0.0, 1.0):
        first = chi2.cdf(1 + margin * np.sqrt(2), 1)
        assert _successes(margin)[0] == pytest.approx(first, abs=4 * np.sqrt(0.25 / 4000))
        assert np.all(np.diff(_successes(margin)) <= 0)


def test_plans_use_no_more_rows_than_there_are_and_more_columns_for_more_samples():
    plans = [best_plan(BITS, [number >> f for f in range(16)], 60.0) for number in (1000, 20_000, 500_000)]
    for number, plan in zip((1000, 20_000, 500_000), plans, strict=True):
        assert plan.samples <= number >> plan.columns
    assert plans[0].columns < plans[1].columns < plans[2].columns
    assert best_plan(BITS.updated(n=64), [20_000 >> f for f in range(16)], 60.0) is None
    assert best_plan(BITS.updated(matrix="uniform"), [20_000], 60.0) is None


@pytest.mark.parametrize(
    "parameters",
    [
        BITS.updated(n=24),
        BITS.updated(n=20, matrix="ternary"),
        BITS.updated(n=40, p=8),
        BITS.updated(n=20, q=97, p=97, Xe=DiscreteGaussian(12.0)),
        pytest.param(BITS.updated(n=32), marks=pytest.mark.slow),
        pytest.param(BITS.updated(n=56, p=4), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_matrices_of_bits_and_trits_are_broken(parameters):
    pytest.importorskip("fpylll", reason=WITHOUT)
    for seed in range(2):
        samples, secret = make_samples(parameters, 20_000, rng=seed)
        result = DecodingAttack()(samples, parameters, rng=seed, budget=Budget(60.0))
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret)


@pytest.mark.slow
def test_random_labels_are_never_broken():
    pytest.importorskip("fpylll", reason=WITHOUT)
    for seed in range(3):
        samples, _ = make_samples(BITS, 8000, rng=seed)
        random = LWRSamples(samples.public, np.random.default_rng(seed).integers(2, size=8000))
        result = LatticeAttack(rounds=1, largest_block=10)(random, BITS, rng=seed, budget=Budget(None))
        assert not result.outcome.succeeded
