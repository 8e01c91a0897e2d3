import numpy as np
import pytest

from lower import all_sign_matrices
from lower.walsh import walsh_hadamard
from sq.gram import _hidden_values, enumerated_gram, fourier_spectrum
from sq.secret_set import SecretSet


class Parity:
    """u_0 chi_S(y) [1, -1], u = (x_1 - x_2)/2, y = x_1 x_2: written out, orthonormal."""

    name, tokens, orthonormal, scale = "parity", 2, True, 1.0

    def __init__(self, dim, bits):
        self.dim, self.secrets = dim, SecretSet(dim, bits)

    def hidden(self, number, x):
        chosen = self.secrets.unrank(number)
        value = (x[:, 0, 0] - x[:, 1, 0]) / 2 * np.prod(x[:, 0, chosen] * x[:, 1, chosen], axis=-1)
        return np.stack([value, -value], axis=-1)

    def correlations(self, number):
        return np.eye(len(self.secrets))[number]

    def instance(self, number=None, *, rng=None):
        raise NotImplementedError


class RowParity(Parity):
    """chi_S of each token by itself, three tokens: rows that are no multiples of one another."""

    tokens = 3

    def hidden(self, number, x):
        chosen = self.secrets.unrank(number)
        return np.prod(x[:, :, chosen], axis=-1) / np.sqrt(3)


class Broken(Parity):
    def hidden(self, number, x):
        value = super().hidden(number, x)
        value[x[:, 0].sum(axis=-1) == self.dim] = np.nan
        return value


@pytest.mark.parametrize("bits", [0, 1, 5, 6, 7, 12, 13])
def test_the_transform_twice_gives_the_values_over_their_number(bits):
    values = np.random.default_rng(bits).standard_normal((2, 1 << bits))
    coefficients = walsh_hadamard(values)
    np.testing.assert_allclose(walsh_hadamard(coefficients) * (1 << bits), values, atol=1e-11)
    np.testing.assert_allclose((coefficients**2).sum(axis=-1), (values**2).mean(axis=-1), rtol=1e-12)


def test_the_argument_is_left_as_it_was():
    for bits in (0, 3, 8):
        values = np.arange(float(1 << bits))
        walsh_hadamard(values)[:] = -1
        assert values.tolist() == list(range(1 << bits))


@pytest.mark.parametrize("family", [Parity(4, 2), Parity(7, 2), RowParity(5, 2)])
def test_hidden_values_are_those_of_all_sign_matrices_in_their_order(family):
    x = all_sign_matrices(family.tokens, family.dim)
    assert np.array_equal(_hidden_values(family, 2), family.hidden(2, x).T)


@pytest.mark.parametrize(("dim", "bits"), [(4, 1), (6, 2), (7, 3)])
def test_parities_have_coefficients_of_one_half_at_degree_2l_plus_1_and_no_others(dim, bits):
    found, dropped = fourier_spectrum(Parity(dim, bits), range(3))
    assert np.array_equal(np.abs(found.data), np.full(12, 0.5))
    assert {int(column % (1 << 2 * dim)).bit_count() for column in found.indices} == {2 * bits + 1}
    assert dropped < 1e-15


@pytest.mark.parametrize("family", [RowParity(4, 2), Parity(4, 2)])
def test_every_row_has_its_own_coefficients(family):
    found, _ = fourier_spectrum(family)
    np.testing.assert_allclose(enumerated_gram(family).matrix, np.eye(3), atol=1e-14)
    dense = found.toarray().reshape(3, family.tokens, -1)
    for number in range(3):
        expected = walsh_hadamard(_hidden_values(family, number))
        np.testing.assert_allclose(dense[number], expected, atol=1e-14)


def test_what_is_dropped_is_counted():
    class Tiny(Parity):
        def hidden(self, number, x):
            return super().hidden(number, x) + 1e-15 * x[:, :, 1] * x[:, :, 2]

    _, dropped = fourier_spectrum(Tiny(4, 1), [0])
    assert dropped == pytest.approx(np.sqrt(2) * 1e-15, rel=0.3, abs=0)


@pytest.mark.parametrize("values", [[1, 2, 3, 4], (1.0, 2.0, 3.0, 4.0), np.array([1, 2, 3, 4])])
def test_whole_numbers_and_sequences_are_taken_as_float64(values):
    found = walsh_hadamard(values)
    assert found.dtype == np.float64
    assert found.tolist() == [2.5, -0.5, -1, 0]
    assert walsh_hadamard([True, False]).tolist() == [0.5, 0.5]
    assert walsh_hadamard([[1, 1], [1, -1]]).tolist() == [[1, 0], [0, 1]]
    assert walsh_hadamard(np.ones(4, np.float32)).dtype == np.float32
    assert walsh_hadamard(np.zeros((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("family", "numbers", "words"),
    [
        (Parity(13, 1), None, "26 input bits.*at most 24"),
        (Parity(4, 1), [3], "from 0 to 2"),
        (Parity(4, 1), [-1], "of at least 0"),
        (Parity(4, 1), [], "at least one"),
        (Parity(4, 1), [0.5], "whole number"),
        (Broken(4, 1), None, "NaN"),
    ],
)
@pytest.mark.bad_input
def test_what_cannot_be_enumerated_is_explained(family, numbers, words):
    with pytest.raises(ValueError, match=words):
        fourier_spectrum(family, numbers)
