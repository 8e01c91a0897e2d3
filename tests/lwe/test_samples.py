import numpy as np
import pytest

from lwe.distributions import TERNARY, CentredBinomial, SparseSigned
from lwe.parameters import LWEParameters
from lwe.residues import centred
from lwe.sample_files import read_samples
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


LWE = LWEParameters(6, 97, 97, matrix="uniform", Xs=TERNARY, Xe=CentredBinomial(2))


@pytest.fixture
def files(tmp_path):
    return tmp_path / "A.npy", tmp_path / "b.npy", tmp_path / "s.npy"


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float64])
def test_centred_residues_are_those_mod_q(files, dtype):
    samples, secret = make_samples(LWE, 40, rng=0)
    np.save(files[0], centred(samples.public, 97).astype(dtype))
    np.save(files[1], centred(samples.labels, 97).astype(dtype))
    np.save(files[2], np.mod(secret, 97).astype(dtype))
    found = read_samples(files[0], LWE, labels_path=files[1], secret_path=files[2])
    again, read = found.samples, found.secret
    np.testing.assert_array_equal(again.public, samples.public)
    np.testing.assert_array_equal(again.labels, samples.labels)
    np.testing.assert_array_equal(read, secret)
