import numpy as np
import pytest

from attention import FileFormatError
from lwe.laws import BinomialLaw, TernaryLaw
from lwe.parameters import LWRParameters, centred
from lwe.sample_files import read_samples, write_samples
from lwe.samples import LWRSamples, make_samples

PROBLEMS = [
    LWRParameters(6, 97, 97, matrix="uniform", secret=TernaryLaw(), noise=BinomialLaw(2)),
    LWRParameters(6, 64, 2),
    LWRParameters(6, 9, 4, matrix="ternary"),
    LWRParameters(3, 16, 4, matrix="gadget"),
]
LWE = PROBLEMS[0]


@pytest.fixture
def files(tmp_path):
    return tmp_path / "A.npy", tmp_path / "b.npy", tmp_path / "s.npy"


@pytest.mark.parametrize("parameters", PROBLEMS, ids=str)
def test_files_give_samples_and_secret_back(files, parameters):
    samples, secret = make_samples(parameters, 40, rng=0)
    write_samples(*files[:2], samples, secret_path=files[2], secret=secret)
    again, read = read_samples(*files[:2], parameters, secret_path=files[2])
    np.testing.assert_array_equal(again.public, samples.public)
    np.testing.assert_array_equal(again.labels, samples.labels)
    np.testing.assert_array_equal(read, secret)
    assert read_samples(*files[:2], parameters)[1] is None
    # plain .npy files: anybody's NumPy reads them
    np.testing.assert_array_equal(np.load(files[0], allow_pickle=False), samples.public)


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.float64])
def test_centred_residues_are_those_mod_q(files, dtype):
    samples, secret = make_samples(LWE, 40, rng=0)
    np.save(files[0], centred(samples.public, 97).astype(dtype))
    np.save(files[1], centred(samples.labels, 97).astype(dtype))
    np.save(files[2], np.mod(secret, 97).astype(dtype))
    again, read = read_samples(*files[:2], LWE, secret_path=files[2])
    np.testing.assert_array_equal(again.public, samples.public)
    np.testing.assert_array_equal(again.labels, samples.labels)
    np.testing.assert_array_equal(read, secret)


def test_minus_one_may_be_q_minus_one_in_a_ternary_matrix(files):
    np.save(files[0], np.array([[8, 0, 1, 0, -1, 1]]))
    np.save(files[1], np.array([3]))
    assert read_samples(*files[:2], PROBLEMS[2])[0].public.tolist() == [[-1, 0, 1, 0, -1, 1]]


GOOD = np.zeros((5, 6), dtype=int), np.zeros(5, dtype=int), np.zeros(6, dtype=int)


@pytest.mark.parametrize(
    ("which", "array", "words"),
    [
        (0, np.zeros((6, 5), dtype=int), r"\(N, n\), one row a sample and n = 6 .*transposed: save A.T"),
        (0, np.zeros((5, 7), dtype=int), r"A has shape \(5, 7\)"),
        (0, np.zeros(6, dtype=int), r"A has shape \(6,\)"),
        (0, np.zeros((0, 6), dtype=int), r"A has shape \(0, 6\)"),
        (0, np.full((5, 6), 97), "A has entries from 97 to 97: from -48 to 96 is allowed"),
        (0, np.full((5, 6), 0.5), "not whole"),
        (0, np.full((5, 6), np.nan), "finite|not whole"),
        (0, np.full((5, 6), 1e300), "not whole"),
        (0, np.full((5, 6), 2**64 - 1, dtype=np.uint64), "64 bits"),
        (0, np.array([[None] * 6] * 5), "Object arrays"),
        (0, np.array([["a"] * 6] * 5), "dtype <U1"),
        (0, np.zeros((5, 6), dtype=complex), "dtype complex"),
        (1, np.zeros(4, dtype=int), r"\(5,\), one label for each row"),
        (1, np.zeros((5, 1), dtype=int), r"b has shape \(5, 1\)"),
        (1, np.full(5, 97), "b has entries from 97"),
        (1, np.full(5, -49), "b has entries from -49"),
        (1, np.full(5, 1.5), "not whole"),
        (2, np.zeros(5, dtype=int), r"The secret has shape \(5,\)"),
        (2, np.full(6, 97), "The secret has entries"),
    ],
)
def test_files_that_hold_no_samples_are_explained(files, which, array, words):
    for index, path in enumerate(files):
        np.save(path, array if index == which else GOOD[index], allow_pickle=True)
    with pytest.raises(FileFormatError, match=words) as error:
        read_samples(*files[:2], LWE, secret_path=files[2])
    assert str(error.value).startswith(str(files[which]))


@pytest.mark.parametrize(
    ("parameters", "which", "entry", "words"),
    [
        (PROBLEMS[1], 0, 2, "from 0 to 1 is allowed"),
        (PROBLEMS[1], 0, -1, "from 0 to 1 is allowed"),
        (PROBLEMS[1], 1, 2, "from 0 to 1 is allowed"),
        (PROBLEMS[1], 1, -1, "from 0 to 1 is allowed"),
        (PROBLEMS[2], 0, 2, "from -1 to 1 is allowed"),
        (PROBLEMS[2], 1, 4, "from 0 to 3 is allowed"),
    ],
)
def test_ranges_are_those_of_the_matrix_and_the_levels(files, parameters, which, entry, words):
    arrays = [one.copy() for one in GOOD]
    arrays[which].flat[0] = entry
    for path, array in zip(files, arrays, strict=True):
        np.save(path, array)
    with pytest.raises(FileFormatError, match=words):
        read_samples(*files[:2], parameters)


def test_files_that_are_missing_or_no_npy_are_explained(files):
    for path, array in zip(files, GOOD, strict=True):
        np.save(path, array)
    missing = files[0].with_name("none.npy")
    with pytest.raises(FileFormatError, match=r"none\.npy"):
        read_samples(missing, files[1], LWE)
    with pytest.raises(FileFormatError, match=r"none\.npy"):
        read_samples(files[0], missing, LWE)
    files[1].write_text("0 1 2")
    with pytest.raises(FileFormatError, match="the file is no valid"):
        read_samples(*files[:2], LWE)
    files[1].write_bytes(files[0].read_bytes()[:-8])
    with pytest.raises(FileFormatError, match=r"no valid .npy file"):
        read_samples(*files[:2], LWE)


@pytest.mark.bad_input
def test_what_cannot_be_written_is_explained(files):
    samples = LWRSamples([[1, 2]], [0])
    for options, words in (
        ({"secret": [1, 2]}, "both are needed"),
        ({"secret_path": files[2]}, "both are needed"),
        ({"secret_path": files[2], "secret": [1]}, "2 whole numbers"),
        ({"secret_path": files[2], "secret": [0.5, 1]}, "2 whole numbers"),
        ({"secret_path": files[1], "secret": [1, 2]}, "same file"),
    ):
        with pytest.raises(ValueError, match=words):
            write_samples(*files[:2], samples, **options)
        assert not files[0].exists()
