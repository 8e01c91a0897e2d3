"""Every argument of every public function declares what it takes, and what it declares refuses what it never takes."""

import enum
import inspect
import math

import numpy as np
import pytest

import attention
import lower
import lwe
import sq
import upper
from attention import validation
from attention.validation import Unfit, constraints

pytestmark = pytest.mark.bad_input

PACKAGES = [attention, upper, upper.newton, upper.linear_attention, upper.six_phase]
PACKAGES += [lower, sq, lwe, lwe.costs]
# what other code holds: `random_generator` and `pathlib.Path`, in any function; an oracle; what a decorator is given
HELD = {"rng", "path", "oracle", "secret", "inner_dtype", "details", "regression"}
UNDECLARED = {
    # of arrays of any library and any shape
    attention.attention_pattern, attention.relative_error, attention.unknown_part_error,
    # PyTorch's modules are known when PyTorch is there
    attention.convert_torch_module, attention.attention_layer_examples,
    # arguments of a declared function, passed on
    attention.check_budget, attention.draw_examples, sq.make_parity_instance,
    lower.eliminated_per_query, lower.solve_gf2,
    # used by authors of learners, families and oracles
    attention.Recorder, lower.HardInstance, lower.Option, lower.constructor, lower.register, sq.SQOracle,
}  # fmt: skip
NEVER = (math.nan, 1j, np.ones((2, 2)) * math.nan)
SIZES = """
    m k d dim heads heads_count tokens bits block rank modulus levels secret_dim samples batch steps
    symbols states positions trials work starts rounds restarts queries targets fresh runs eta weight workers
"""
REALS = """
    sigma confidence gain noise learning_rate rate beta seconds radius spacing accept
"""
FORBIDDEN = {
    **dict.fromkeys(SIZES.split(), (0, -1, 0.5, True)),
    **dict.fromkeys(REALS.split(), (-1, math.inf, True)),
    # bounds of these depend on the kind of query
    **dict.fromkeys(("tolerance", "error"), (math.inf, True)),
}
# made by the toolkit: what was computed
RECORDS = {attention.Fit, attention.Step, upper.six_phase.NetSearch, upper.six_phase.SixPhases}
RECORDS |= {lower.Verification, lwe.AttackResult}


def subjects():
    """Each public function, and each class that can be made, with its name."""
    for package in PACKAGES:
        for name in package.__all__:
            one = getattr(package, name)
            errors_and_enums = isinstance(one, type) and issubclass(one, BaseException | enum.Enum)
            if callable(one) and not errors_and_enums and one not in UNDECLARED | RECORDS:
                yield pytest.param(one, id=f"{package.__name__}.{name}")


def declared(subject):
    """The constraints of a function or of a class's fields, if they are enforced when it is called."""
    if isinstance(subject, type):
        own = inspect.unwrap(subject.__init__)
        return constraints(subject if own is subject.__init__ else own)
    held = inspect.unwrap(subject, stop=lambda one: inspect.getmodule(one.__code__) is validation)
    return constraints(subject) if held.__code__.co_name == "entry" else {}


def refused(constraint, value):
    try:
        constraint.convert(value, {})
    except Unfit:
        return True
    return False


@pytest.mark.parametrize("subject", list(subjects()))
def test_every_argument_declares_what_it_takes(subject):
    held = declared(subject)
    for name, parameter in inspect.signature(subject).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or name in HELD - held.keys():
            continue
        for value in (*NEVER, *FORBIDDEN.get(name, ())):
            assert refused(held[name], value), f"{name} takes {value}"


@pytest.mark.parametrize("rng", [-1, 0.5, "one", [0.5]])
def test_a_seed_that_is_none_is_refused(rng):
    with pytest.raises(ValueError, match="rng is"):
        attention.make_nice_layer(heads=1, dim=2, rng=rng)


@pytest.mark.parametrize(
    "read", [attention.load_layer, upper.linear_attention.load_linear_attention, lower.load_instance]
)
@pytest.mark.parametrize("path", [None, 3, ["a"]])
def test_a_path_that_is_none_is_refused(read, path):
    with pytest.raises(ValueError, match="path"):
        read(path)
