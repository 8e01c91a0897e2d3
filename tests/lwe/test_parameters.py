import numpy as np
import pytest

from lwe import LWRParameters, centred, covariate_form, rounded


def test_centred_representatives_lie_above_minus_q_over_2_and_q_over_2_stands_for_itself():
    for q in range(2, 14):
        values = np.arange(-3 * q, 3 * q)
        own = centred(values, q)
        assert np.all(np.mod(own - values, q) == 0)
        assert np.all((2 * own > -q) & (2 * own <= q))
    np.testing.assert_array_equal(centred([4, -4], 8), [4, 4])


def test_rounded_is_the_floor_of_p_times_t_mod_q_over_q():
    for q, p in ((2, 2), (7, 3), (8, 8), (64, 2), (251, 32)):
        t = np.arange(-2 * q, 2 * q)
        expected = [(p * (int(one) % q)) // q for one in t]
        np.testing.assert_array_equal(rounded(t, q, p), expected)
        assert set(rounded(t, q, p)) == set(range(p))


def test_gadget_form_lists_the_powers_of_two_times_each_entry():
    parameters = LWRParameters(secret_dim=3, modulus=16, levels=2, gadget=True)
    form = covariate_form([1, 5, 15], parameters)
    np.testing.assert_array_equal(form, [1, 2, 4, 8, 5, -6, 4, 8, -1, -2, -4, 8])
    np.testing.assert_array_equal(covariate_form([1, 5, 15], parameters.updated(gadget=False)), [1, 5, -1])


def test_sizes_and_names():
    gadget = LWRParameters(secret_dim=16, modulus=256, levels=2, gadget=True)
    assert (gadget.digits, gadget.covariates, gadget.dim, gadget.centre) == (8, 128, 129, 0.5)
    assert str(gadget) == "LWR n'=16 q=256 p=2 gadget (d=129)"
    plain = gadget.updated(gadget=False)
    assert (plain.digits, plain.covariates, plain.dim) == (1, 16, 17)
    assert "standard" in gadget.assumption
    assert "binary public matrix" in plain.assumption
    assert "parity" in LWRParameters(secret_dim=4, modulus=2, levels=2).assumption


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"secret_dim": 0}, "secret_dim"),
        ({"modulus": 1}, "modulus"),
        ({"levels": 1}, "levels"),
        ({"levels": 65}, "levels"),
        ({"modulus": 63, "gadget": True}, "power of two"),
        ({"modulus": 6.5}, "modulus"),
        ({"levels": True}, "levels"),
    ],
)
def test_bad_parameters_are_explained(changes, word):
    with pytest.raises(ValueError, match=word):
        LWRParameters(**({"secret_dim": 8, "modulus": 64, "levels": 2} | changes))


@pytest.mark.bad_input
def test_secrets_of_another_size_are_explained():
    for secret in ([1, 2], [1.5, 2.0, 3.0], 3):
        with pytest.raises(ValueError, match="secret"):
            covariate_form(secret, LWRParameters(secret_dim=3, modulus=8, levels=2))
