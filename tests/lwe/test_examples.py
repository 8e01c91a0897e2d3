import cloudpickle
import numpy as np
import pytest

from lower import load_instance, save_instance
from lwe.distributions import CentredBinomial, DiscreteGaussian, Flips
from lwe.examples import noisy_examples, samples_from_examples
from lwe.families import make_lwr_instance
from lwe.heads import kept_range
from lwe.parameters import LWEParameters, covariate_form, rounded

SIZES = [
    {"secret_dim": 8, "modulus": 16, "levels": 2},
    {"secret_dim": 6, "modulus": 9, "levels": 4, "matrix": "ternary"},
    {"secret_dim": 4, "modulus": 16, "levels": 4, "matrix": "gadget"},
    {"secret_dim": 9, "modulus": 2, "levels": 2},
]
NOISES = {2: Flips(0.3), 9: DiscreteGaussian(1.0), 16: CentredBinomial(3)}


def parameters_of(size, **changes):
    names = {"secret_dim": "n", "modulus": "q", "levels": "p"}
    return LWEParameters(**{names.get(name, name): value for name, value in size.items()}, **changes)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("deviations", [None, 2.0])
def test_noisy_labels_are_the_rounded_noisy_inner_product_in_both_rows(size, deviations):
    noise = NOISES[size["modulus"]]
    instance = make_lwr_instance(**size, noise=noise, rng=0, deviations=deviations)
    x, y = noisy_examples(instance, rng=5).draw(4000)
    assert y.shape == x.shape
    clean = instance.layer(x)
    on = x[:, 0, 0] != x[:, 1, 0]
    np.testing.assert_array_equal(y[~on], clean[~on])
    np.testing.assert_array_equal(y[:, :, 1:], clean[:, :, 1:])
    # samples_from_examples holds both rows to the same whole label in range
    parameters = parameters_of(size, Xe=noise)
    noisy = samples_from_examples(x, y, parameters)
    own = samples_from_examples(x, clean, parameters)
    # the same errors, drawn again: the inputs come first from the same stream
    rng = np.random.default_rng(5)
    np.testing.assert_array_equal(x, instance.inputs.sample(4000, rng=rng))
    errors = noise.draw(4000, parameters.q, rng=rng)[on]
    form = covariate_form(instance.secret, parameters)
    a = (x[on, 0, 1:] != x[on, 1, 1:]).astype(int)
    if parameters.matrix == "ternary":
        a *= (x[on, 0, 1:] * x[on, 0, :1]).astype(int)
    products = a @ form
    if deviations is not None:
        held = np.clip(products, *kept_range(form, parameters.matrix, deviations))
        assert np.any(held != products) or parameters.q == 2  # two deviations are all of some parities
        products = held
    np.testing.assert_array_equal(own.labels, rounded(products, parameters.q, parameters.p))
    np.testing.assert_array_equal(noisy.labels, rounded(products + errors, parameters.q, parameters.p))
    assert np.any(noisy.labels != own.labels)


def test_noisy_examples_split_count_and_go_to_other_processes(tmp_path):
    instance = make_lwr_instance(secret_dim=5, modulus=8, levels=8, noise=CentredBinomial(1), rng=0)
    save_instance(tmp_path / "noisy.safetensors", instance)
    again = load_instance(tmp_path / "noisy.safetensors")
    oracle, other = noisy_examples(instance, rng=1), noisy_examples(again, rng=1)
    other = cloudpickle.loads(cloudpickle.dumps(other))
    for one, two in zip([oracle, *oracle.split(2)], [other, *other.split(2)], strict=True):
        for mine, its in zip(one.draw(200), two.draw(200), strict=True):
            np.testing.assert_array_equal(mine, its)
    assert oracle.drawn == 600


def test_layers_of_a_small_slope_need_their_allowed_error():
    instance = make_lwr_instance(secret_dim=5, modulus=8, levels=2, rng=0, beta=3.0)
    x = instance.inputs.sample(300, rng=0)
    parameters = LWEParameters(5, 8, 2)
    with pytest.raises(ValueError, match="up to 1e-06, are needed"):
        samples_from_examples(x, instance.layer(x), parameters)
    samples = samples_from_examples(x, instance.layer(x), parameters, allowed_error=instance.allowed_error)
    np.testing.assert_array_equal(samples.labels, rounded(samples.public @ instance.secret, 8, 2))
