import numpy as np
import pytest

from lwe import LWEParameters
from lwe.attacks.attack import AttackOutcome, Budget
from lwe.attacks.embedding import primal_embedding
from lwe.attacks.evidence import label_residues
from lwe.attacks.lattice import LatticeAttack
from lwe.costs.primal import primal_shape
from lwe.distributions import TERNARY, CentredBinomial
from lwe.residues import centred
from lwe.samples import inner_products, make_samples

WITHOUT = "fpylll is not installed (extra `lattice`)"


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
