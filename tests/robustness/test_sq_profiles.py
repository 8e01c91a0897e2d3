"""Every function of `sq` about polynomials and symmetric profiles, asked with what a user may give by mistake."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from fuzzing import Argument, Subject, array, choice, fixed, whole
from hypothesis import strategies as st

import sq


def eberlein_is_right(result, given):
    points, bits, distance, space = (int(given[name]) for name in ("points", "bits", "distance", "space"))
    # the other form of the polynomial: sum_t (-1)^(i-t) C(l-t, i-t) C(l-j, t) C(n-l+t-j, t)
    wanted = sum(
        (-1) ** (distance - t)
        * math.comb(bits - t, distance - t)
        * math.comb(bits - space, t)
        * math.comb(points - bits + t - space, t)
        for t in range(distance + 1)
    )
    assert result == wanted


def krawtchouk_is_right(result, given):
    bits, degree, number = (int(given[one]) for one in ("bits", "degree", "number"))
    wanted = sum(
        (-1) ** j * math.comb(number, j) * math.comb(bits - number, degree - j) for j in range(degree + 1)
    )
    assert result == wanted


def exact_profile(given):
    return [Fraction(one.item() if isinstance(one, np.generic) else one) for one in given["profile"]]


def coefficient_of(profile, degree):
    """2^-l sum_y g(N(y)) chi_R(y) for R the first `degree` coordinates, over all signs y."""
    bits = len(profile) - 1
    cube = itertools.product((0, 1), repeat=bits)
    return sum((-1) ** sum(y[:degree]) * profile[sum(y)] for y in cube) / Fraction(2**bits)


def is_near(result, wanted):
    """Exact fractions equal, and floats the nearest to them."""
    assert len(result) == len(wanted)
    for one, other in zip(result, wanted, strict=True):
        assert one == other or (
            isinstance(one, float) and one == pytest.approx(float(other), rel=1e-12, abs=5e-324)
        )


def coefficients_are_right(result, given):
    profile = exact_profile(given)
    if len(profile) <= 9:
        is_near(result, [coefficient_of(profile, degree) for degree in range(len(profile))])


def moments_of(profile):
    bits = len(profile) - 1
    mean, square = (
        sum(math.comb(bits, n) * one**power for n, one in enumerate(profile)) / Fraction(2**bits)
        for power in (1, 2)
    )
    return mean, square - mean**2


def weights_are_right(result, given):
    profile = exact_profile(given)
    if len(profile) <= 9:
        bits, variance = len(profile) - 1, moments_of(profile)[1]
        shares = [math.comb(bits, r) * coefficient_of(profile, r) ** 2 / variance for r in range(1, bits + 1)]
        assert sum(shares) == 1
        is_near(result, [Fraction(0), *shares])


def overlap_correlations_are_right(result, given):
    profile = exact_profile(given)
    if len(profile) <= 9:
        bits, variance = len(profile) - 1, moments_of(profile)[1]
        squares = [coefficient_of(profile, r) ** 2 / variance for r in range(bits + 1)]
        is_near(
            result,
            [sum(math.comb(o, r) * squares[r] for r in range(1, bits + 1)) for o in range(bits + 1)],
        )


def one_coefficient_is_right(result, given):
    profile = exact_profile(given)
    if len(profile) <= 9:
        is_near([result], [coefficient_of(profile, int(given["degree"]))])


def moments_are_right(result, given):
    assert result == moments_of(exact_profile(given))


def designed_are_right(result, given):
    """Steps of these sizes at the thresholds have no degrees 1 to m - 1, and the largest is 1."""
    bits, places = int(given["bits"]), [Fraction(float(one)) for one in np.asarray(given["thresholds"])]
    assert max(abs(one) for one in result) == 1
    assert result[-1] > 0
    profile = [
        sum(c if n > place else -c for c, place in zip(result, places, strict=True)) for n in range(bits + 1)
    ]
    if bits <= 8:
        assert all(coefficient_of(profile, degree) == 0 for degree in range(1, len(places)))


PROFILE = Argument(
    array((4,)).sane, array((4,), torch=False).hostile | st.sampled_from([fixed([1] * 3), fixed([0.5])])
)

SUBJECTS = [
    Subject(
        "sq.eberlein",
        sq.eberlein,
        {"points": whole(5, 7), "bits": whole(2, 2), "distance": whole(0, 2), "space": whole(0, 2)},
        right=eberlein_is_right,
    ),
    Subject(
        "sq.krawtchouk",
        sq.krawtchouk,
        {"bits": whole(3, 5), "degree": whole(0, 3), "number": whole(0, 3)},
        right=krawtchouk_is_right,
    ),
    *(
        Subject(
            f"sq.{one.__name__}",
            one,
            {"profile": PROFILE, "exact": choice(False, True)},
            right=right,
            repeatable=False,
            words=("value", "g", "profile"),
        )
        for one, right in (
            (sq.fourier_weights, weights_are_right),
            (sq.fourier_coefficients, coefficients_are_right),
            (sq.overlap_correlations, overlap_correlations_are_right),
        )
    ),
    Subject(
        "sq.fourier_coefficient",
        sq.fourier_coefficient,
        {"profile": PROFILE, "degree": whole(0, 3)},
        words=("value", "profile"),
        right=one_coefficient_is_right,
    ),
    Subject(
        "sq.profile_moments",
        sq.profile_moments,
        {"profile": PROFILE},
        right=moments_are_right,
        words=("value", "profile"),
    ),
    Subject(
        "sq.designed_coefficients",
        sq.designed_coefficients,
        {
            "bits": whole(4, 6),
            "thresholds": Argument(st.just(fixed((0.5, 3.5))), array((2,), torch=False).hostile),
        },
        right=designed_are_right,
        words=("threshold",),
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
