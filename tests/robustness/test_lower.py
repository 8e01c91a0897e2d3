"""Every public function of `lower`, called with what a user may give it by mistake."""

from decimal import Decimal
from fractions import Fraction
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
    whole,
)
from hypothesis import strategies as st

import lower
from attention import BooleanInputs, make_nice_layer

# ------------------------------------------------------------------------------------------- what is right


def as_number(value):
    return Fraction(repr(float(value)) if isinstance(value, float | np.floating) else value)


def whole_number(result, given):
    assert isinstance(result, int)
    assert result >= 0


def eliminated_is_right(result, given):
    tau = as_number(given["tolerance"])
    # the most candidates of squared correlation above tau^2 whose sum is at most 1, strictly
    assert result * tau**2 < 1 <= (result + 1) * tau**2


def fraction_is_right(result, given):
    assert isinstance(result, Fraction)
    assert float(result) == float(as_number(given["value"]))


def staircase_is_right(result, given):
    t = result.reachable()
    if len(t) < 1000:
        values, limit = result.values(t), result.limit(t)
        assert_finite((values, limit))
        error = result.error()
        # the bound holds in exact arithmetic; evaluation in float64 rounds
        slack = 1e-12 * np.abs(result.coefficients).sum()
        assert np.abs(values - limit).max() <= error + slack
        assert error <= float(result.error_bound()) * (1 + 1e-9) + slack
    assert_finite(result.layer())


def linear_is_right(result, given):
    assert_finite((result.mixing, result.projection))
    assert result.describe().endswith(".")
    x = np.ones((2, result.k, result.d))
    size = result.k * np.abs(result.mixing).max() * result.d * np.abs(result.projection).max()
    np.testing.assert_allclose(result(x), result.mixing @ x @ result.projection, rtol=1e-9, atol=1e-12 * size)


def gf2_is_right(result, given):
    matrix, bits = (np.asarray(given[name]).astype(int) for name in ("matrix", "bits"))
    assert result.rank <= min(matrix.shape)
    if result.consistent:
        assert np.array_equal(matrix @ result.solution.astype(int) % 2, bits)


def walsh_is_right(result, given):
    values = np.asarray(given["values"])
    assert_finite(result)
    assert result.shape == values.shape
    size = values.shape[-1]
    numbers = np.arange(size)
    signs = 1 - 2 * (np.bitwise_count(numbers[:, None] & numbers) % 2).astype(int)
    wide = values.astype(np.longdouble)
    tolerance = {"float16": 2e-2, "float32": 1e-5}.get(str(values.dtype), 1e-11)
    wanted = np.asarray(wide @ signs / size, float)
    np.testing.assert_allclose(
        np.asarray(result, float),
        wanted,
        rtol=0,
        atol=tolerance * float(np.abs(wide).max(initial=0)) + 1e-320,
    )


def rounded_is_right(result, given):
    assert isinstance(result, float)
    assert Decimal(result) >= Decimal(given["value"])
    assert result > 0 or not given["positive"]


def signs_are_right(result, given):
    assert result.shape[1:] == (int(given["k"]), int(given["d"]))
    assert np.all(np.abs(result) == 1)
    flat = result.reshape(len(result), int(given["k"]) * int(given["d"]))
    assert len(np.unique(flat, axis=0)) == len(flat)


def comparison_is_right(result, given):
    assert "Powers of d" in str(result)
    assert result.least_constant > 0 or result.tolerance_exponent > 0


def a_certificate():
    return lower.Certificate("coins", (lower.Statement("sides", 2, "A coin has two.", "proved", "Here"),))


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


# ------------------------------------------------------------------------------------------- how it is called


def half_integers(rng, shape):
    return rng.integers(0, 5, shape) + 0.5


def form(rng, shape):
    values = rng.integers(-3, 4, shape)
    values[0] = 0
    return values


def staircase(size: Sizes):
    return {
        "form": array((size.d,), of=form),
        "thresholds": array((size.m,), of=half_integers),
        "coefficients": array((size.m,)),
        "slopes": real(1.0, 40.0),
        "gate": whole(0, 0),
        "direction": array((size.d,)),
    }


def bits(*shape):
    return array(shape, of=lambda rng, size: rng.integers(0, 2, size))


TOLERANCES = anything(st.sampled_from([fixed(one) for one in (0.1, "0.5", Fraction(1, 3), 0.9)]))
STAIRCASE = lower.Staircase(
    form=np.array([0, 1, 1]), thresholds=np.array([0.5]), coefficients=np.array([1.0]), slopes=4.0
)


def method(name, of, **arguments):
    return lambda **given: getattr(of, name)(**given)


SUBJECTS = [
    Subject(
        "lower.exact_fraction",
        lower.exact_fraction,
        {"name": Argument(*[st.just(fixed("x"))] * 2), "value": TOLERANCES},
        right=fraction_is_right,
        words=("x",),
    ),
    Subject(
        "lower.eliminated_per_query",
        lower.eliminated_per_query,
        {"tolerance": TOLERANCES},
        right=eliminated_is_right,
    ),
    Subject(
        "lower.query_lower_bound",
        lower.query_lower_bound,
        {"targets": whole(), "tolerance": TOLERANCES, "success": anything(1)},
        right=whole_number,
    ),
    Subject(
        "lower.number_of_parities",
        lower.number_of_parities,
        {"dim": whole(), "bits": whole(0, 4)},
        right=whole_number,
    ),
    Subject("lower.parity_exponent", lower.parity_exponent, {"heads": whole()}, right=whole_number),
    Subject("lower.parity_targets", lower.parity_targets, {"heads": whole(), "symbol": anything(None)}),
    Subject(
        "lower.symbolic_query_bound",
        lower.symbolic_query_bound,
        {"heads": whole(), "dim": whole(), "tolerance": TOLERANCES, "targets": whole()},
    ),
    Subject("lower.query_bound_growth", lower.query_bound_growth, {"heads": whole()}),
    Subject(
        "lower.compare_exponents",
        lower.compare_exponents,
        {
            "constant": TOLERANCES,
            "tokens_exponent": TOLERANCES,
            "tolerance_exponent": TOLERANCES,
            "most_heads": whole(),
        },
        right=comparison_is_right,
    ),
    Subject(
        "lower.ExponentComparison.upper",
        lambda heads: (lambda one: (one.upper(heads), one.lower(heads)))(lower.compare_exponents(0.25)),
        {"heads": whole()},
    ),
    Subject(
        "lower.Statement",
        lower.Statement,
        {
            "name": anything("sides"),
            "value": anything(2),
            "meaning": anything("A coin has two."),
            "status": choice("proved", "derived", "measured"),
            "source": anything("Here"),
        },
        right=lambda result, given: str(result),
        words=("statement",),
    ),
    Subject(
        "lower.Certificate",
        lower.Certificate,
        {"family": anything("coins"), "statements": made(lambda: a_certificate().statements, "<statements>")},
        right=lambda result, given: str(result),
    ),
    Subject(
        "lower.Certificate.getitem",
        lambda name: a_certificate()[name],
        {"name": choice("sides")},
        also=(KeyError,),
    ),
    Subject(
        "lower.Certificate.from_json",
        lower.Certificate.from_json,
        {"data": made(lambda: a_certificate().to_json(), "<json>")},
        words=("certificate",),
    ),
    Subject(
        "lower.all_sign_matrices",
        lower.all_sign_matrices,
        {"k": whole(1, 2), "d": whole(1, 3), "start": whole(0, 1), "stop": whole(1, 4)},
        right=signs_are_right,
    ),
    Subject(
        "lower.solve_gf2",
        lower.solve_gf2,
        lambda size: {"matrix": bits(size.n, size.d), "bits": bits(size.n)},
        right=gf2_is_right,
    ),
    Subject(
        "lower.Staircase",
        lower.Staircase,
        staircase,
        right=staircase_is_right,
        words=("threshold", "slope"),
    ),
    Subject("lower.Staircase.values", STAIRCASE.values, {"t": array((4,))}),
    Subject("lower.Staircase.limit", STAIRCASE.limit, {"t": array((4,))}),
    Subject(
        "lower.Staircase.decimal_values",
        STAIRCASE.decimal_values,
        {"t": array((4,), of=lambda rng, shape: rng.integers(0, 5, shape)), "digits": whole(10, 50)},
    ),
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
        "lower.save_instance",
        lower.save_instance,
        {
            "path": anything(Given("new", lambda: FILES["folder"] / "new.safetensors")),
            "instance": made(an_instance, "<instance>"),
            "made": anything({"seed": 1}),
        },
        right=lambda result, given: None,
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
        words=("file",),
    ),
    Subject(
        "lower.outward_context",
        lower.outward_context,
        {"digits": whole(10, 50)},
        right=lambda result, given: result.prec,
    ),
    Subject(
        "lower.rounded_up",
        lower.rounded_up,
        {
            "value": anything(st.sampled_from([fixed(Decimal(one)) for one in ("0.1", "1e-434", "3")])),
            "positive": choice(True),
        },
        right=rounded_is_right,
    ),
    Subject(
        "lower.walsh_hadamard",
        lower.walsh_hadamard,
        lambda size: {"values": array((size.n, 2 ** (size.d - 1)), torch=False)},
        right=walsh_is_right,
    ),
]

EXCEPTIONS = {
    "lower.SATURATED_SLOPE": "a constant",
    "lower.ErrorBound": "a record of what was computed",
    "lower.ExponentComparison": "a record that compare_exponents makes; its methods are tried",
    "lower.GF2Solution": "a record of what was found",
    "lower.KnownPart": "a union of two types, each of which is tried",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    assert missing_subjects({"lower": lower}, SUBJECTS, EXCEPTIONS) == ([], [])
