from dataclasses import replace

import array_api_strict
import numpy as np

from lower import KnownComponent


def test_from_gate_is_c_a_plus_c0_u():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((50, 2, 4)), rng.standard_normal(4)
    c, c0, gate = -2.5, 0.75, 2
    known = KnownComponent.from_gate(c, c0, gate=gate, direction=w)
    a, u = (x[:, 0] + x[:, 1]) / 2, (x[:, 0] - x[:, 1]) / 2
    rows = np.stack([c * a[:, gate] + c0 * u[:, gate], c * a[:, gate] - c0 * u[:, gate]], axis=1)
    np.testing.assert_allclose(known(x), rows[..., None] * w, atol=1e-14)


def test_other_array_libraries_come_back_as_they_went_in():
    rng = np.random.default_rng(2)
    known = KnownComponent(mixing=rng.standard_normal((2, 2)), projection=rng.standard_normal((3, 3)))
    x = rng.standard_normal((6, 2, 3))
    strict = known(array_api_strict.asarray(x))
    assert type(strict) is type(array_api_strict.asarray(x))
    np.testing.assert_allclose(np.asarray(strict), known(x), atol=1e-14)


def gated(k=3, d=4):
    rng = np.random.default_rng(7)
    parts = [
        KnownComponent(mixing=rng.standard_normal((k, k)), projection=rng.standard_normal((d, d)))
        for _ in range(2)
    ]
    return replace(parts[0], gate=2, off=parts[1])


def test_a_gated_part_is_one_linear_part_on_the_gate_and_the_other_off_it():
    known, rng = gated(), np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(40, 3, 4))
    for one, found in zip(x, known(x), strict=True):
        part = known.off if len(set(one[:, 2])) == 1 else replace(known, gate=None, off=None)
        np.testing.assert_allclose(found, part(one), rtol=1e-14)
    np.testing.assert_array_equal(known(x.reshape(4, 10, 3, 4)).reshape(x.shape), known(x))
    assert (known.tokens, known.dim, known.is_zero) == (3, 4, False)
    assert "agree" in known.describe()
    assert replace(KnownComponent.zero(2, 3), gate=0, off=KnownComponent.zero(2, 3)).is_zero
