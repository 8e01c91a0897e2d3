"""Adam on linear attention: its gradient, where it matches the regression, and where it cannot."""

import sys

import numpy as np
import pytest

from upper.linear_attention import LinearAttention, by_gradient, make_linear_attention, regress
from upper.linear_attention.by_gradient import compare_with_exact, train_linear_attention


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
        error, v_gradient, q_gradient = by_gradient._gradient(torch, v, q, gram, z, labels)
    assert float(error) == pytest.approx(float(wrong.detach().square().mean().sqrt()))
    np.testing.assert_allclose(v_gradient.numpy(), v.grad.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(q_gradient.numpy(), q.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_adam_matches_the_regression_when_the_number_of_heads_is_known():
    pytest.importorskip("torch")
    rows = compare_with_exact(
        d=4, heads=2, student_heads=(2, 1), steps=1000, learning_rate=0.1, starts=1, fresh=500, rng=1
    )
    exact, known, few = rows
    assert exact.relative_error < 1e-13
    assert known.matches
    assert not few.matches
    assert few.relative_error > 0.1
    assert (exact.ratio, known.ratio) == (1.0, known.seconds / exact.seconds)
    assert known.ratio_to_match is not None
    assert known.ratio_to_match <= known.ratio
    assert few.ratio_to_match is None


def test_students_know_the_number_of_heads_or_have_twice_as_many_or_one_too_few():
    pytest.importorskip("torch")
    for heads, students in ((2, [None, 2, 4, 1]), (1, [None, 1, 2])):
        rows = compare_with_exact(d=2, heads=heads, steps=3, starts=1, fresh=20, rng=2)
        assert [row.student_heads for row in rows] == students


def test_another_start_where_the_last_did_not_match():
    pytest.importorskip("torch")
    began = []
    compare_with_exact(
        d=2, heads=2, student_heads=(1,), steps=4, starts=3, fresh=20, rng=3, progress=began.append
    )
    assert [step.name for step in began] == 3 * [f"Step {step}" for step in range(1, 5)]


def test_where_it_matches_is_said():
    pytest.importorskip("torch")
    exact, few, *_ = compare_with_exact(d=2, heads=2, steps=20, student_heads=(1,), starts=1, fresh=50, rng=3)
    assert str(exact).startswith("Regression, told nothing of the heads: relative error")
    assert str(few).startswith("Adam with 1 head (H = 2 not known) does not match the regression to 1e-6:")
    known = by_gradient.Comparison(8, 4, 1152, 4, 1e-14, 5.0, 500.0, 100.0)
    assert str(known) == (
        "Adam with 4 heads (H known) matches the regression to 1e-6: relative error 1.0e-14 on fresh inputs in 5e+02 "
        "times its seconds; on the examples it was below 1e-6 after 1e+02 times."
    )


@pytest.mark.parametrize(("error", "matches"), [(9e-7, True), (1e-6, False), (5e-4, False), (0.5, False)])
def test_it_is_said_to_match_where_the_number_says_so(error, matches):
    # below 1e-6 on the examples is no match
    row = by_gradient.Comparison(8, 4, 1152, 4, error, 5.0, 500.0, 100.0)
    assert row.matches is matches
    assert ("does not match the regression to 1e-6" in str(row)) is not matches


@pytest.mark.parametrize("average", [False, True])
def test_what_is_learned_is_the_model_in_its_own_units(average):
    pytest.importorskip("torch")
    model, x, y = _data(heads=1, d=2, outputs=1, average=average)
    fit = train_linear_attention(x, 1e6 * y, heads=1, steps=800, learning_rate=0.05, average=average, rng=4)
    fresh = np.random.default_rng(5).standard_normal((20, 9, 2))  # of another length
    np.testing.assert_allclose(fit.model(fresh), 1e6 * model(fresh), rtol=1e-5, atol=1.0)
    assert fit.model.average is average
    assert isinstance(fit.model, LinearAttention)


def test_the_curve_is_of_the_examples_and_ends_with_the_model():
    pytest.importorskip("torch")
    _, x, y = _data()
    seen = []
    fit = train_linear_attention(x, y, heads=2, steps=300, rng=6, progress=seen.append)
    assert tuple(seen) == fit.curve
    assert fit.steps == 300
    assert [step.name for step in fit.curve[:2]] == ["Step 3", "Step 6"]
    assert fit.curve[-1].measures["relative_error"] < fit.curve[0].measures["relative_error"]
    # the last look is before the last step, whose rate is next to zero
    left = np.linalg.norm(fit.model(x) - y) / np.linalg.norm(y)
    assert fit.error == pytest.approx(left, rel=1e-2)


def test_batches_and_the_same_seed():
    pytest.importorskip("torch")
    _, x, y = _data()
    one, two = (train_linear_attention(x, y, heads=2, steps=100, batch=16, rng=7) for _ in range(2))
    np.testing.assert_array_equal(one.model.v, two.model.v)
    np.testing.assert_array_equal(one.model.q, two.model.q)
    whole = train_linear_attention(x, y, heads=2, steps=100, rng=7)
    assert np.any(whole.model.v != one.model.v)


def test_time_ends_it_too():
    pytest.importorskip("torch")
    _, x, y = _data()
    fit = train_linear_attention(x, y, heads=2, steps=10**9, seconds=0.2, rng=8)
    assert 1 <= fit.steps < 10**6
    assert len(fit.curve) == 1


def test_no_student_of_few_heads_beats_the_regression():
    pytest.importorskip("torch")
    model, x, y = _data(heads=3, d=3)
    fit = train_linear_attention(x, y, heads=1, steps=400, rng=9)
    assert np.linalg.norm(regress(x, y)(x) - y) < 1e-9 < np.linalg.norm(fit.model(x) - y)
    assert fit.model.heads < model.heads


def test_without_torch_the_extra_is_named(monkeypatch):
    _, x, y = _data()
    monkeypatch.setattr(by_gradient, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'attention-bounds\[torch\]'"):
        train_linear_attention(x, y, heads=2)
    with pytest.raises(ImportError, match="needs PyTorch"):
        compare_with_exact(d=3, heads=2)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"heads": 0}, "heads is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"batch": 0}, "batch is 0"),
        ({"start_scale": -1.0}, "start_scale"),
        ({"seconds": 0.0}, "seconds"),
        ({"x": np.ones((2, 3))}, "x has shape"),
        ({"y": np.ones((5, 3))}, "y has shape"),
        ({"x": np.full((72, 6, 3), np.nan)}, "NaN"),
        ({"y": np.zeros((72, 3))}, "zero everywhere"),
    ],
    ids=str,
)
def test_bad_input_is_a_sentence(changes, said):
    _, x, y = _data()
    with pytest.raises(ValueError, match=said):
        train_linear_attention(**{"x": x, "y": y, "heads": 2} | changes)


def test_a_rate_that_is_too_large_is_a_sentence():
    pytest.importorskip("torch")
    _, x, y = _data()
    with pytest.raises(ValueError, match="lower the learning rate"):
        train_linear_attention(x, y, heads=2, steps=200, learning_rate=1e200, rng=10)
