"""Samples as files: what is written is read back unchanged, and what others write is read or refused in a line."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

from attention import FileFormatError
from lwe import (
    PRESETS,
    LWEParameters,
    make_samples,
    parse_distribution,
    read_samples,
    save_samples,
)
from lwe.sample_files import kind_of_file, read_matrix, write_matrix

CHALLENGE = LWEParameters(4, 1048583, 1048583, "uniform", Xe=parse_distribution("gaussian:3"))


@pytest.mark.parametrize(
    "parameters",
    [*[one for one in PRESETS.values() if one.q <= 2**52][::9], CHALLENGE.updated(q=2**52, p=2**52)],
    ids=str,
)
@pytest.mark.parametrize("known", [False, True])
def test_npz_gives_samples_parameters_and_secret_back(parameters, known, tmp_path):
    samples, secret = make_samples(parameters, 12, rng=0)
    save_samples(tmp_path / "s.npz", samples, parameters, secret=secret if known else None)
    again = read_samples(tmp_path / "s.npz")
    assert again.parameters == parameters
    np.testing.assert_array_equal(again.samples.public, samples.public)
    np.testing.assert_array_equal(again.samples.labels, samples.labels)
    assert again.secret is None if not known else np.array_equal(again.secret, secret)
    assert kind_of_file(tmp_path / "s.npz") == "npz"


@pytest.mark.parametrize(
    "noise", ["zero", "gaussian:3", f"gaussian:{1 / 3!r}", "gaussian:3.19", "gaussian:131071.7"]
)
@pytest.mark.parametrize("q", [17, 3329, 1048583, 2**52])
def test_the_text_of_challenges_gives_everything_back(noise, q, tmp_path):
    parameters = CHALLENGE.updated(q=q, p=q, Xe=parse_distribution(noise))
    samples, _ = make_samples(parameters, 9, rng=0)
    if noise == "gaussian:131071.7" and q < 131072:
        with pytest.raises(ValueError, match="narrower than q"):
            save_samples(tmp_path / "c.txt", samples, parameters)
        return
    save_samples(tmp_path / "c.txt", samples, parameters)
    again = read_samples(tmp_path / "c.txt")
    assert again.parameters == parameters
    np.testing.assert_array_equal(again.samples.public, samples.public)
    np.testing.assert_array_equal(again.samples.labels, samples.labels)


@pytest.mark.parametrize(
    "text",
    [
        "2\n3\n5\n0.2\n[1 2 3]\n[[0 1]\n[2 3]\n[4 0]]\n",
        "2\r\n3\r\n5\r\n0.200\r\n[1 2 3]\r\n[[0 1]\r\n [2 3]\r\n [4 0]]",
        "2 3 5 2e-1 [1, 2, 3] [[0, 1], [2, 3], [4, 0]]",
        "2\n3\n5\n0.2\n[1 2 3]\n[0 1]\n[2 3]\n[4 0]\n",
    ],
)
def test_challenges_are_read_in_every_spacing(text, tmp_path):
    (tmp_path / "c").write_bytes(text.encode())
    found = read_samples(tmp_path / "c")
    assert found.parameters == LWEParameters(2, 5, 5, "uniform", Xe=parse_distribution("gaussian:1.0"))
    assert (found.samples.public.tolist(), found.samples.labels.tolist()) == (
        [[0, 1], [2, 3], [4, 0]],
        [1, 2, 3],
    )


@pytest.mark.parametrize("ending", [".npy", ".txt", ""])
@pytest.mark.parametrize("shape", [(3, 2), (1, 4), (4, 1), (5,), (1,)])
def test_matrices_are_read_back(shape, ending, tmp_path):
    array = np.random.default_rng(0).integers(-(2**62), 2**62, size=shape)
    write_matrix(tmp_path / f"m{ending}", array)
    np.testing.assert_array_equal(read_matrix(tmp_path / f"m{ending}"), array)
    assert kind_of_file(tmp_path / f"m{ending}") == "matrix"


@pytest.mark.skipif(find_spec("fpylll") is None, reason="needs fpylll")
def test_fpylll_reads_and_writes_the_same_text(tmp_path):
    from fpylll import IntegerMatrix

    array = np.random.default_rng(0).integers(-(2**40), 2**40, size=(6, 4))
    write_matrix(tmp_path / "m", array)
    theirs = IntegerMatrix.from_file(str(tmp_path / "m"))
    assert [list(row) for row in theirs] == array.tolist()
    (tmp_path / "m").write_text(f"[{theirs}]".replace("[ ", "["))
    np.testing.assert_array_equal(read_matrix(tmp_path / "m"), array)


def test_arrays_of_other_programs_need_their_problem_alone(tmp_path):
    samples, secret = make_samples(PRESETS["plain-24"], 20, rng=0)
    np.savez(tmp_path / "s.npz", A=samples.public.astype(float), b=samples.labels.astype(np.uint8), other=[1])
    problem = {"q": 64, "p": 2, "matrix": "binary"}
    found = read_samples(tmp_path / "s.npz", problem)
    assert found.parameters == PRESETS["plain-24"]
    np.testing.assert_array_equal(found.samples.public, samples.public)
    write_matrix(tmp_path / "A", samples.public)
    np.save(tmp_path / "b.npy", samples.labels)
    write_matrix(tmp_path / "s", secret)
    found = read_samples(tmp_path / "A", problem, labels_path=tmp_path / "b.npy", secret_path=tmp_path / "s")
    assert (found.parameters, found.secret.tolist()) == (PRESETS["plain-24"], secret.tolist())


HEAD, ROWS = "2\n3\n5\n0.2\n[1 2 3]\n", "[[0 1]\n[2 3]\n[4 0]]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "an LWE challenge has lines"),
        (HEAD.replace("0.2\n", "") + ROWS, "an LWE challenge has lines"),
        (HEAD + ROWS[:-1], "a bracket is missing"),
        (HEAD + ROWS.replace("[2 3]\n", ""), "it has 2 rows of A and says that m is 3"),
        (HEAD + ROWS.replace("4 0", "4"), "different lengths"),
        (HEAD + ROWS.replace("4 0", "4 1.5"), "not whole numbers"),
        (HEAD + ROWS.replace("4 0", "4 9"), "A has entries from 0 to 9: from -2 to 4 is allowed"),
        (HEAD + ROWS.replace("4 0", f"4 {10**30}"), "at most 64 bits"),
        (HEAD.replace("[1 2 3]", "[1 2 7]") + ROWS, "b has entries from 1 to 7"),
        (HEAD.replace("[1 2 3]", "[1 2 3 4]") + ROWS, r"b has shape \(4,\)"),
        *(
            (HEAD.replace("0.2", alpha) + ROWS, "alpha is wrong")
            for alpha in ("1.5", "nan", "-1", "1e999999999")
        ),
        (HEAD.replace("\n5\n", f"\n{2**60}\n") + ROWS, "alpha is wrong"),
        (HEAD.replace("2\n", "9\n", 1) + ROWS, r"A has shape \(3, 2\): \(N, 9\) is needed"),
        (HEAD.replace("2\n", "é\n", 1), "no valid text|an LWE challenge|no valid"),
    ],
)
def test_texts_that_are_no_challenge_are_refused_in_a_line(text, words, tmp_path):
    path = tmp_path / "c.txt"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=words) as error:
        read_samples(path)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))


GOOD = {"A": np.zeros((3, 2), dtype=int), "b": np.zeros(3, dtype=int)}
PROBLEM = json.dumps(LWEParameters(2, 5, 5, "uniform").to_json())


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"A": GOOD["A"]}, "it has the arrays parameters, A: A and b are needed"),
        (GOOD | {"A": np.array([[None, 1]] * 3)}, "Object arrays"),
        (GOOD | {"A": np.full((3, 2), np.nan)}, "NaN"),
        (GOOD | {"A": np.full((3, 2), "1")}, "whole numbers"),
        (GOOD | {"secret": np.full(3, 1)}, r"The secret has shape \(3,\)"),
        (GOOD | {"parameters": "[]"}, "its parameters are wrong"),
        (GOOD | {"parameters": PROBLEM.replace("5", "1")}, "its parameters are wrong"),
    ],
)
def test_forged_npz_are_refused_in_a_line(arrays, words, tmp_path):
    np.savez(tmp_path / "s.npz", **{"parameters": PROBLEM, **arrays})
    with pytest.raises(FileFormatError, match=words) as error:
        read_samples(tmp_path / "s.npz")
    assert "\n" not in str(error.value)


def test_wrong_use_is_explained(tmp_path):
    samples, secret = make_samples(CHALLENGE, 5, rng=0)
    save_samples(tmp_path / "s.npz", samples, CHALLENGE)
    write_matrix(tmp_path / "A.txt", samples.public)
    np.savez(tmp_path / "x.npz", **GOOD)
    text, numbers = tmp_path / "s.txt", CHALLENGE.updated(p=9)
    cases = [
        (lambda: read_samples(tmp_path / "s.npz", CHALLENGE), "says itself"),
        (lambda: read_samples(tmp_path / "x.npz"), "does not say its modulus"),
        (lambda: read_samples(tmp_path / "A.txt", CHALLENGE), "labels_path is needed"),
        (lambda: read_samples(tmp_path / "s.npz", labels_path=tmp_path / "A.txt"), "leave labels_path out"),
        (lambda: save_samples(tmp_path / "s.csv", samples, CHALLENGE), "written as .npz, or as .txt"),
        (lambda: save_samples(text, samples, CHALLENGE, secret=secret), "holds no secret"),
        (lambda: save_samples(text, samples, numbers), "entries|unrounded"),
        (lambda: save_samples(tmp_path / "s.npz", samples, CHALLENGE.updated(n=3)), r"\(N, 3\) is needed"),
        (lambda: write_matrix(tmp_path / "m", np.zeros((2, 2, 2), dtype=int)), "a matrix or a vector"),
    ]
    for refused, words in cases:
        with pytest.raises(ValueError, match=words):
            refused()
    assert not (tmp_path / "s.csv").exists()
    assert not (tmp_path / "s.txt").exists()


def test_a_transposed_matrix_is_turned(tmp_path):
    samples, _ = make_samples(CHALLENGE, 9, rng=0)
    np.savez(tmp_path / "s.npz", A=samples.public.T, b=samples.labels[:, None])
    problem = {name: getattr(CHALLENGE, name) for name in ("q", "p", "matrix", "Xe")}
    again = read_samples(tmp_path / "s.npz", problem)
    assert again.parameters == CHALLENGE
    np.testing.assert_array_equal(again.samples.public, samples.public)
    np.testing.assert_array_equal(again.samples.labels, samples.labels)
    np.savez(tmp_path / "s.npz", A=samples.public, b=np.stack([samples.labels, samples.labels]))
    with pytest.raises(FileFormatError, match="b has shape"):
        read_samples(tmp_path / "s.npz", problem)


def test_truth_values_are_bits_and_signs_modulo_2_are_refused(tmp_path):
    bits = np.array([[True, False], [False, True], [True, True]])
    problem = {"q": 2, "matrix": "uniform"}
    np.savez(tmp_path / "s.npz", A=bits, b=bits[:, 0])
    assert read_samples(tmp_path / "s.npz", problem).samples.public.tolist() == bits.astype(int).tolist()
    for a, b in ((1 - 2 * bits, bits[:, 0]), (bits, np.array([1, -1, 1]))):
        np.savez(tmp_path / "s.npz", A=a, b=b)
        with pytest.raises(FileFormatError, match=r"equal modulo 2: as signs, save \(1 - [Ab]\) // 2"):
            read_samples(tmp_path / "s.npz", problem)


@pytest.mark.parametrize(
    "text", ["[1 2]\n[3 4]\n[5 6]", "[1, 2], [3, 4], [5, 6]", "1 2\n3 4\n5 6\n", "1,2\n3,4\n5,6"]
)
def test_rows_are_read_without_the_outer_brackets(text, tmp_path):
    (tmp_path / "A").write_text(text)
    assert kind_of_file(tmp_path / "A") == "matrix"
    assert read_matrix(tmp_path / "A").tolist() == [[1, 2], [3, 4], [5, 6]]


def test_labels_rounded_to_the_nearest_are_kept_so(tmp_path):
    saber = LWEParameters(4, 64, 8, "uniform")
    samples, secret = make_samples(saber, 30, rounding="nearest", rng=0)
    residues = samples.public @ secret % 64
    np.testing.assert_array_equal(samples.labels, np.floor(residues / 8 + 0.5) % 8)
    save_samples(tmp_path / "s.npz", samples, saber)
    assert read_samples(tmp_path / "s.npz").samples.rounding == "nearest"
    with pytest.raises(ValueError, match="says itself that labels are rounded nearest"):
        read_samples(tmp_path / "s.npz", rounding="down")
    np.savez(tmp_path / "t.npz", A=samples.public, b=np.floor(residues / 8 + 0.5))  # 8 stands for 0
    problem = {"q": 64, "p": 8, "matrix": "uniform"}
    for stated in ("nearest", None):  # labels 8 say it, too
        found = read_samples(tmp_path / "t.npz", problem, rounding=stated)
        np.testing.assert_array_equal(found.samples.labels, samples.labels)
        assert (found.samples.rounding, found.rounding_known) == ("nearest", True)
    np.savez(tmp_path / "t.npz", A=samples.public, b=samples.labels)
    assert not read_samples(tmp_path / "t.npz", problem).rounding_known
