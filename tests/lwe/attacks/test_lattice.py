import numpy as np
import pytest

from lwe import LWEParameters
from lwe.attacks.attack import AttackOutcome, Budget
from lwe.attacks.embedding import primal_embedding
from lwe.attacks.evidence import label_residues
from lwe.attacks.lattice import LatticeAttack
from lwe.costs.primal import primal_shape
from lwe.distributions import TERNARY, CentredBinomial, DiscreteGaussian, SparseSigned
from lwe.residues import centred
from lwe.samples import inner_products, make_samples

WITHOUT = "fpylll is not installed (extra `lattice`)"


def attacked(parameters, *, number=1500, seed=0, seconds=60.0, **options):
    pytest.importorskip("fpylll", reason=WITHOUT)
    samples, secret = make_samples(parameters, number, rng=seed)
    return LatticeAttack(**options)(samples, parameters, rng=seed, budget=Budget(seconds)), secret


@pytest.mark.parametrize("secret", [TERNARY, CentredBinomial(2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("q", "p"), [(128, 16), (97, 97), (30, 5)])
def test_embedding_holds_the_errors_and_gives_the_secret_back(secret, weighted, q, p):
    parameters = LWEParameters(n=6, q=q, p=p, matrix="uniform", Xs=secret)
    samples, own = make_samples(parameters, 40, rng=1)
    embedding = primal_embedding(samples, parameters, primal_shape(parameters, 30, weighted=weighted))
    first, after = label_residues(samples.labels[:30], parameters)
    errors = embedding.scale * (2 * inner_products(samples.public[:30], own, q) - first - after + 1) // 2
    planted = np.zeros(len(embedding.basis), dtype=np.int64)
    planted[:30] = -errors
    if weighted:
        weight = embedding.basis[0, 30]
        planted[30:-1] = -weight * own
    planted[-1] = embedding.factor
    # an integer combination of the rows
    solved = np.linalg.solve(embedding.basis.T.astype(float), planted.astype(float))
    np.testing.assert_allclose(solved, np.rint(solved), atol=1e-6)
    np.testing.assert_array_equal(centred(embedding.secret(planted), q), own)
    np.testing.assert_array_equal(centred(embedding.secret(-planted), q), own)
    assert embedding.secret(2 * planted) is None


@pytest.mark.parametrize(
    "parameters",
    [
        *(LWEParameters(n, 128, levels, "uniform") for n, levels in ((40, 32), (20, 8), (12, 4), (4, 2))),
        LWEParameters(30, 97, 97, matrix="uniform", Xs=TERNARY, Xe=DiscreteGaussian(1.5)),
        LWEParameters(24, 60, 12, matrix="uniform", Xs=CentredBinomial(2)),
        LWEParameters(20, 101, 25, matrix="ternary"),
    ],
    ids=str,
)
def test_uniform_matrices_small_secrets_errors_composite_moduli_and_trits_are_broken(parameters):
    result, secret = attacked(parameters)
    assert result.outcome is AttackOutcome.BROKEN, result
    np.testing.assert_array_equal(result.secret, secret)


@pytest.mark.parametrize("sigma", [200.0, 5000.0])
def test_with_wide_errors_it_ends_with_the_secret_though_no_label_is_right(sigma):
    parameters = LWEParameters(16, 2**20, 2**20, matrix="uniform", Xe=DiscreteGaussian(sigma))
    result, secret = attacked(parameters, number=400, seconds=30.0)
    assert result.outcome is AttackOutcome.BROKEN, result
    np.testing.assert_array_equal(result.secret, secret)
    assert result.accuracy < 0.1
    assert result.details["rounds"] == 1
    assert "stopped" not in result.explanation


def test_sparse_secrets_are_found_without_columns_where_they_are_zero():
    parameters = LWEParameters(60, 113, 113, matrix="uniform", Xs=SparseSigned(4), Xe=DiscreteGaussian(3.0))
    for seed in range(2):
        result, secret = attacked(parameters, seed=seed)
        assert result.outcome is AttackOutcome.BROKEN, result
        np.testing.assert_array_equal(result.secret, secret)
        assert result.details["guessed_zeros"] > 0
        assert "without" in result.explanation


def test_rounds_limit_the_work_without_a_clock():
    pytest.importorskip("fpylll", reason=WITHOUT)
    parameters = LWEParameters(n=10, q=128, p=2, matrix="uniform")
    samples, _ = make_samples(parameters, 1000, rng=0)
    attack = LatticeAttack(largest_block=8, rounds=2)
    first, second = (attack(samples, parameters, rng=3, budget=Budget(None)) for _ in range(2))
    assert first.outcome is AttackOutcome.NOTHING
    assert first.details["rounds"] == 2
    assert first.explanation == second.explanation
    large = LWEParameters(n=400, q=128, p=32, matrix="uniform")
    result = attack(make_samples(large, 1000, rng=0)[0], large, budget=Budget(None))
    assert result.outcome is AttackOutcome.REFUSED
    assert "260 are the most" in result.explanation
