"""Known parts and instances of `lower`, and their files, called with what a user may give them by mistake."""

from pathlib import Path

import numpy as np
import pytest
from fuzzing import Argument, Given, Subject, anything, array, assert_finite, made, real, whole
from hypothesis import strategies as st

import lower
from attention import BooleanInputs, make_nice_layer


def linear_is_right(result, given):
    assert_finite((result.mixing, result.projection))
    assert result.describe().endswith(".")
    x = np.ones((2, result.k, result.d))
    size = result.k * np.abs(result.mixing).max() * result.d * np.abs(result.projection).max()
    np.testing.assert_allclose(result(x), result.mixing @ x @ result.projection, rtol=1e-9, atol=1e-12 * size)


def a_certificate():
    return lower.Certificate("coins", (lower.Statement("sides", 2, "A coin has two.", "proved", "Here"),))


def saved_is_right(result, given):
    """What was saved loads equal."""
    same_instances(lower.load_instance(given["path"]), given["instance"])


def same_instances(one, other):
    assert one.family == other.family
    assert (one.inputs.k, one.inputs.d) == (other.inputs.k, other.inputs.d)
    x = np.where(np.random.default_rng(0).random((5, other.inputs.k, other.inputs.d)) < 0.5, -1.0, 1.0)
    np.testing.assert_array_equal(one.known(x), other.known(x))
    assert one.realisation_error == other.realisation_error
    for name in ("theta", "w"):
        assert np.array_equal(getattr(one.layer, name), getattr(other.layer, name))
    assert np.array_equal(one.secret, other.secret)
    assert one.certificate == other.certificate
    assert one.parameters == other.parameters


def an_instance():
    return lower.HardInstance(
        family="coins",
        layer=make_nice_layer(heads=1, dim=3, rng=0),
        inputs=BooleanInputs(2, 3),
        secret=np.array([1, 2]),
        known=lower.LinearKnownPart.zero(2, 3),
        certificate=a_certificate(),
        realisation_error=0.0,
        parameters={"d": 3},
    )


FILES: dict[str, Path] = {}


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    """Files that are read, and the folder that is written to."""
    folder = tmp_path_factory.mktemp("stored")
    lower.save_instance(folder / "instance.safetensors", an_instance())
    np.save(folder / "other.npy", np.ones(3))
    FILES.update(instance=folder / "instance.safetensors", other=folder / "other.npy", folder=folder)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Texts such as "nan" are paths, too: what is written there is not to stay."""
    monkeypatch.chdir(tmp_path)


SUBJECTS = [
    Subject(
        "lower.LinearKnownPart",
        lower.LinearKnownPart,
        lambda size: {"mixing": array((size.k, size.k)), "projection": array((size.d, size.d))},
        right=linear_is_right,
    ),
    Subject(
        "lower.LinearKnownPart.zero",
        lower.LinearKnownPart.zero,
        {"k": whole(), "d": whole()},
        right=linear_is_right,
    ),
    Subject(
        "lower.LinearKnownPart.from_gate",
        lower.LinearKnownPart.from_gate,
        lambda size: {"c": real(), "c0": real(), "gate": whole(0, 0), "direction": array((size.d,))},
        right=linear_is_right,
        words=("mixing", "projection", "known part"),
    ),
    Subject(
        "lower.LinearKnownPart.call",
        lambda x: lower.LinearKnownPart(mixing=np.eye(2), projection=np.eye(3))(x),
        lambda size: {"x": array((size.n, 2, 3))},
        right=lambda result, given: assert_finite(result),
    ),
    Subject(
        "lower.GatedKnownPart",
        lower.GatedKnownPart,
        {
            "gate": whole(0, 2),
            "on": made(lambda: lower.LinearKnownPart.zero(2, 3), "<zero>"),
            "off": made(lambda: lower.LinearKnownPart(mixing=np.eye(2), projection=np.eye(3)), "<identity>"),
        },
        right=lambda result, given: assert_finite(result(np.ones((2, 2, 3)))),
    ),
    Subject(
        "lower.GatedKnownPart.call",
        lambda x: lower.GatedKnownPart(
            gate=0, on=lower.LinearKnownPart.zero(2, 3), off=lower.LinearKnownPart.zero(2, 3)
        )(x),
        lambda size: {"x": array((size.n, 2, 3))},
    ),
    Subject(
        "lower.HardInstance",
        lower.HardInstance,
        {
            name: made(lambda name=name: getattr(an_instance(), name), f"<{name}>")
            for name in lower.HardInstance.__dataclass_fields__
        },
        right=lambda result, given: assert_finite(result.allowed_error),
        words=("dimensions", "numbers of tokens"),
    ),
    Subject(
        "lower.verify_instance",
        lower.verify_instance,
        {"instance": made(an_instance, "<instance>"), "definitions": anything({})},
        right=lambda result, given: result.to_json()["holds"] is False,
    ),
    Subject(
        "lower.save_instance",
        lower.save_instance,
        {
            "path": anything(Given("new", lambda: FILES["folder"] / "new.safetensors")),
            "instance": made(an_instance, "<instance>"),
            "made": anything({"seed": 1}),
        },
        right=saved_is_right,
        also=(OSError,),
    ),
    Subject(
        "lower.load_instance",
        lower.load_instance,
        {
            "path": Argument(
                st.just(Given("instance", lambda: FILES["instance"])),
                st.sampled_from([Given(one, lambda one=one: FILES[one]) for one in ("other", "folder")])
                | anything(None).hostile,
            )
        },
        right=lambda result, given: same_instances(result, an_instance()),
        words=("file",),
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
