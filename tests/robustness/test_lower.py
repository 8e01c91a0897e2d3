"""Every public function of `lower`, called with what a user may give it by mistake."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import test_lower_instances
from fuzzing import (
    Argument,
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
from test_lower_instances import a_certificate

import lower

# ------------------------------------------------------------------------------------------- what is right


def as_number(value):
    return Fraction(repr(float(value)) if isinstance(value, float | np.floating) else value)


def bound_is_right(result, given):
    tau, share = as_number(given["tolerance"]), as_number(given["success"])
    most = math.ceil(1 / tau**2) - 1
    assert result == max(0, math.ceil((share * int(given["targets"]) - 1) / most))


def verdict_is_right(result, given):
    needed = math.ceil((int(given["targets"]) - 1) / 99)
    assert (result.value == "proved") == (needed > int(given["dim"]) and not given["shortcut"])


def number_is_right(result, given):
    assert result == math.comb(int(given["dim"]) - 1, int(given["bits"]))


def exponent_is_right(result, given):
    assert result == 2 * int(given["heads"]) - 1


def targets_are_right(result, given):
    bits = 2 * int(given["heads"]) - 1
    assert all(result.eval(d) == math.comb(d - 1, bits) for d in range(1, bits + 4))


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


def statement_is_right(result, given):
    assert (result.name, result.meaning, result.source) == tuple(
        given[name] for name in ("name", "meaning", "source")
    )
    assert result.value == given["value"]
    for part in (result.name, result.meaning, result.source, result.status):
        assert part in str(result)


def certificate_is_right(result, given):
    """Every statement is found by its name, is in the text, and survives being written and read."""
    for statement in result.statements:
        assert result[statement.name] == statement
        assert str(statement) in str(result) or statement.name in str(result)
    assert len({statement.name for statement in result.statements}) == len(result.statements)
    assert lower.Certificate.from_json(json.loads(json.dumps(result.to_json()))) == result


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
        right=bound_is_right,
    ),
    Subject(
        "lower.number_of_parities",
        lower.number_of_parities,
        {"dim": whole(), "bits": whole(0, 4)},
        right=number_is_right,
    ),
    Subject(
        "lower.query_verdict",
        lower.query_verdict,
        {"targets": whole(), "dim": whole(), "shortcut": anything("")},
        right=verdict_is_right,
    ),
    Subject("lower.parity_exponent", lower.parity_exponent, {"heads": whole()}, right=exponent_is_right),
    Subject(
        "lower.parity_targets",
        lower.parity_targets,
        {"heads": whole()},
        right=targets_are_right,
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
        right=statement_is_right,
        words=("statement",),
    ),
    Subject(
        "lower.Certificate",
        lower.Certificate,
        {"family": anything("coins"), "statements": made(lambda: a_certificate().statements, "<statements>")},
        right=certificate_is_right,
    ),
    Subject(
        "lower.Certificate.getitem",
        lambda name: a_certificate()[name],
        {"name": choice("sides")},
        right=lambda result, given: statement_is_right(
            result, {"name": "sides", "value": 2, "meaning": "A coin has two.", "source": "Here"}
        ),
        also=(KeyError,),
    ),
    Subject(
        "lower.Certificate.from_json",
        lower.Certificate.from_json,
        {"data": made(lambda: a_certificate().to_json(), "<json>")},
        right=certificate_is_right,
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
    "lower.Definition": "a record of what a family says; sq.DEFINITIONS and lwe.DEFINITIONS make it",
    "lower.ErrorBound": "a record of what was computed",
    "lower.GF2Solution": "a record of what was found",
    "lower.Heads": "numbers that a definition holds; lower.verify_instance holds layers to them",
    "lower.Verification": "a record of what was found",
    "lower.Hardness": "an enumeration",
    "lower.KnownPart": "a union of two types, each of which is tried",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    every = [*SUBJECTS, *test_lower_instances.SUBJECTS]
    assert missing_subjects({"lower": lower}, every, EXCEPTIONS) == ([], [])
