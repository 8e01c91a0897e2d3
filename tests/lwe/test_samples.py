import numpy as np
import pytest

from attention import FileFormatError
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
BITS, TRITS = LWEParameters(6, 64, 2), LWEParameters(6, 9, 4, matrix="ternary")


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


GOOD = np.zeros((5, 6), dtype=int), np.zeros(5, dtype=int), np.zeros(6, dtype=int)


@pytest.mark.parametrize(
    ("which", "array", "words"),
    [
        (0, np.zeros((7, 4), dtype=int), r"\(N, 6\) is needed"),
        (0, np.full((5, 6), 97), "A has entries from 97 to 97: from -48 to 96 is allowed"),
        (0, np.full((5, 6), 2**64 - 1, dtype=np.uint64), "64 bits"),
        (1, np.zeros(4, dtype=int), r"\(5,\) is needed"),
        (2, np.zeros(5, dtype=int), r"The secret has shape \(5,\)"),
    ],
)
def test_files_that_hold_no_samples_are_explained(files, which, array, words):
    for index, path in enumerate(files):
        np.save(path, array if index == which else GOOD[index], allow_pickle=True)
    with pytest.raises(FileFormatError, match=words) as error:
        read_samples(files[0], LWE, labels_path=files[1], secret_path=files[2])
    assert str(error.value).startswith(str(files[which]))
