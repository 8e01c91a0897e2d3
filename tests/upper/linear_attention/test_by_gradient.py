"""Adam on linear attention: its gradient, where it matches the regression, and where it cannot."""

import sys

import numpy as np
import pytest

from upper.linear_attention import LinearAttention, by_gradient, make_linear_attention
from upper.linear_attention.by_gradient import train_linear_attention


def _data(heads=2, d=3, outputs=3, size=72, average=False, seed=0):
    model = make_linear_attention(heads=heads, dim=d, outputs=outputs, average=average, rng=seed)
    x = np.random.default_rng(seed + 1).standard_normal((size, 6, d))
    return model, x, model(x)


def test_the_gradient_is_the_derivative_of_the_loss():
    torch = pytest.importorskip("torch")
    _, x, y = _data(outputs=2)
    rng = np.random.default_rng(2)
    v = torch.from_numpy(rng.standard_normal((4, 2, 3))).requires_grad_()
    q = torch.from_numpy(rng.standard_normal((4, 3, 3))).requires_grad_()
    gram, z, labels = (
        torch.from_numpy(part) for part in (np.matmul(x.transpose(0, 2, 1), x), x[:, -1].copy(), y)
    )
    wrong = torch.einsum("hab,nbc,hce,ne->na", v, gram, q, z) - labels
    (wrong.square().mean() / 2).backward()
    with torch.no_grad():
        error, v_gradient, q_gradient = by_gradient._gradient(v, q, gram, z, labels)
    assert float(error) == pytest.approx(float(wrong.detach().square().mean().sqrt()))
    np.testing.assert_allclose(v_gradient.numpy(), v.grad.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q_gradient.numpy(), q.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("average", [False, True])
def test_what_is_learned_is_the_model_in_its_own_units(average):
    pytest.importorskip("torch")
    model, x, y = _data(heads=1, d=2, outputs=1, average=average)
    fit = train_linear_attention(x, 1e6 * y, heads=1, steps=800, learning_rate=0.05, average=average, rng=4)
    fresh = np.random.default_rng(5).standard_normal((20, 9, 2))  # of another length
    np.testing.assert_allclose(fit.predict(fresh), 1e6 * model(fresh), rtol=1e-5, atol=1.0)
    assert fit.predict.average is average
    assert isinstance(fit.predict, LinearAttention)


def test_without_torch_the_extra_is_named(monkeypatch):
    _, x, y = _data()
    monkeypatch.setattr(by_gradient, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        train_linear_attention(x, y, heads=2)


def test_a_rate_that_is_too_large_is_a_sentence():
    pytest.importorskip("torch")
    _, x, y = _data()
    with pytest.raises(ValueError, match="lower the learning rate"):
        train_linear_attention(x, y, heads=2, steps=200, learning_rate=1e200, rng=10)


def test_the_same_seed_gives_the_same_model():
    pytest.importorskip("torch")
    _, x, y = _data()
    one, two, other = (train_linear_attention(x, y, heads=2, steps=100, rng=rng) for rng in (7, 7, 8))
    np.testing.assert_array_equal(one.predict.v, two.predict.v)
    np.testing.assert_array_equal(one.predict.q, two.predict.q)
    assert np.any(other.predict.v != one.predict.v)
