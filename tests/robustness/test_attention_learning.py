"""Examples, ground truth and errors of `attention`, asked with what a user may give by mistake."""

import numpy as np
import pytest
from attention_makers import a_layer, an_oracle, layer, outputs, plain, some_inputs
from fuzzing import (
    Argument,
    Given,
    Subject,
    anything,
    array,
    assert_finite,
    fixed,
    made,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import attention
from attention import (
    AttentionLayer,
    BooleanInputs,
    ExampleOracle,
    GroundTruth,
    relative_error,
)


def oracle_is_right(result, given):
    x, y = result.draw(2)
    assert x.shape == y.shape == (2, result.k, result.d)
    assert_finite((x, y))


def served_is_right(result, given):
    x, y = result.draw(len(given["x"]))
    np.testing.assert_allclose(x, plain(given["x"]), rtol=1e-2)
    np.testing.assert_allclose(y, plain(given["y"]), rtol=1e-2)
    assert_finite((x, y))


def error_is_right(result, given):
    predicted, target = plain(given["predicted"]), plain(given["target"])
    known = 0 if given.get("known") is None else plain(given["known"])
    assert isinstance(result, float)
    assert not result < 0
    # in a wider type, in which nothing here over- or underflows
    predicted, target, known = (np.asarray(one, dtype=np.longdouble) for one in (predicted, target, known))
    wanted = np.sqrt(((predicted - target) ** 2).sum() / ((target - known) ** 2).sum())
    if wanted < 1e300:
        assert result == pytest.approx(float(wanted), rel=1e-9)
    else:
        assert result > 1e299 or np.isnan(result)
    assert np.isnan(result) <= np.isnan(predicted).any()


def drawn_is_right(result, given):
    """Noise-free examples are the layer's own outputs."""
    (x, y), n = result, int(given["n"])
    assert x.shape == y.shape == (n, 2, 3)
    np.testing.assert_allclose(y, layer()(x), rtol=1e-12, atol=1e-12)


def streams_are_right(result, given):
    """As many as workers, and no two alike."""
    drawn = [one.draw(30)[0].tobytes() for one in result]
    assert len(set(drawn)) == len(drawn) == int(given["workers"])


def truth_is_right(result, given):
    target = given["layer"]
    np.testing.assert_allclose(result.y, target(np.asarray(result.x, dtype=float)), rtol=1e-9, atol=1e-300)
    if given["known"] is None:
        assert result.y_known is None
    else:
        np.testing.assert_allclose(result.y_known, given["known"](result.x), atol=1e-12)


def measures_are_right(result, given):
    """The zero predictor has error 1; without one the layer's own outputs are measured."""
    assert all(np.isfinite(value) and value >= 0 for value in result.values())
    fitted, truth = given["fitted"], given["truth"]
    if given["predict"] is np.zeros_like:
        assert result["relative_error"] == pytest.approx(1)
    elif fitted is not None:
        assert result["relative_error"] == pytest.approx(relative_error(fitted(truth.x), truth.y), abs=1e-12)


def wide(array):
    return plain(array).astype(np.longdouble)


def parameters_are_right(result, given):
    """|Theta^_i - Theta_i| / |Theta_i| of the heads that were matched; of a zero head the absolute error."""
    fitted, truth = (
        {"theta": one, "w": one} if not hasattr(one, "theta") else {"theta": one.theta, "w": one.w}
        for one in (given["fitted"], given["truth"])
    )
    assert sorted(result.matching.tolist()) == list(range(len(result.theta)))
    for name in ("theta", "w"):
        ours, wanted = wide(fitted[name])[result.matching], wide(truth[name])
        size = np.sqrt((wanted**2).sum(axis=(1, 2)))
        errors = np.sqrt(((ours - wanted) ** 2).sum(axis=(1, 2))) / np.where(size > 0, size, 1)
        usable = errors < 1e300
        np.testing.assert_allclose(
            getattr(result, name)[usable], errors[usable].astype(float), rtol=1e-3, atol=1e-9
        )


def record_is_right(result, given):
    """Examples drawn since, the steps in their order, and both in the fit."""
    oracle = given["oracle"]
    result.step("one", found=2)
    oracle.draw(3)
    result.step("two", predict=np.zeros_like)
    fit = result.fit(attention.Outcome.EXACT, predict=np.zeros_like)
    assert [step.name for step in fit.trace] == ["one", "two"]
    assert [step.examples for step in fit.trace] == [0, 3]
    assert fit.trace[0].measures["found"] == 2
    assert fit.examples_used == result.examples == 3
    assert 0 <= fit.trace[0].seconds <= fit.trace[1].seconds <= fit.seconds
    if given["truth"] is not None:
        assert fit.trace[1].measures["relative_error"] == pytest.approx(1)


def measured(truth, predict, fitted):
    return truth.measure(predict=predict, layer=fitted)


SUBJECTS = [
    Subject(
        "attention.ExampleOracle",
        ExampleOracle,
        {"target": a_layer(), "inputs": some_inputs(), "noise": real(0.0, 1.0), "rng": seed()},
        right=oracle_is_right,
    ),
    Subject(
        "attention.ExampleOracle.from_arrays",
        ExampleOracle.from_arrays,
        outputs("x", "y"),
        right=served_is_right,
    ),
    Subject(
        "attention.ExampleOracle.draw",
        lambda oracle, n: oracle.draw(n),
        {"oracle": Argument(an_oracle().sane, an_oracle().sane), "n": whole(0, 5)},
        right=drawn_is_right,
    ),
    Subject(
        "attention.ExampleOracle.split",
        lambda oracle, workers: oracle.split(workers),
        {"oracle": Argument(an_oracle().sane, an_oracle().sane), "workers": whole(1, 5)},
        right=streams_are_right,
    ),
    Subject(
        "attention.GroundTruth",
        GroundTruth,
        lambda size: {
            "layer": a_layer(size.m, size.d),
            "x": array((size.n, size.k, size.d), torch=False),
            "known": anything(None),
        },
        right=truth_is_right,
    ),
    Subject(
        "attention.GroundTruth.draw",
        GroundTruth.draw,
        {"layer": a_layer(), "inputs": some_inputs(), "n": whole(), "known": anything(None), "rng": seed()},
        right=truth_is_right,
    ),
    Subject(
        "attention.GroundTruth.measure",
        measured,
        {
            "truth": Argument(
                *[st.just(Given("<truth>", lambda: GroundTruth.draw(layer(), BooleanInputs(2, 3), 5, rng=0)))]
                * 2
            ),
            "predict": anything(fixed(np.zeros_like, "<zero>")),
            "fitted": a_layer(),
        },
        right=measures_are_right,
        words=("layer", "outputs"),
    ),
    Subject(
        "attention.Recorder",
        attention.Recorder,
        {"oracle": an_oracle(), "truth": anything(None), "progress": anything(None)},
        right=record_is_right,
    ),
    Subject(
        "attention.check_budget",
        attention.check_budget,
        {
            "learner": made(lambda: __import__("upper").Newton(m=1, examples=10**4), "<Newton>"),
            "oracle": an_oracle(),
        },
    ),
    Subject(
        "attention.draw_examples",
        attention.draw_examples,
        {"oracle": an_oracle(), "n": whole(1, 5)},
        right=drawn_is_right,
    ),
    Subject(
        "attention.parameter_errors",
        attention.parameter_errors,
        lambda size: {"fitted": a_layer(size.m, size.d), "truth": a_layer(size.m, size.d)},
        right=parameters_are_right,
    ),
    Subject(
        "attention.parameter_errors.of any entries",
        lambda fitted, truth: attention.parameter_errors(
            AttentionLayer(theta=fitted, w=fitted), AttentionLayer(theta=truth, w=truth)
        ),
        lambda size: {name: array((size.m, size.d, size.d)) for name in ("fitted", "truth")},
        words=("theta", "w"),
        right=parameters_are_right,
    ),
    Subject(
        "attention.relative_error",
        attention.relative_error,
        outputs("predicted", "target"),
        right=error_is_right,
        words=("outputs",),
    ),
    Subject(
        "attention.unknown_part_error",
        attention.unknown_part_error,
        outputs("predicted", "target", "known"),
        right=error_is_right,
        words=("outputs",),
        refuses=True,  # a target that is its known part has no such error
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
