import numpy as np
import pytest

from lwe.distributions import TERNARY, SparseSigned
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

PROBLEMS = [
    LWEParameters(12, 64, 2),
    LWEParameters(12, 17, 3, matrix="ternary", Xs=TERNARY),
    LWEParameters(6, 16, 4, matrix="gadget"),
    LWEParameters(20, 101, 7, matrix="uniform", Xs=SparseSigned(5)),
]


@pytest.mark.parametrize("parameters", PROBLEMS, ids=str)
def test_labels_are_the_rounded_inner_products(parameters):
    samples, secret = make_samples(parameters, 300, rng=0)
    q, p = parameters.q, parameters.p
    expected = [
        p * (sum(int(a) * int(s) for a, s in zip(row, secret, strict=True)) % q) // q
        for row in samples.public
    ]
    assert samples.labels.tolist() == expected
    entries = {"binary": {0, 1}, "ternary": {-1, 0, 1}}.get(parameters.matrix, set(range(q)))
    assert set(np.unique(samples.public)) == entries
    assert parameters.Xs.allows(secret, q)
