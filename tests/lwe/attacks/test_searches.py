import itertools

import numpy as np
import pytest

from lwe.attacks.attack import AttackOutcome, Attempt
from lwe.attacks.exhaustive import ExhaustiveAttack, fitting_pairs
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack, boxed_pairs, window_cells
from lwe.attacks.search import Windows, secret_space
from lwe.distributions import (
    BINARY,
    TERNARY,
    CentredBinomial,
    DiscreteGaussian,
    SparseSigned,
)
from lwe.parameters import LWEParameters
from lwe.samples import make_samples

SEARCHES = [ExhaustiveAttack(), MeetInTheMiddleAttack()]


def parameters(n=8, q=16, p=4, **other):
    return LWEParameters(**{"n": n, "q": q, "p": p, "matrix": "uniform", **other})


@pytest.mark.parametrize("search", SEARCHES, ids=["exhaustive", "meet in the middle"])
@pytest.mark.parametrize(
    "made",
    [
        parameters(10, 64, 2, Xs=TERNARY),
        parameters(10, 64, 8, Xs=TERNARY),
        parameters(10, 100, 7, Xs=BINARY),
        parameters(16, 64, 8, Xs=SparseSigned(3)),
        parameters(7, 101, 101, Xs=TERNARY, Xe=DiscreteGaussian(2.0)),
        parameters(6, 127, 16, Xs=CentredBinomial(2), Xe=CentredBinomial(2)),
        parameters(5, 3329, 3329, Xs=DiscreteGaussian(1.0), Xe=DiscreteGaussian(3.0)),
        parameters(2, 128, 4, matrix="gadget"),
        parameters(3, 17, 2),
    ],
    ids=str,
)
def test_no_secret_is_missed(search, made):
    for seed in range(6):
        samples, secret = make_samples(made, 500, rng=seed)
        result = search(samples, made, rng=seed)
        np.testing.assert_array_equal(result.secret, secret, err_msg=str(result))
        assert result.outcome is AttackOutcome.BROKEN


@pytest.mark.parametrize("join", ["boxes", "words"])
@pytest.mark.parametrize("made", [parameters(8, 64, 4), parameters(8, 101, 7), parameters(8, 50, 2)], ids=str)
def test_joins_find_exactly_the_candidates_that_pass_all_windows(join, made):
    made = made.updated(Xs=TERNARY)
    samples, _ = make_samples(made, 60, rng=1)
    space = secret_space(made)
    windows = Windows.choose(samples, made, space, missed=0.0, rng=np.random.default_rng(0))
    few = Windows(
        windows.rows[:3], windows.starts[:3], windows.widths[:3], windows.passing[:3], windows.modulus
    )
    [(first, last)] = space.split(5)
    attempt = Attempt(samples, made)
    left, right = few.sums(first, attempt), few.sums(last, attempt, last=True)
    if join == "words":
        pairs = fitting_pairs(few, left, right)
    else:
        pairs = boxed_pairs(few, left, right, window_cells(few, first.number) or [2])
    found = [np.hstack([first.vectors(i), last.vectors(j)]) for i, j, _ in pairs]
    every = np.array(list(itertools.product([-1, 0, 1], repeat=8)))
    passing = np.all(np.mod(every @ few.rows.T - few.starts, made.q) < few.widths, axis=1)
    assert sorted(map(tuple, np.concatenate(found).tolist())) == sorted(map(tuple, every[passing].tolist()))
    assert passing.sum() > 3
