"""Every public function and learner of `upper`, called with what a user may give it by mistake."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from fuzzing import (
    Argument,
    Given,
    Sizes,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    missing_subjects,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st

import upper
import upper.baselines
import upper.linear_attention as linear
import upper.linear_attention.tasks as tasks
import upper.six_phase as phases
from attention import BooleanInputs, ExampleOracle, Fit, make_nice_layer

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import torch  # noqa: F401  (within a case it would count as that case's time and memory)

RNG = np.random.default_rng(0)


def layer(m=1, d=3):
    return make_nice_layer(heads=m, dim=d, rng=0)


def oracle(m=1, k=2, d=3):
    return ExampleOracle(layer(m, d), BooleanInputs(k, d), rng=0)


def only(make, label):
    """An argument that is never hostile: what the call is a method of."""
    return Argument(*[st.just(Given(label, make))] * 2)


ORACLE = made(oracle, "<oracle>")
# tokens and labels of an oracle whose layer has `m` heads
EXAMPLES = oracle(1, 2, 3).draw(40)


def given(values):
    return lambda rng, shape: (
        np.broadcast_to(values, shape).copy() if values.shape == shape else values.copy()
    )


X, Y = (array(one.shape, of=given(one), torch=False) for one in EXAMPLES)
THETA = array((1, 3, 3), torch=False)
OPTIONAL = anything(None)


# ------------------------------------------------------------------------------------------- what is right


def fit_is_right(result, arguments):
    assert isinstance(result, Fit)
    assert result.outcome.value.endswith(".")
    if result.layer is not None:
        assert_finite(result.layer)
    predicted = result.predict(np.ones((2, 2, 3)))
    assert predicted.shape == (2, 2, 3)
    assert np.isfinite(predicted).all()
    assert result.examples_used >= 0


def a_number(result, arguments):
    assert isinstance(result, int)
    assert result >= 0


def done(result, arguments):
    repr(result)


def regression_is_right(result, arguments):
    assert_finite(result.coefficients)
    assert 0 <= result.rank <= result.coefficients.shape[0]


def moment_is_right(result, arguments):
    assert_finite(result)
    np.testing.assert_allclose(result, result.T, atol=1e-9 * np.abs(result).max())


# ------------------------------------------------------------------------------------------- learners


def fields(**arguments):
    """The arguments of a learner, each tried, with little work where it is not."""
    return arguments


LEARNERS = {
    "upper.Newton": (
        upper.Newton,
        {
            "m": whole(1, 1),
            "examples": whole(40, 60),
            "work": whole(20, 40),
            "starts": whole(1, 1),
            "tolerance": real(0.0, 1e-3),
            "inner_steps": whole(5, 10),
            "start": choice("random", "spectral"),
            "engine": choice("numpy"),
            "device": OPTIONAL,
        },
    ),
    "upper.Newton.of given rank": (
        upper.Newton,
        {
            "m": whole(1, 1),
            "examples": whole(40, 60),
            "work": whole(20, 40),
            "rank": whole(1, 2),
            "engine": choice("numpy"),
        },
    ),
    "upper.Newton.of unknown heads": (
        upper.Newton,
        {"m": choice("auto"), "examples": whole(40, 60), "work": whole(20, 40), "engine": choice("numpy")},
    ),
    "upper.LBFGS": (
        upper.LBFGS,
        {
            "m": whole(1, 1),
            "examples": whole(40, 60),
            "work": whole(10, 20),
            "starts": whole(1, 1),
            "tolerance": real(0.0, 1e-3),
            "history": whole(5, 10),
        },
    ),
    "upper.SGD": (
        upper.SGD,
        {
            "m": whole(1, 1),
            "examples": whole(80, 90),
            "work": whole(5, 10),
            "batch": whole(8, 8),
            "learning_rate": real(0.01, 0.1),
            "momentum": real(0.0, 0.9),
            "schedule": choice("cosine", "linear"),
            "tolerance": real(0.0, 1e-3),
            "dtype": choice("float64", "float32"),
            "reused": whole(20, 30),
        },
    ),
    "upper.FrozenAttention": (
        upper.FrozenAttention,
        {"heads": whole(1, 4), "examples": whole(20, 30), "sigma": real()},
    ),
    "upper.FrozenAttention.of given heads": (
        upper.FrozenAttention,
        {"examples": whole(20, 30), "theta": THETA},
    ),
    "upper.OneGradientStep": (
        upper.OneGradientStep,
        {"examples": whole(20, 30), "learning_rate": real()},
    ),
    "upper.LinearBaseline": (upper.LinearBaseline, {"examples": whole(20, 30)}),
    "upper.KnownPart": (upper.KnownPart, {"known": anything(fixed(np.zeros_like, "<zero>"))}),
    "upper.LinearAttentionLearner": (
        upper.LinearAttentionLearner,
        {
            "features": choice("plain", "aug", "cent"),
            "examples": whole(200, 250),
            "least_norm": choice(True, False),
        },
    ),
    "upper.SixPhase": (
        upper.SixPhase,
        {
            "m": whole(1, 2),
            "examples": whole(600, 700),
            "work": whole(5, 10),
            "tolerance": real(1e-3, 1e-2),
            "delta": anything(0.01),
            "jobs": choice(1),
        },
    ),
    "upper.SixPhase.of the paper": (
        upper.SixPhase,
        {
            "m": whole(1, 2),
            "mode": choice("paper"),
            "examples": whole(3000, 4000),
            "rounds": whole(1, 1),
            "accept": real(0.05, 0.1),
            "body": choice("ellipsoid", "polytope"),
            "radius": real(4.0, 8.0),
            "margin_over": choice("body", "proxy"),
            "net_over": choice("hull", "span"),
            "delta": real(0.01, 0.1),
            "jobs": choice(1),
            "work": whole(5, 10),
            "tolerance": real(0.1, 0.2),
        },
    ),
}
if TORCH:
    LEARNERS |= {
        "upper.Adam": (
            upper.Adam,
            {
                "m": whole(1, 1),
                "examples": whole(80, 90),
                "work": whole(5, 10),
                "batch": whole(8, 8),
                "learning_rate": real(0.01, 0.1),
                "tolerance": real(0.0, 1e-3),
                "schedule": choice("cosine", "linear"),
                "power": real(),
                "beta1": real(0.5, 0.9),
                "beta2": real(0.5, 0.9),
                "dtype": choice("float32", "float64"),
                "reused": whole(20, 30),
                "device": choice("cpu"),
            },
        ),
        "upper.TunedAdam": (
            upper.TunedAdam,
            {
                "m": whole(1, 1),
                "examples": whole(80, 90),
                "work": whole(20, 30),
                "batch": whole(8, 8),
                "learning_rates": anything((0.01,)),
                "schedules": anything(("cosine",)),
                "lengths": anything((5,)),
                "dtypes": anything(("float32",)),
                "power": real(),
                "beta1": real(0.5, 0.9),
                "beta2": real(0.5, 0.9),
                "reused": whole(20, 30),
                "tolerance": real(0.0, 1e-3),
                "device": choice("cpu"),
            },
        ),
    }

# learners whose work is asked for in numbers that may be huge: a minute of work is no hang
NO_HANG = {
    "work",
    "starts",
    "rounds",
    "inner_steps",
    "lengths",
    "steps",
    "restarts",
    "iterates",
    "draws",
    "samples",
}


def bounded(arguments, *more):
    """The same arguments, amounts of work never huge: who asks for 10^12 passes gets them."""
    few = st.sampled_from([fixed(one) for one in (0, -1, True, None, "3", 1.5, np.int8(3), 2, [])])
    return {
        name: Argument(one.sane, few) if name in NO_HANG or name in more else one
        for name, one in arguments.items()
    }


def learners():
    for name, (kind, arguments) in LEARNERS.items():
        if "." not in name.removeprefix("upper."):
            yield Subject(name, kind, arguments, right=done, repeatable=False)
        yield Subject(
            f"{name}.fit of any settings",
            lambda kind=kind, **settings: kind(**settings).fit(oracle(), rng=0),
            bounded(arguments, "examples" if "LinearAttention" in name else ""),
            right=fit_is_right,
            words=("examples", "layer", "matrices", "features", "batch", "dimensions", "known"),
            share=0.4,
            seconds=6.0,
            repeatable=False,
            refuses="of the paper" in name,
        )
        yield Subject(
            f"{name}.fit",
            lambda own, oracle, rng, truth, progress: own.fit(
                oracle, rng=rng, truth=truth, progress=progress
            ),
            {
                "own": only(lambda name=name: SETTINGS[name](), f"<{name}>"),
                "oracle": ORACLE,
                "rng": seed(),
                "truth": OPTIONAL,
                "progress": OPTIONAL,
            },
            right=fit_is_right,
            share=0.3,
            seconds=6.0,
            repeatable=False,
        )


SETTINGS = {
    "upper.Newton": lambda: upper.Newton(m=1, examples=40, work=30, engine="numpy"),
    "upper.Newton.of given rank": lambda: upper.Newton(m=1, rank=1, examples=40, work=30, engine="numpy"),
    "upper.Newton.of unknown heads": lambda: upper.Newton(m="auto", examples=40, work=30, engine="numpy"),
    "upper.LBFGS": lambda: upper.LBFGS(m=1, examples=40, work=20),
    "upper.SGD": lambda: upper.SGD(m=1, work=5, batch=8),
    "upper.FrozenAttention": lambda: upper.FrozenAttention(heads=2),
    "upper.FrozenAttention.of given heads": lambda: upper.FrozenAttention(theta=np.ones((1, 3, 3))),
    "upper.OneGradientStep": lambda: upper.OneGradientStep(examples=20),
    "upper.LinearBaseline": upper.LinearBaseline,
    "upper.KnownPart": upper.KnownPart,
    "upper.LinearAttentionLearner": upper.LinearAttentionLearner,
    "upper.SixPhase": lambda: upper.SixPhase(m=1, examples=600, work=10),
    "upper.SixPhase.of the paper": lambda: upper.SixPhase(m=1, mode="paper", examples=2000, work=5),
    "upper.Adam": lambda: upper.Adam(m=1, work=5, batch=8),
    "upper.TunedAdam": lambda: upper.TunedAdam(m=1, work=20, batch=8, lengths=(5,), reused=30),
}


# ------------------------------------------------------------------------------------------- parts of learners


def iterates(make):
    """The first two iterates of a descent."""

    def call(**arguments):
        found = make(**arguments)
        return [iterate for iterate, _ in zip(found, range(2), strict=False)]

    return call


GENERATOR = anything(Given("<generator>", lambda: np.random.default_rng(0)))


def factors(size: Sizes):
    m, d = size.m, size.d
    r = min(2, d)
    return {
        name: array(shape)
        for name, shape in {"a": (m, d, r), "b": (m, d, r), "v": (m, d, r), "o": (m, r, d)}.items()
    }


UPPER = [
    Subject(
        "upper.counting_floor",
        upper.counting_floor,
        {"heads": whole(), "tokens": whole(), "dim": whole(2, 5), "rank": whole(1, 2)},
        right=a_number,
    ),
    Subject(
        "upper.choose_engine",
        upper.choose_engine,
        {"name": choice("auto", "numpy"), "device": OPTIONAL},
        right=done,
        words=("engine",),
    ),
    Subject("upper.FactoredHeads", upper.FactoredHeads, factors, right=done),
    Subject(
        "upper.random_factors",
        upper.random_factors,
        {"heads": whole(), "dim": whole(3, 5), "rank": whole(1, 3), "w_rank": whole(1, 3), "rng": seed()},
        right=lambda result, arguments: assert_finite((result.a, result.b, result.v, result.o)),
    ),
    Subject(
        "upper.read_tokens",
        upper.read_tokens,
        lambda size: {"x": array((size.n, size.k, size.d)), "theta": array((size.m, size.d, size.d))},
        right=lambda result, arguments: assert_finite(
            tuple(
                np.asarray(one.detach().float() if hasattr(one, "detach") else one, float) for one in result
            )
        ),
        words=("logits",),
    ),
    Subject(
        "upper.stack_projections",
        upper.stack_projections,
        lambda size: {"w": array((size.m, size.d, size.d))},
        right=done,
    ),
    Subject(
        "upper.cross_moment",
        upper.cross_moment,
        {"x": X, "y": Y, "directions": whole(1, 4), "rng": seed()},
        words=("tokens", "labels"),
    ),
    Subject(
        "upper.spectral_start",
        upper.spectral_start,
        {"x": X, "y": Y, "m": whole(1, 2), "rng": seed()},
        words=("tokens", "labels"),
    ),
    Subject(
        "upper.gauss_newton",
        iterates(upper.gauss_newton),
        {
            "x": X,
            "y": Y,
            "theta": THETA,
            "inner_steps": whole(3, 5),
            "tolerance": real(0.0, 1e-3),
            "rng": GENERATOR,
        },
        repeatable=False,
    ),
    Subject(
        "upper.factored_gauss_newton",
        iterates(upper.factored_gauss_newton),
        {
            "x": X,
            "y": Y,
            "start": made(lambda: upper.random_factors(heads=1, dim=3, rank=1, rng=0), "<factors>"),
            "inner_steps": whole(3, 5),
            "tolerance": real(0.0, 1e-3),
            "rng": GENERATOR,
        },
        repeatable=False,
    ),
    Subject(
        "upper.LinearPredictor.call",
        lambda own, x: own(x),
        {
            "own": only(lambda: upper.LinearPredictor(np.eye(3), np.eye(3)), "<predictor>"),
            "x": array((4, 2, 3), torch=False),
        },
    ),
    Subject(
        "upper.KnownPart.call",
        lambda own, oracle: own.fit(oracle),
        {"own": only(upper.KnownPart, "<known part>"), "oracle": ORACLE},
        right=done,
    ),
    Subject(
        "upper.baselines.regress_projections",
        upper.baselines.regress_projections,
        {"x": X, "y": Y, "theta": THETA, "ridges": anything((0.0, 0.1))},
    ),
    Subject(
        "upper.baselines.relative_loss",
        upper.baselines.relative_loss,
        {"flat": array((18,), torch=False), "x": X, "y": Y},
    ),
]


# ------------------------------------------------------------------------------------------- linear attention


def model(heads=1, d=2):
    return linear.make_linear_attention(heads=heads, dim=d, rng=0)


def tokens(size: Sizes):
    return {"x": array((size.n, size.k, size.d)), "average": choice(False, True)}


def plain(size: Sizes, *names):
    return {name: array((size.n, size.k, size.d), torch=False) for name in names}


def tensor_of(size: Sizes):
    return array((size.m, size.d, size.d, size.d), torch=False)


def regression():
    return linear.regress(RNG_X, RNG_Y)


RNG_X = np.random.default_rng(1).standard_normal((30, 3, 2))
RNG_Y = model()(RNG_X)
LX, LY = array(RNG_X.shape, of=given(RNG_X), torch=False), array(RNG_Y.shape, of=given(RNG_Y), torch=False)
MOMENT = np.random.default_rng(2).standard_normal((20, 6))
MOMENT = MOMENT.T @ MOMENT
MATRIX = array((6, 6), of=given(MOMENT), torch=False)
POPULATION = choice(*linear.POPULATIONS)
FILES: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    """A file that is read, and the folder that is written to."""
    folder = tmp_path_factory.mktemp("stored")
    linear.save_linear_attention(folder / "model.safetensors", model())
    FILES.update(model=folder / "model.safetensors", folder=folder)


LINEAR = [
    Subject(
        "upper.linear_attention.LinearAttention",
        linear.LinearAttention,
        lambda size: {
            "v": array((size.m, 2, size.d)),
            "q": array((size.m, size.d, size.d)),
            "average": choice(False, True),
        },
        right=done,
    ),
    Subject(
        "upper.linear_attention.LinearAttention.call",
        lambda own, x: own(x),
        lambda size: {
            "own": only(lambda: model(size.m, size.d), "<model>"),
            "x": array((size.n, size.k, size.d)),
        },
        right=done,
        words=("tokens", "queries"),
    ),
    Subject(
        "upper.linear_attention.make_linear_attention",
        linear.make_linear_attention,
        {"heads": whole(), "dim": whole(), "outputs": whole(), "average": choice(False, True), "rng": seed()},
    ),
    Subject("upper.linear_attention.feature_count", linear.feature_count, {"d": whole()}, right=a_number),
    Subject("upper.linear_attention.gram_pairs", linear.gram_pairs, {"d": whole()}, right=done),
    Subject("upper.linear_attention.pair_products", linear.pair_products, tokens, words=("tokens",)),
    Subject("upper.linear_attention.cubic_features", linear.cubic_features, tokens, words=("tokens",)),
    Subject("upper.linear_attention.prefix_features", linear.prefix_features, tokens, words=("tokens",)),
    Subject(
        "upper.linear_attention.cubic_kernel",
        linear.cubic_kernel,
        lambda size: plain(size, "x", "other"),
        words=("tokens",),
    ),
    Subject(
        "upper.linear_attention.tensor_from_features",
        linear.tensor_from_features,
        lambda size: {
            "coefficients": array((linear.feature_count(size.d), size.m), torch=False),
            "d": whole(size.d, size.d),
        },
    ),
    Subject(
        "upper.linear_attention.features_from_tensor",
        linear.features_from_tensor,
        lambda size: {"tensor": tensor_of(size)},
    ),
    Subject(
        "upper.linear_attention.symmetric_rank",
        linear.symmetric_rank,
        lambda size: {"tensor": tensor_of(size), "tolerance": real(1e-9, 1e-6)},
        right=a_number,
    ),
    Subject(
        "upper.linear_attention.fewest_heads_bound",
        linear.fewest_heads_bound,
        lambda size: {"tensor": tensor_of(size), "tolerance": real(1e-9, 1e-6), "rng": seed()},
        right=a_number,
    ),
    Subject(
        "upper.linear_attention.alternate",
        linear.alternate,
        lambda size: {
            "tensor": tensor_of(size),
            "heads": whole(1, 2),
            "steps": whole(2, 5),
            "tolerance": real(1e-9, 1e-6),
            "average": choice(False, True),
            "rng": seed(),
        },
        seconds=6.0,
        share=0.5,
    ),
    Subject(
        "upper.linear_attention.refine",
        linear.refine,
        {
            "tensor": array((2, 2, 2, 2), torch=False),
            "start": made(model, "<model>"),
            "steps": whole(1, 3),
            "tolerance": real(1e-9, 1e-6),
        },
        share=0.5,
    ),
    Subject(
        "upper.linear_attention.heads_of_tensor",
        linear.heads_of_tensor,
        lambda size: {"tensor": tensor_of(size), "average": choice(False, True)},
    ),
    Subject(
        "upper.linear_attention.fit_heads",
        linear.fit_heads,
        {
            "regression": made(regression, "<regression>"),
            "heads": OPTIONAL,
            "most": whole(1, 2),
            "tolerance": real(1e-9, 1e-6),
            "restarts": whole(1, 2),
            "average": OPTIONAL,
            "rng": seed(),
        },
        share=0.5,
        right=done,
    ),
    Subject(
        "upper.linear_attention.regress",
        linear.regress,
        {
            "x": LX,
            "y": LY,
            "method": choice("auto", "cholesky", "svd", "kernel"),
            "least_norm": choice(False, True),
            "rank": OPTIONAL,
            "average": choice(False, True),
            "memory": whole(2**29, 2**30),
        },
        right=regression_is_right,
        words=("labels", "features", "rows"),
    ),
    Subject(
        "upper.linear_attention.regress_features",
        linear.regress_features,
        {
            "phi": array((30, 6), torch=False),
            "y": array((30, 2), torch=False),
            "method": choice("auto", "cholesky", "svd", "kernel"),
            "least_norm": choice(False, True),
            "rank": OPTIONAL,
            "memory": whole(2**29, 2**30),
        },
        right=regression_is_right,
        words=("labels", "features"),
    ),
    Subject(
        "upper.linear_attention.regress_blocks",
        linear.regress_blocks,
        {
            "stream": made(lambda: lambda: [(np.ones((3, 6)), np.ones((3, 2)))], "<stream>"),
            "features": whole(6, 6),
            "outputs": whole(2, 2),
            "moments": OPTIONAL,
            "memory": whole(2**29, 2**30),
        },
        right=regression_is_right,
        words=("labels", "features"),
    ),
    Subject(
        "upper.linear_attention.FeatureMoments",
        linear.FeatureMoments,
        {"features": whole(), "outputs": whole(), "memory": whole(2**29, 2**30)},
        right=done,
    ),
    Subject(
        "upper.linear_attention.FeatureMoments.add",
        lambda x, y: linear.regress_moments(_added(x, y)),
        {"x": LX, "y": LY},
        right=regression_is_right,
        words=("labels", "features", "tokens"),
    ),
    Subject(
        "upper.linear_attention.regress_moments",
        linear.regress_moments,
        {"moments": made(lambda: _added(RNG_X, RNG_Y), "<moments>")},
        right=regression_is_right,
    ),
    Subject(
        "upper.linear_attention.require_memory",
        linear.require_memory,
        {"features": whole(), "memory": whole(2**29, 2**30)},
        right=done,
    ),
    Subject(
        "upper.linear_attention.feature_moment",
        linear.feature_moment,
        {"examples": LX, "average": choice(False, True), "memory": whole(2**29, 2**30)},
        right=moment_is_right,
        words=("tokens",),
    ),
    Subject(
        "upper.linear_attention.certify",
        linear.certify,
        {"data": MATRIX, "domain": MATRIX, "tolerance": real(1e-12, 1e-8)},
        right=done,
        words=("moment",),
    ),
    Subject(
        "upper.linear_attention.certify_examples",
        linear.certify_examples,
        {"x_data": LX, "x_domain": LX, "tolerance": real(1e-12, 1e-8), "average": choice(False, True)},
        right=done,
    ),
    Subject(
        "upper.linear_attention.another_minimiser",
        linear.another_minimiser,
        {
            "regression": made(regression, "<regression>"),
            "certificate": made(lambda: linear.certify_examples(RNG_X[:3], RNG_X), "<certificate>"),
            "scale": real(),
            "on_domain": choice(True),
            "rng": seed(),
        },
        right=regression_is_right,
    ),
    Subject(
        "upper.linear_attention.boolean_moment",
        linear.boolean_moment,
        {"d": whole(1, 3), "n": whole(1, 3), "constant": choice(False, True)},
        right=moment_is_right,
    ),
    Subject(
        "upper.linear_attention.gaussian_moment",
        linear.gaussian_moment,
        {"d": whole(1, 3), "n": whole(1, 3)},
        right=moment_is_right,
    ),
    Subject(
        "upper.linear_attention.gaussian_spectrum",
        linear.gaussian_spectrum,
        {"d": whole(3, 5), "n": whole(1, 3)},
    ),
    Subject(
        "upper.linear_attention.population_moment",
        linear.population_moment,
        {"tokens": POPULATION, "d": whole(2, 3), "n": whole(1, 3)},
        right=moment_is_right,
    ),
    Subject(
        "upper.linear_attention.exact_rank",
        linear.exact_rank,
        {"tokens": POPULATION, "d": whole(2, 3), "n": whole(1, 3)},
        right=a_number,
    ),
    Subject(
        "upper.linear_attention.token_dimension",
        linear.token_dimension,
        {"tokens": POPULATION, "d": whole(2, 3)},
        right=a_number,
    ),
    Subject(
        "upper.linear_attention.softmax_feature_count",
        linear.softmax_feature_count,
        {"kind": choice(*linear.SOFTMAX_KINDS), "d": whole()},
        right=a_number,
    ),
    Subject(
        "upper.linear_attention.softmax_features",
        linear.softmax_features,
        lambda size: {
            "x": array((size.n, size.k, size.d)),
            "kind": choice(*linear.SOFTMAX_KINDS),
            "every_row": choice(False, True),
        },
        words=("tokens",),
    ),
    Subject(
        "upper.linear_attention.softmax_rows",
        linear.softmax_rows,
        {
            "d": whole(2, 2),
            "k": whole(2, 2),
            "theta_norms": anything((1.0,)),
            "kinds": anything(("plain",)),
            "draws": whole(2, 2),
            "samples": whole(300, 300),
            "rng": seed(),
        },
        share=0.3,
        right=done,
        words=("theta_norm", "kind"),
    ),
    Subject(
        "upper.linear_attention.train_linear_attention",
        linear.train_linear_attention,
        {
            "x": LX,
            "y": LY,
            "heads": whole(1, 2),
            "steps": whole(2, 3),
            "learning_rate": real(0.01, 0.1),
            "batch": whole(5, 6),
            "start_scale": real(),
            "average": choice(False, True),
            "rng": seed(),
            "progress": OPTIONAL,
        },
        share=0.5,
        right=done,
        repeatable=False,
    ),
    Subject(
        "upper.linear_attention.compare_with_exact",
        linear.compare_with_exact,
        {
            "d": whole(2, 2),
            "heads": whole(1, 1),
            "n": whole(3, 3),
            "student_heads": anything([1]),
            "examples": whole(40, 40),
            "steps": whole(2, 3),
            "learning_rate": real(0.01, 0.1),
            "starts": whole(1, 1),
            "fresh": whole(10, 10),
            "rng": seed(),
            "progress": OPTIONAL,
        },
        share=0.3,
        right=done,
        words=("student",),
    ),
    Subject(
        "upper.linear_attention.blocks",
        linear.blocks,
        {"rows": whole(0, 5), "numbers_a_row": whole(0, 5)},
        right=done,
    ),
    Subject(
        "upper.linear_attention.save_linear_attention",
        linear.save_linear_attention,
        {
            "path": anything(Given("new", lambda: FILES["folder"] / "new.safetensors")),
            "model": made(model, "<model>"),
            "made": anything({"a": 1}),
        },
        right=done,
        also=(OSError,),
    ),
    Subject(
        "upper.linear_attention.load_linear_attention",
        linear.load_linear_attention,
        {"path": anything(Given("model", lambda: FILES["model"]))},
        right=done,
        words=("file",),
    ),
]
# amounts of work: who asks for 10^12 steps gets them
LINEAR = [
    Subject(
        **{
            **{name: getattr(one, name) for name in one.__dataclass_fields__},
            "arguments": bounded(one.arguments) if not callable(one.arguments) else one.arguments,
        }
    )
    for one in LINEAR
]


def _added(x, y):
    moments = linear.FeatureMoments(features=6, outputs=2)
    moments.add(x, y)
    return moments


# ------------------------------------------------------------------------------------------- six phases

P_ORACLE = made(lambda: oracle(2, 2, 3), "<oracle of 2 heads>")
SUM = np.asarray(layer(2, 3).w.sum(axis=0))
W = array((3, 3), of=given(SUM), torch=False)


def body():
    return phases.sculpt_affine_hull(oracle(2, 2, 3), SUM, wide=1, accept=0.2, examples=400).body


BODY: list = []
LARGER: list = []


def a_larger_body():
    """In so many coordinates that rows of large margin span them."""
    if not LARGER:
        own = oracle(2, 2, 8)
        w = np.asarray(layer(2, 8).w.sum(axis=0))
        LARGER.append(phases.sculpt_affine_hull(own, w, wide=1, accept=0.2, examples=4000).body)
    return LARGER[0]


def a_body():
    if not BODY:
        BODY.append(body())
    return BODY[0]


def a_span():
    return phases.attention_span(a_body(), wide=1)


def contrasts():
    x, _ = oracle(2, 2, 3).draw(60)
    pattern = layer(2, 3).patterns(x).mean(axis=1)
    return phases.contrasts_of(x, pattern, np.ones(pattern.shape[:2], bool))


def a_plan():
    return phases.QueryPlan(m=2, k=2, d=3)


def agreement_rows():
    return phases.AgreementRows(SUM, threshold=0.1)


DRAWN = oracle(2, 2, 3).draw(60)
PX, PY = (array(one.shape, of=given(one), torch=False) for one in DRAWN)
NET = oracle(2, 2, 3).draw(600)
NX, NY = (array(one.shape, of=given(one), torch=False) for one in NET)
PATTERN = layer(2, 3).patterns(DRAWN[0]).mean(axis=1)

PHASES = [
    Subject(
        "upper.six_phase.estimate_projection_sum",
        phases.estimate_projection_sum,
        {"oracle": P_ORACLE, "n": whole(20, 40), "batch": whole(8, 16), "jobs": choice(1)},
    ),
    Subject(
        "upper.six_phase.one_gradient_step",
        phases.one_gradient_step,
        {"x": X, "y": Y},
        words=("tokens", "labels"),
    ),
    Subject(
        "upper.six_phase.certify_agreement",
        phases.certify_agreement,
        {"x": X, "y": Y, "projection_sum": W, "method": choice("least-squares")},
        right=lambda result, arguments: assert_finite(result.pattern),  # residuals may be infinite
        words=("tokens", "labels"),
    ),
    Subject("upper.six_phase.has_repeated_tokens", phases.has_repeated_tokens, {"x": X}, right=done),
    Subject(
        "upper.six_phase.contrasts_of",
        phases.contrasts_of,
        {
            "x": PX,
            "pattern": array(PATTERN.shape, of=given(PATTERN), torch=False),
            "accepted": array((60, 2), of=lambda rng, shape: np.ones(shape, bool), torch=False),
        },
    ),
    Subject(
        "upper.six_phase.disagreement",
        phases.disagreement,
        {"layer": made(lambda: layer(2, 3), "<layer>"), "x": X},
    ),
    Subject(
        "upper.six_phase.measure_agreement",
        phases.measure_agreement,
        {
            "layer": made(lambda: layer(2, 3), "<layer>"),
            "inputs": made(lambda: BooleanInputs(2, 3), "<inputs>"),
            "rows": Argument(whole(100, 200).sane, bounded({"work": whole()})["work"].hostile),
            "tolerances": anything((0.1, 0.2)),
            "rng": seed(),
        },
    ),
    Subject(
        "upper.six_phase.sculpt_affine_hull",
        phases.sculpt_affine_hull,
        {
            "oracle": made(lambda: oracle(2, 2, 3), "<oracle>"),
            "projection_sum": W,
            "wide": whole(1, 1),
            "accept": real(0.1, 0.2),
            "examples": whole(300, 400),
            "body": choice("ellipsoid"),
            "jobs": choice(1),
        },
        right=done,
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("hull", "rows", "equations"),
    ),
    Subject(
        "upper.six_phase.sculpt",
        phases.sculpt,
        {
            "contrasts": made(contrasts, "<contrasts>"),
            "body": choice("ellipsoid", "polytope"),
            "tolerance": real(1.0, 2.0),
            "radius": real(10.0, 20.0),
            "wide": whole(1, 1),
        },
        right=done,
        share=0.5,
        also=(phases.PhaseFailedError,),
        refuses=True,
        words=("matrix", "body"),
    ),
    Subject(
        "upper.six_phase.attention_span",
        phases.attention_span,
        {"body": made(a_body, "<body>"), "wide": whole(1, 1)},
        right=done,
    ),
    Subject(
        "upper.six_phase.refine_by_consistency",
        phases.refine_by_consistency,
        {
            "oracle": made(lambda: oracle(2, 2, 3), "<oracle>"),
            "projection_sum": W,
            "examples": whole(300, 400),
            "shares": anything((0.1, 0.05)),
            "jobs": choice(1),
        },
        right=done,
        also=(phases.PhaseFailedError,),
        words=("share",),
    ),
    Subject(
        "upper.six_phase.refine_by_margin",
        phases.refine_by_margin,
        {
            "oracle": made(lambda: oracle(2, 2, 8), "<oracle>"),
            "body": made(a_larger_body, "<body>"),
            "wide": whole(1, 1),
            "examples": whole(3000, 4000),
            "margin": real(0.0, 0.01),
            "over": choice("proxy"),
            "jobs": choice(1),
        },
        right=done,
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("rows",),
    ),
    Subject(
        "upper.six_phase.fit_in_span",
        phases.fit_in_span,
        {
            "x": PX,
            "y": PY,
            "span": made(a_span, "<span>"),
            "starts": whole(1, 1),
            "iterates": whole(2, 3),
            "work": whole(3, 5),
            "rng": seed(),
        },
        share=0.4,
    ),
    Subject(
        "upper.six_phase.search_net",
        phases.search_net,
        {
            "x": NX,
            "y": NY,
            "span": made(a_span, "<span>"),
            "heads": whole(2, 2),
            "over": choice("hull"),
            "spacing": real(0.3, 0.5),
            "refinements": whole(0, 1),
            "delta": real(0.01, 0.1),
            "most": whole(1000, 2000),
        },
        right=done,
        share=0.4,
        also=(phases.PhaseFailedError,),
        words=("examples", "net", "tuples", "points"),
    ),
    Subject(
        "upper.six_phase.held_out_examples",
        phases.held_out_examples,
        {"candidates": whole(), "delta": real(0.01, 0.1), "kurtosis": real(2.0, 4.0)},
        right=a_number,
    ),
    Subject(
        "upper.six_phase.QueryPlan",
        phases.QueryPlan,
        {
            "m": whole(1, 2),
            "k": whole(2, 2),
            "d": whole(3, 4),
            "accept": anything((0.05, 0.01)),
            "margin_share": real(0.0005, 0.001),
            "degradation": real(0.02, 0.03),
            "independent": choice(False, True),
            "label_bound": real(4.0, 8.0),
            "token_bound": real(1.0, 2.0),
            "smallest_weight": real(0.05, 0.06),
            "edge": anything((0.035, 0.004)),
            "steps": whole(3, 12),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.six_phase_queries",
        phases.six_phase_queries,
        {"plan": made(a_plan, "<plan>")},
        right=done,
    ),
    Subject(
        "upper.six_phase.AgreementRows",
        phases.AgreementRows,
        {
            "projection_sum": W,
            "threshold": real(0.1, 0.2),
            "smallest_weight": real(0.01, 0.05),
            "token_bound": real(1.0, 2.0),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.moment_queries",
        phases.moment_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.right_side_queries",
        phases.right_side_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.share_queries",
        phases.share_queries,
        {
            "score": anything(fixed(lambda x, y: x[..., 0], "<score>")),
            "thresholds": anything((0.1, 0.2)),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
            "name": anything("share"),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.size_queries",
        phases.size_queries,
        {
            "rows": made(agreement_rows, "<rows>"),
            "k": whole(2, 3),
            "phase": whole(2, 2),
            "tolerance": real(0.01, 0.1),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.projection_sum_queries",
        phases.projection_sum_queries,
        {
            "d": whole(2, 3),
            "k": whole(2, 3),
            "tolerance": real(0.01, 0.1),
            "label_bound": real(4.0, 8.0),
            "token_bound": real(1.0, 2.0),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.spectral_gap",
        phases.spectral_gap,
        {
            "spectrum": array((8,), of=lambda rng, shape: np.sort(rng.random(shape)) + 0.1, torch=False),
            "wide": whole(1, 2),
            "least": real(1.5, 2.0),
        },
        right=done,
    ),
    Subject(
        "upper.six_phase.span_change_bound",
        phases.span_change_bound,
        {
            "moments": array((9, 9), of=lambda rng, shape: np.diag(np.arange(1.0, 10.0)), torch=False),
            "right": array((9,), torch=False),
            "wide": whole(1, 2),
            "moment_error": real(1e-6, 1e-5),
            "right_error": real(1e-6, 1e-5),
        },
        right=lambda result, arguments: float(result),
    ),
]

# ------------------------------------------------------------------------------------------- tasks

SIZES = {"states": whole(2, 3), "symbols": whole(2, 2)}
LAYOUT = {"states": whole(2, 2), "symbols": whole(2, 2), "positions": whole(2, 3)}
KEYS = choice(*tasks.KEYS)
KEY_SIZES = {"dk": whole(2, 3), "dv": whole(2, 3)}


def tried(name, arguments, **how):
    return Subject(f"upper.linear_attention.tasks.{name}", getattr(tasks, name), arguments, right=done, **how)


TASKS = [
    tried("Automaton", {"transitions": array((2, 3), of=lambda rng, shape: rng.integers(0, 2, shape))}),
    tried("TapeLayout", LAYOUT),
    tried("UniversalLayout", LAYOUT),
    tried("random_automaton", SIZES | {"rng": seed()}),
    tried("random_machine", SIZES | {"rng": seed()}),
    tried("random_configurations", LAYOUT | {"runs": whole(1, 3), "rng": seed()}),
    tried("automaton_in_context_model", SIZES),
    tried("automaton_in_context_rank", SIZES),
    tried("automaton_in_context_examples", SIZES | {"number": whole(1, 4), "rng": seed()}),
    tried(
        "automaton_model",
        {"automaton": made(lambda: tasks.random_automaton(states=2, symbols=2, rng=0), "<automaton>")},
    ),
    tried(
        "key_value_examples", {"keys": KEYS, "number": whole(2, 4), "rng": seed()} | KEY_SIZES, words=("key",)
    ),
    tried("key_value_rank", {"keys": KEYS} | KEY_SIZES, words=("key",)),
    tried("lookup_model", KEY_SIZES),
    tried("rank_of_a_key", KEY_SIZES),
    tried("around_the_threshold", {"features": whole(2, 9)}),
    tried(
        "first_independent",
        {"x": array((6, 3, 2), torch=False), "rank": OPTIONAL, "average": choice(False, True)},
    ),
    tried("reader_model", {"layout": made(lambda: tasks.TapeLayout(2, 2, 2), "<layout>")}),
    tried("universal_model", {"layout": made(lambda: tasks.UniversalLayout(2, 2, 2), "<layout>")}),
    tried(
        "turing_model",
        {
            "machine": made(lambda: tasks.random_machine(states=2, symbols=2, rng=0), "<machine>"),
            "positions": whole(2, 3),
        },
    ),
]

SUBJECTS = [*learners(), *UPPER, *LINEAR, *PHASES, *TASKS]
EXCEPTIONS = {
    "upper.CrossMoment": "a record that cross_moment makes",
    "upper.Engine": "what choose_engine makes",
    "upper.FactoredIterate": "a record that factored_gauss_newton makes",
    "upper.HeadJacobian": "a linear map between what read_tokens gives, tried through gauss_newton",
    "upper.Iterate": "a record that gauss_newton makes",
    "upper.LinearPredictor": "a record that LinearBaseline makes; its call is tried",
    "upper.linear_attention.MEMORY": "a constant",
    "upper.linear_attention.POPULATIONS": "a constant",
    "upper.linear_attention.SOFTMAX_KINDS": "a constant",
    "upper.linear_attention.Certificate": "a record that certify makes",
    "upper.linear_attention.Comparison": "a record of what was measured",
    "upper.linear_attention.CubicRegression": "a record that regress makes",
    "upper.linear_attention.FeatureRegression": "a record that regress_features makes",
    "upper.linear_attention.GradientFit": "a record of what was learned",
    "upper.linear_attention.HeadsFound": "a record of what was found",
    "upper.linear_attention.LinearAttentionPredictor": "a record that the learner makes",
    "upper.linear_attention.Method": "a type",
    "upper.linear_attention.SoftmaxKind": "a type",
    "upper.linear_attention.SoftmaxRow": "a record of what was measured",
    "upper.linear_attention.Tokens": "a type",
    **{
        f"upper.six_phase.{name}": "a record of what a phase found"
        for name in (
            "AffineHull",
            "AgreementLaw",
            "AttentionSpan",
            "Certificates",
            "Contrasts",
            "Ellipsoid",
            "Findings",
            "HullMargin",
            "LargeMargin",
            "NetSearch",
            "Phases",
            "Polytope",
            "ProjectionSum",
            "QueriedSpan",
            "QueryCount",
            "SelfConsistent",
            "SpanFit",
            "SpectralGap",
        )
    },
    **{
        f"upper.linear_attention.tasks.{name}": "a record of what was measured, or a type"
        for name in (
            "AutomatonInContextRow",
            "AutomatonRow",
            "Configurations",
            "KEYS",
            "KeyValueRow",
            "Keys",
            "Model",
            "NextTokens",
            "NoiseRow",
            "RandomNetworkRow",
            "RareKeyRow",
            "Simulation",
            "Solver",
            "TapeReaderRow",
            "Training",
            "TuringMachine",
            "TuringRow",
            "UniversalRow",
        )
    },
    **{
        f"upper.linear_attention.tasks.{name}": "an experiment of many fits, whose parts are tried"
        for name in tasks.__all__
        if name.endswith("_rows") or name == "noise_row"
    },
    **{
        f"upper.linear_attention.tasks.{name}": "takes what a model or a machine was made for; not tried yet"
        for name in (
            "agreement",
            "all_configurations",
            "automata_in_context",
            "automaton_examples",
            "delta_tokens",
            "history_examples",
            "learn_from_histories",
            "nearest_delta_tokens",
            "reader_examples",
            "run_automaton",
            "run_closed_loop",
            "run_in_context",
            "simulate",
            "simulate_universal",
            "step_examples",
            "universal_examples",
        )
    },
    "upper.six_phase.ConvexBody": "a protocol",
    "upper.six_phase.QueryOracle": "a protocol",
    "upper.six_phase.PhaseFailedError": "an error",
    "upper.six_phase.MarginRows": "a part of a query plan, made of a margin that refine_by_margin measures",
    "upper.six_phase.QueryFamily": "a record that the query functions make",
    "upper.six_phase.StatisticalQuery": "a record that a family makes",
    "upper.six_phase.learn_by_queries": "runs all phases against an oracle; its plan and its families are tried",
    "upper.six_phase.regression_queries": "takes the margin rows that learn_by_queries makes",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    without_torch = [Subject(f"upper.{name}", getattr(upper, name), {}) for name in ("Adam", "TunedAdam")]
    packages = {
        "upper": upper,
        "upper.baselines": upper.baselines,
        "upper.linear_attention": linear,
        "upper.linear_attention.tasks": tasks,
        "upper.six_phase": phases,
    }
    assert missing_subjects(packages, SUBJECTS + without_torch, EXCEPTIONS) == ([], [])
