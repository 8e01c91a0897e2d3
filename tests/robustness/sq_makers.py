"""Families, instances and strategies of arguments that the robustness tests of `sq` share."""

import math
from fractions import Fraction

from fuzzing import Argument, anything, array, choice, fixed, made, whole
from hypothesis import strategies as st

from sq import (
    CSQ,
    BumpFamily,
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    ReferenceAdversary,
    TokenParityFamily,
)


def whole_number(result, given):
    assert isinstance(result, int)


def nothing_to_say(result, given):
    str(result)


def parity():
    return ParityFamily(dim=5, bits=2, construction="B")


def bump():
    return BumpFamily(dim=6, bits=4)


FAMILIES = {
    "parity": parity,
    "bump": bump,
    "pair": lambda: PairFamily(dim=4),
    "token parity": lambda: TokenParityFamily(dim=5, tokens=3, bits=2),
    "hidden gate": lambda: HiddenGateFamily(base=ParityFamily(dim=4, bits=1)),
}
FAMILY = anything(
    st.sampled_from([made(make, f"<{name}>").sane for name, make in FAMILIES.items()]).flatmap(lambda s: s)
)
PARITY = made(parity, "<parity>")
BUMP = made(bump, "<bump>")
INSTANCE = made(lambda: ParityFamily(dim=5, bits=2, construction="B").instance(1), "<instance>")
TOLERANCE = anything(st.sampled_from([fixed(one) for one in (0.1, "0.5", Fraction(1, 3), 0.9)]))
CORRELATION = anything(st.sampled_from([fixed(one) for one in (0.1, "0.5", Fraction(1, 3))]))
CONSTRUCTION = choice("A", "B", "C", "D")
SLOPES = Argument(
    st.just(fixed(None)),
    st.sampled_from(
        [fixed(one) for one in ([0.5], (0.5, 1.0), [0.5, 0.5], [1.0, math.nan], [-1.0, 2.0], [1, 2, 3])]
    )
    | anything(None).hostile,
)
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
DIRECTION = Argument(st.just(fixed(None)), array((5,), torch=False).hostile)


def tokens(size):
    return array((size.n, 2, 5), of=lambda rng, shape: rng.choice([-1.0, 1.0], shape), torch=False)


def oracle_of(family):
    return ReferenceAdversary(CSQ(0.3), family)


def method(name, **arguments):
    def call(of, **given):
        return getattr(of, name)(**given)

    return call


def on(make, label):
    """The object a method is called on, which is never hostile."""
    one = made(make, label).sane
    return Argument(one, one)
