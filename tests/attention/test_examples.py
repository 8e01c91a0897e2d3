"""The example oracle counts every draw, adds the noise it says, and never serves an example twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    ExampleOracle,
    ExamplesExhaustedError,
    FileFormatError,
    GaussianInputs,
    make_nice_layer,
    write_examples,
)
from attention.files import write_tensors

LAYER = make_nice_layer(heads=2, dim=3, rng=0)
INPUTS = BooleanInputs(4, 3)


def given_examples(n=10):
    x = np.arange(n * 6.0).reshape(n, 2, 3)
    return x, -x


class TestDraw:
    def test_labels_are_those_of_the_target(self):
        oracle = ExampleOracle(LAYER, INPUTS, rng=0)
        x, y = oracle.draw(7)
        assert x.shape == y.shape == (7, 4, 3)
        np.testing.assert_array_equal(y, LAYER(x))
        assert (oracle.k, oracle.d, oracle.remaining) == (4, 3, None)

    @given(draws=st.lists(st.integers(0, 5), max_size=5))
    def test_every_example_is_counted(self, draws):
        oracle = ExampleOracle(LAYER, INPUTS, rng=0)
        for n in draws:
            oracle.draw(n)
        assert oracle.drawn == sum(draws)

    def test_any_function_is_a_target(self):
        x, y = ExampleOracle(lambda x: 2 * x, GaussianInputs(1, 2), rng=0).draw(3)
        np.testing.assert_array_equal(y, 2 * x)

    @pytest.mark.parametrize("noise", [0.0, 0.3, lambda y, rng: y + rng.standard_normal(y.shape)])
    def test_same_seed_same_bits(self, noise):
        one, other, another = (
            ExampleOracle(LAYER, INPUTS, noise=noise, rng=seed) for seed in (1, np.random.default_rng(1), 2)
        )
        for _ in range(2):
            for a, b in zip(one.draw(3), other.draw(3), strict=True):
                assert a.tobytes() == b.tobytes()
        assert one.draw(3)[1].tobytes() != another.draw(3)[1].tobytes()

    def test_examples_of_one_draw_and_the_next_differ(self):
        oracle = ExampleOracle(LAYER, GaussianInputs(4, 3), rng=0)
        assert oracle.draw(3)[0].tobytes() != oracle.draw(3)[0].tobytes()

    @pytest.mark.bad_input
    @pytest.mark.parametrize("n", [-1, 1.5, "2", True])
    def test_wrong_counts(self, n):
        oracle = ExampleOracle(LAYER, INPUTS, rng=0)
        with pytest.raises(ValueError, match="n is "):
            oracle.draw(n)
        assert oracle.drawn == 0


class TestNoise:
    @pytest.mark.parametrize("level", [0.01, 1.0, 30.0])
    def test_gaussian_noise_has_the_given_level(self, level):
        x, y = ExampleOracle(LAYER, INPUTS, noise=level, rng=0).draw(5000)
        noise = (y - LAYER(x)).ravel() / level
        assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
        assert abs(np.mean(noise**2) - 1) < 5 * np.sqrt(2 / noise.size)
        assert abs(np.mean(noise**4) - 3) < 5 * np.sqrt(96 / noise.size)
        assert abs(np.mean(noise[1:] * noise[:-1])) < 5 / np.sqrt(noise.size)
        assert abs(np.mean(noise * x.ravel())) < 5 / np.sqrt(noise.size)

    def test_no_noise_is_no_noise(self):
        x, y = ExampleOracle(LAYER, INPUTS, noise=0.0, rng=0).draw(5)
        np.testing.assert_array_equal(y, LAYER(x))

    def test_noise_may_be_a_function_of_the_labels(self):
        x, y = ExampleOracle(LAYER, INPUTS, noise=lambda y, rng: np.round(y), rng=0).draw(5)
        np.testing.assert_array_equal(y, np.round(LAYER(x)))


class TestGivenExamples:
    @given(draws=st.lists(st.integers(0, 4), max_size=6))
    def test_served_once_each_and_in_order(self, draws):
        x, y = given_examples()
        oracle = ExampleOracle.from_arrays(x, y)
        served = 0
        for n in draws:
            if n > oracle.remaining:
                with pytest.raises(ExamplesExhaustedError):
                    oracle.draw(n)
            else:
                got_x, got_y = oracle.draw(n)
                np.testing.assert_array_equal(got_x, x[served : served + n])
                np.testing.assert_array_equal(got_y, y[served : served + n])
                served += n
            assert (oracle.drawn, oracle.remaining) == (served, 10 - served)

    def test_when_they_run_out_none_is_drawn(self):
        oracle = ExampleOracle.from_arrays(*given_examples(10))
        oracle.draw(8)
        with pytest.raises(ExamplesExhaustedError, match="3 examples were asked for and 2 are left"):
            oracle.draw(3)
        assert (oracle.drawn, oracle.remaining) == (8, 2)
        np.testing.assert_array_equal(oracle.draw(2)[0], given_examples(10)[0][8:])

    def test_they_are_copied(self):
        x, y = given_examples()
        oracle = ExampleOracle.from_arrays(x, y)
        x += 1
        np.testing.assert_array_equal(oracle.draw(1)[0], given_examples()[0][:1])

    def test_lists_whole_numbers_and_torch_arrays(self):
        torch = pytest.importorskip("torch", reason="PyTorch is an extra")
        x, y = given_examples(2)
        for convert in (lambda a: a.tolist(), lambda a: a.astype(int), torch.from_numpy):
            got_x, got_y = ExampleOracle.from_arrays(convert(x), convert(y)).draw(2)
            assert got_x.dtype == got_y.dtype == np.float64
            np.testing.assert_array_equal(got_x, x)
            np.testing.assert_array_equal(got_y, y)

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("x", "y", "match"),
        [
            (np.zeros((2, 3)), np.zeros((2, 3)), r"of shape \(n, k, d\)"),
            (np.zeros((2, 2, 3)), np.zeros((3, 2, 3)), "where n is 2"),
            (np.zeros((0, 2, 3)), np.zeros((0, 2, 3)), r"of shape \(0, 2, 3\)"),
            (np.full((1, 1, 1), np.nan), np.zeros((1, 1, 1)), "x is an array with NaN"),
            (np.zeros((1, 1, 1)), np.full((1, 1, 1), -np.inf), "y is an array with NaN or infinite"),
        ],
    )
    def test_what_are_no_examples(self, tmp_path, x, y, match):
        with pytest.raises(ValueError, match=match):
            ExampleOracle.from_arrays(x, y)
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        with pytest.raises(FileFormatError, match="npy: "):
            ExampleOracle.from_files(tmp_path / "x.npy", tmp_path / "y.npy")

    def test_from_files_of_both_forms(self, tmp_path):
        x, y = given_examples()
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        write_examples(tmp_path / "both.safetensors", x, y)
        for paths in (["x.npy", "y.npy"], ["both.safetensors"]):
            oracle = ExampleOracle.from_files(*(str(tmp_path / path) for path in paths))
            assert (oracle.k, oracle.d, oracle.remaining) == (2, 3, 10)
            got_x, got_y = oracle.draw(10)
            np.testing.assert_array_equal(got_x, x)
            np.testing.assert_array_equal(got_y, y)

    @pytest.mark.bad_input
    def test_arrays_in_place_of_paths_are_refused(self, tmp_path):
        x, y = given_examples()
        np.save(tmp_path / "x.npy", x)
        for paths in ((x, y), (x,), (tmp_path / "x.npy", y)):
            with pytest.raises(ValueError, match="path of a file is needed"):
                ExampleOracle.from_files(*paths)


class TestSplit:
    def test_streams_differ_are_uncorrelated_and_are_counted(self):
        oracle = ExampleOracle(LAYER, GaussianInputs(4, 3), rng=0)
        oracle.draw(2)
        streams = oracle.split(3)
        draws = np.stack([stream.draw(4000)[0].ravel() for stream in streams])
        assert [stream.drawn for stream in streams] == [4000] * 3
        assert oracle.drawn == 12_002
        correlation = np.corrcoef(draws) - np.eye(3)
        assert np.abs(correlation).max() < 5 / np.sqrt(draws.shape[1])
        oracle.draw(1)
        streams[1].split(2)[0].draw(7)
        assert oracle.drawn == 12_010

    def test_streams_do_not_depend_on_who_draws_first(self):
        there, back = (ExampleOracle(LAYER, INPUTS, noise=0.1, rng=5).split(2) for _ in range(2))
        first = [stream.draw(4)[1] for stream in there]
        last = [stream.draw(4)[1] for stream in back[::-1]][::-1]
        for one, other in zip(first, last, strict=True):
            assert one.tobytes() == other.tobytes()

    def test_streams_have_the_noise(self):
        (stream,) = ExampleOracle(LAYER, INPUTS, noise=0.5, rng=0).split(1)
        x, y = stream.draw(3000)
        assert np.std(y - LAYER(x)) == pytest.approx(0.5, rel=0.03)

    @given(n=st.integers(1, 12), before=st.integers(0, 12), workers=st.integers(1, 5))
    def test_given_examples_are_shared_out_not_repeated(self, n, before, workers):
        before = min(before, n)
        x, y = given_examples(n)
        oracle = ExampleOracle.from_arrays(x, y)
        oracle.draw(before)
        if n - before < workers:
            with pytest.raises(ExamplesExhaustedError, match=f"too few for {workers} workers"):
                oracle.split(workers)
            assert oracle.remaining == n - before
            return
        streams = oracle.split(workers)
        assert oracle.remaining == 0
        parts = [stream.draw(stream.remaining) for stream in streams]
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), x[before:])
        np.testing.assert_array_equal(np.concatenate([part[1] for part in parts]), y[before:])
        assert oracle.drawn == n


def test_a_pair_of_safetensors_files_is_read_like_a_pair_of_npy_files(tmp_path):
    x = np.ones((4, 2, 3))
    for name, tensors in (("x", {"tokens": x}), ("y", {"y": 2 * x}), ("both", {"x": x, "y": x})):
        write_tensors(tmp_path / name, "examples", tensors, {})
    served, labels = ExampleOracle.from_files(tmp_path / "x", tmp_path / "y").draw(4)
    np.testing.assert_array_equal(labels, 2 * served)
    with pytest.raises(FileFormatError, match="2 arrays where one is needed"):
        ExampleOracle.from_files(tmp_path / "x", tmp_path / "both")


@pytest.mark.bad_input
@pytest.mark.parametrize("workers", [10**9, 10**400])
def test_more_workers_than_generators_are_made_for_are_refused(workers):
    oracle = ExampleOracle(make_nice_layer(heads=1, dim=2, rng=0), BooleanInputs(2, 2), rng=0)
    with pytest.raises(ValueError, match="workers is"):
        oracle.split(workers)
