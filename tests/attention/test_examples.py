"""The example oracle counts every draw, adds the noise it says, and never serves an example twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import (
    BooleanInputs,
    ExampleOracle,
    FileFormatError,
    GaussianInputs,
    make_nice_layer,
)
from attention.files import write_tensors

LAYER = make_nice_layer(heads=2, dim=3, rng=0)
INPUTS = BooleanInputs(4, 3)


def given_examples(n=10):
    x = np.arange(n * 6.0).reshape(n, 2, 3)
    return x, -x


class TestDraw:
    @given(draws=st.lists(st.integers(0, 5), max_size=5))
    def test_labels_are_those_of_the_target_and_every_example_is_counted(self, draws):
        oracle = ExampleOracle(LAYER, INPUTS, rng=0)
        for n in draws:
            x, y = oracle.draw(n)
            assert x.shape == y.shape == (n, 4, 3)
            np.testing.assert_array_equal(y, LAYER(x))
        assert (oracle.tokens, oracle.dim, oracle.remaining, oracle.drawn) == (4, 3, None, sum(draws))

    @pytest.mark.parametrize("noise", [0.0, 0.3, lambda x, y, rng: y + rng.standard_normal(y.shape)])
    def test_same_seed_same_bits_and_no_example_twice(self, noise):
        one, other, another = (
            ExampleOracle(LAYER, GaussianInputs(4, 3), noise=noise, rng=seed)
            for seed in (1, np.random.default_rng(1), 2)
        )
        seen = set()
        for _ in range(2):
            x, y = one.draw(3)
            again = other.draw(3)
            assert (x.tobytes(), y.tobytes()) == (again[0].tobytes(), again[1].tobytes())
            seen |= {y.tobytes(), another.draw(3)[1].tobytes()}
        assert len(seen) == 4

    @pytest.mark.parametrize("level", [0.01, 30.0])
    def test_gaussian_noise_has_the_given_level(self, level):
        x, y = ExampleOracle(LAYER, INPUTS, noise=level, rng=0).draw(5000)
        noise = (y - LAYER(x)).ravel() / level
        assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
        assert abs(np.mean(noise**2) - 1) < 5 * np.sqrt(2 / noise.size)
        assert abs(np.mean(noise**4) - 3) < 5 * np.sqrt(96 / noise.size)
        assert abs(np.mean(noise[1:] * noise[:-1])) < 5 / np.sqrt(noise.size)
        assert abs(np.mean(noise * x.ravel())) < 5 / np.sqrt(noise.size)


class TestGivenExamples:
    @given(draws=st.lists(st.integers(0, 4), max_size=6))
    def test_served_once_each_and_in_order(self, draws):
        x, y = given_examples()
        oracle = ExampleOracle.from_arrays(x, y)
        served = 0
        for n in draws:
            if n > oracle.remaining:
                words = f"{n} examples were asked for and {oracle.remaining} are left"
                with pytest.raises(ValueError, match=words):
                    oracle.draw(n)
            else:
                got_x, got_y = oracle.draw(n)
                np.testing.assert_array_equal(got_x, x[served : served + n])
                np.testing.assert_array_equal(got_y, y[served : served + n])
                served += n
            assert (oracle.drawn, oracle.remaining) == (served, 10 - served)

    @pytest.mark.bad_input
    def test_what_are_no_examples_and_in_which_file(self, tmp_path):
        paths = [tmp_path / "x.npy", tmp_path / "y.npy"]
        for x, y, words, file in [
            (np.zeros((2, 3)), np.zeros((2, 3)), r"of shape \(n, k, d\)", "x"),
            (np.zeros((2, 2, 3)), np.zeros((2, 3)), r"of shape \(n, k, d\)", "y"),
            (np.zeros((2, 2, 3)), np.zeros((3, 2, 3)), "where n is 2", "[xy]"),
            (np.zeros((1, 1, 1)), np.full((1, 1, 1), -np.inf), "y is an array with NaN or infinite", "y"),
        ]:
            with pytest.raises(ValueError, match=words):
                ExampleOracle.from_arrays(x, y)
            for path, array in zip(paths, (x, y), strict=True):
                np.save(path, array)
            with pytest.raises(FileFormatError, match=rf"{file}\.npy: "):
                ExampleOracle.from_files(*paths)
        np.savez(tmp_path / "other.npz", X=x, y=x)
        with pytest.raises(FileFormatError, match="no array named x; it holds X, y"):
            ExampleOracle.from_files(tmp_path / "other.npz")

    def test_from_files_of_every_form(self, tmp_path):
        x, y = given_examples()
        for name, array in (("x", x), ("y", y)):
            np.save(tmp_path / f"{name}.npy", array)
            write_tensors(tmp_path / name, "examples", {"one": array}, {})
        write_tensors(tmp_path / "both", "examples", {"x": x, "y": y}, {})
        for paths in (["x.npy", "y.npy"], ["x", "y"], ["both"]):
            oracle = ExampleOracle.from_files(*(str(tmp_path / path) for path in paths))
            assert (oracle.tokens, oracle.dim, oracle.remaining) == (2, 3, 10)
            for found, wanted in zip(oracle.draw(10), (x, y), strict=True):
                np.testing.assert_array_equal(found, wanted)
        for paths, words in [
            (["x", "both"], "2 arrays where one is needed"),
            (["x"], "no array named x and none named y"),
            (["x.npy", "none"], "no such file"),
        ]:
            with pytest.raises(FileFormatError, match=words):
                ExampleOracle.from_files(*(tmp_path / path for path in paths))


class TestSplit:
    def test_streams_differ_are_uncorrelated_and_are_counted(self):
        oracle = ExampleOracle(LAYER, GaussianInputs(4, 3), rng=0)
        oracle.draw(2)
        streams = oracle.split(3)
        draws = np.stack([stream.draw(4000)[0].ravel() for stream in streams])
        assert [stream.drawn for stream in streams] == [4000] * 3
        assert oracle.drawn == 12_002
        assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 5 / np.sqrt(draws.shape[1])
        oracle.draw(1)
        streams[1].split(2)[0].draw(7)
        assert oracle.drawn == 12_010

    def test_streams_have_the_noise_and_do_not_depend_on_who_draws_first(self):
        there, back = (ExampleOracle(LAYER, INPUTS, noise=0.5, rng=5).split(2) for _ in range(2))
        first = [stream.draw(3000) for stream in there]
        last = [stream.draw(3000) for stream in back[::-1]][::-1]
        for (x, y), (_, other) in zip(first, last, strict=True):
            assert y.tobytes() == other.tobytes()
            assert np.std(y - LAYER(x)) == pytest.approx(0.5, rel=0.03)

    def test_given_examples_are_served_in_turn(self):
        x, y = given_examples()
        oracle = ExampleOracle.from_arrays(x, y)
        parts = [stream.draw(5) for stream in oracle.split(2)]
        np.testing.assert_array_equal(np.concatenate([part[0] for part in parts]), x)
        assert (oracle.remaining, oracle.drawn) == (0, 10)
