"""Families on Gaussian tokens: layers against closed forms, Hermite sums against Mehler's formula, and the bound."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_hermitenorm

from sq import (
    CurveCell,
    PeriodicFamily,
    measure_cell,
)

WAVES = [
    PeriodicFamily(dim=6, gamma=1.0),
    PeriodicFamily(dim=5, gamma=2.5, sharpness=0.7),
    PeriodicFamily(dim=5, gamma=0.3, sharpness=20.0),
]


def normal_mean(function, edge=12.0, points=4001):
    """E of a function of a standard normal, by Simpson's rule: not the rule of the families."""
    from scipy.integrate import simpson

    s = np.linspace(-edge, edge, points)
    return float(simpson(function(s) * np.exp(-(s**2) / 2), x=s)) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("family", WAVES, ids=lambda one: f"{one.gamma}-{one.sharpness}")
def test_the_wave_is_jacobis_elliptic_sine(family):
    from mpmath import ellipfun, mp

    with mp.workdps(30):
        nome = mp.exp(-(mp.pi**2) / family.sharpness)
        m = (mp.jtheta(2, 0, nome) / mp.jtheta(3, 0, nome)) ** 4
        quarter = mp.pi / 2 * mp.jtheta(3, 0, nome) ** 2
        height = 2 * mp.sqrt(m) * quarter / family.sharpness
        for s in np.random.default_rng(0).uniform(-5, 5, 20):
            wave = height * ellipfun("sn", 2 * quarter * mp.mpf(s) / mp.mpf(family.half_period), m=m)
            assert float(family.link(np.array(s))) == pytest.approx(float(wave), abs=1e-12)


@pytest.mark.parametrize("family", WAVES, ids=lambda one: f"{one.gamma}-{one.sharpness}")
class TestFamily:
    def test_the_layer_is_the_target_within_the_proved_error(self, family):
        instance = family.instance(rng=1, direction=np.arange(1.0, family.dim + 1))
        w = instance.direction
        x = instance.inputs.sample(500, rng=2)
        u = instance.secret / np.linalg.norm(instance.secret)
        # a grid along the direction, too: random tokens rarely come near the end of the range
        grid = np.linspace(-1, 1, 500)[:, None, None] * getattr(family, "reach", 9.0)
        x[:, 1:, 1:] += grid * u - (x[:, 1:, 1:] @ u)[..., None] * u
        ideal = instance.known(x) + family.scale * family.hidden_along(instance.secret, x)[..., None] * w
        off = np.linalg.norm(instance.layer(x) - ideal, axis=-1).max()
        assert off <= instance.allowed_error
        assert instance.realisation_error < 1e-11

    def test_hermite_coefficients_and_norm(self, family):
        for k in range(6):
            h = normal_mean(
                lambda s, k=k: family.link(s) * eval_hermitenorm(k, s) / math.sqrt(math.factorial(k))
            )
            assert family.hermite[k] == pytest.approx(h, abs=1e-12)
        about = normal_mean(lambda s: family.link(s) ** 2)
        assert family.scale == pytest.approx(math.sqrt(2 * about), rel=1e-9)
        x = family.inputs.sample(40_000, rng=0)
        squares = (family.hidden_along(np.arange(1, family.dim), x) ** 2).sum(axis=1)
        assert abs(squares.mean() - 1) < 4 * squares.std() / 200

    def test_mehler(self, family):
        rho = np.array([-0.9, -0.5, 0.3, 0.8])
        np.testing.assert_allclose(
            family.correlation(rho),
            np.polynomial.polynomial.polyval(rho, family.weights),
            atol=2e-6 + abs(1 - family.weights.sum()) * 0.9**400,
        )
        v, other = np.array([3, 4, 0, 0]), np.array([4, 3, 0, 0])  # rho = 24/25
        v, other = (np.pad(one, (0, family.dim - 5)) for one in (v, other))
        x = family.inputs.sample(100_000, rng=3)
        products = np.sum(family.hidden_along(v, x) * family.hidden_along(other, x), axis=1)
        assert abs(products.mean() - family.correlation(np.array(0.96))) < 4 * products.std() / math.sqrt(1e5)

    def test_the_bound_is_the_largest_eigenvalue_on_the_sphere(self, family):
        """Funk and Hecke at degrees 0 to 3, by numerical integration over the inner product."""
        n = family.dim - 1
        weight = quad(lambda r: (1 - r * r) ** ((n - 3) / 2), -1, 1)[0]
        legendre = (
            lambda r: 1.0,
            lambda r: r,
            lambda r: (n * r * r - 1) / (n - 1),
            lambda r: ((n + 2) * r**3 - 3 * r) / (n - 1),
        )

        def eigenvalue(harmonic):
            def integrand(r):
                return float(family.correlation(np.array(r))) * harmonic(r) * (1 - r * r) ** ((n - 3) / 2)

            return quad(integrand, -1, 1, limit=200)[0] / weight

        found = max(map(eigenvalue, legendre))
        assert family.mean_square == pytest.approx(found, rel=1e-2)
        assert family.mean_square > found * (1 - 1e-6)


def test_the_bound_covers_the_end_of_the_wave():
    """Beyond its range the layer is about sign(s), which degree 1 sees; the wave alone has e^-158 there."""
    family = PeriodicFamily(dim=1000)
    s = np.linspace(9, 40, 100_001)
    density = np.exp(-(s**2) / 2) / math.sqrt(2 * math.pi)
    difference = -family.link(s)
    for t, c in zip(family.thresholds, family.coefficients, strict=True):
        difference += c * np.tanh(family.beta * (s - t))
    share = (2 * np.trapezoid(difference * s * density, s)) ** 2 / family.variance
    assert 1e-60 < share / 999 < family.mean_square
    assert 1e12 * family.weights[1] < share < family.beyond
    assert family.mean_square == pytest.approx(family.beyond / 999, rel=2e-9, abs=0)
    numbered = PeriodicFamily(dim=1000, bits=24)
    # the query is the sum of all coordinates
    assert float(numbered.largest_eigenvalue) > numbered.secrets.size * share * 24 / 999


def test_numbered_directions_are_those_of_the_curve():
    family = PeriodicFamily(dim=8, bits=2)
    x = family.inputs.sample(20_000, rng=1)
    first = family.hidden(0, x)
    for number in (1, 6, 20):
        products = (first * family.hidden(number, x)).sum(axis=1)
        assert abs(products.mean() - family.correlations(0)[number]) < 4 * products.std() / math.sqrt(2e4)
    gram = np.stack([family.correlations(number) for number in range(21)])
    assert float(family.largest_eigenvalue) == pytest.approx(np.linalg.eigvalsh(gram)[-1], rel=1e-7)
    for oracle in ("reference", "honest"):
        point = measure_cell(CurveCell("exhaustive", 8, 2, 0.3, oracle, family=family.name))
        assert point.status == "found"
        assert point.cell.lower_bound <= point.queries <= 20


@pytest.mark.bad_input
@pytest.mark.parametrize("secret", [[0] * 5, [1] * 4, [0.5] * 5, [1 << 50, 0, 0, 0, 0]])
def test_what_is_no_direction(secret):
    with pytest.raises(ValueError, match="whole numbers"):
        PeriodicFamily(dim=6).instance(secret=secret)
    with pytest.raises(ValueError, match="ones"):
        PeriodicFamily(dim=6, bits=3).instance(secret=[1, 1, 0, 0, 0])
    with pytest.raises(ValueError, match="numbers only"):
        PeriodicFamily(dim=6).instance(3)


def test_at_a_fixed_frequency_what_degree_one_sees_does_not_depend_on_the_dimension():
    shares = [
        family.hermite[1] ** 2 / family.variance for family in (PeriodicFamily(dim=8), PeriodicFamily(dim=64))
    ]
    assert shares[0] == shares[1] == pytest.approx(8e-67, rel=0.05)
    for dim in (5, 17):
        family = PeriodicFamily.with_growing_frequency(dim=dim)
        assert family.gamma >= 2 * math.sqrt(family.dim - 1)
