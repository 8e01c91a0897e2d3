"""The learners of `upper` as subjects: what they say of their fit holds on fresh inputs."""

import numpy as np
from fuzzing import Subject, anything, choice, fixed, real, seed, whole
from upper_makers import (
    OPTIONAL,
    ORACLE,
    THETA,
    TORCH,
    agrees,
    bounded,
    done,
    layer,
    only,
    oracle,
    softmax_attention,
)

import upper
from attention import Fit, Outcome

__all__ = ["LEARNER_SUBJECTS"]

# all inputs of two tokens in {-1, 1}^3: what is right on them is right
FRESH = np.stack(np.meshgrid(*[[-1.0, 1.0]] * 6, indexing="ij"), axis=-1).reshape(-1, 2, 3)


def fit_is_right(result, arguments):
    assert isinstance(result, Fit)
    assert result.outcome.value.endswith(".")
    repr(result), str(result)
    predicted = result.predict(FRESH)
    assert predicted.shape == FRESH.shape
    assert np.isfinite(predicted).all()
    assert result.examples_used >= 0
    assert result.seconds >= 0
    drawn = [step.examples for step in result.trace]
    assert drawn == sorted(drawn)
    assert all(one <= result.examples_used for one in drawn)
    if result.layer is not None:
        agrees(
            predicted,
            softmax_attention(FRESH, result.layer.theta, result.layer.w),
            rtol=1e-6,
            what="the predictor",
        )


def as_the_settings_say(result, arguments):
    """No more examples than allowed, as many heads as asked for, and exact means exact."""
    fit_is_right(result, arguments)
    budget, m = arguments.get("examples"), arguments.get("m")
    if budget is not None:
        assert result.examples_used <= int(budget), f"{result.examples_used} examples of {budget} allowed"
    if result.layer is not None and m is not None and m != "auto":
        assert result.layer.heads == int(m)
    if result.outcome is Outcome.EXACT:
        agrees(result.predict(FRESH), layer()(FRESH), rtol=1e-6, what="what is said to be exact")


LEARNERS = {
    "upper.Newton": (
        upper.Newton,
        {
            "m": whole(1, 1),
            "examples": whole(40, 60),
            "work": whole(20, 40),
            "starts": whole(1, 1),
            "tolerance": real(0.0, 1e-3),
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
        {"heads": whole(1, 4), "examples": whole(20, 30)},
    ),
    "upper.FrozenAttention.of given heads": (
        upper.FrozenAttention,
        {"examples": whole(20, 30), "theta": THETA},
    ),
    "upper.OneGradientStep": (
        upper.OneGradientStep,
        {"examples": whole(20, 30)},
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
            "margin_over": choice("body", "proxy"),
            "net_over": choice("hull", "span"),
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
                "reused": whole(20, 30),
                "tolerance": real(0.0, 1e-3),
                "device": choice("cpu"),
            },
        ),
    }

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


def keeps_its_arguments(arguments):
    """What was given is what the learner says of itself."""

    def right(result, given):
        for name in arguments:
            if isinstance(given[name], str | int | float) and not isinstance(given[name], bool):
                assert getattr(result, name) == given[name], f"{name} is {getattr(result, name)!r}"
        done(result, given)

    return right


def learners():
    for name, (kind, arguments) in LEARNERS.items():
        if "." not in name.removeprefix("upper."):
            yield Subject(name, kind, arguments, right=keeps_its_arguments(arguments), repeatable=False)
        yield Subject(
            f"{name}.fit of any settings",
            lambda kind=kind, **settings: kind(**settings).fit(oracle(), rng=0),
            bounded(arguments, "examples" if "LinearAttention" in name else ""),
            right=as_the_settings_say,
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


LEARNER_SUBJECTS = list(learners())
