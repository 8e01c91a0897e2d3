import itertools
import math

import numpy as np
import pytest

from lwe.attacks.attack import Attempt
from lwe.attacks.exhaustive import ExhaustiveAttack, fitting_pairs
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack, _Boxes
from lwe.attacks.outcome import AttackOutcome
from lwe.attacks.search import Windows, label_windows, secret_space
from lwe.distributions import (
    BINARY,
    NO_NOISE,
    TERNARY,
    UNIFORM,
    CentredBinomial,
    DiscreteGaussian,
    SparseSigned,
)
from lwe.parameters import LWEParameters, rounded
from lwe.samples import make_samples

SEARCHES = [ExhaustiveAttack(), MeetInTheMiddleAttack()]


def parameters(n=8, q=16, p=4, **other):
    return LWEParameters(**{"n": n, "q": q, "p": p, "matrix": "uniform", **other})


def everything(space, n, size):
    return [
        tuple(np.concatenate([a, b]).tolist())
        for first, last in space.split(size)
        for a in first.vectors(np.arange(first.number))
        for b in last.vectors(np.arange(last.number))
    ]


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize("law", [BINARY, TERNARY, SparseSigned(2), UNIFORM])
@pytest.mark.parametrize("q", [2, 5])
def test_the_halves_pair_up_to_every_secret_once(law, q, size):
    made = parameters(4, q, 2, Xs=law)
    space = secret_space(made)
    found = everything(space, 4, size)
    assert len(found) == len(set(found)) == space.number
    assert math.isclose(math.log2(space.number), law.secrets(4, q), abs_tol=1e-9)
    residues = {tuple(np.mod(one, q)) for one in found}
    drawn = {tuple(np.mod(law.draw(4, q, rng=seed), q)) for seed in range(40)}
    assert drawn <= residues
    assert len(residues) == len(found)


@pytest.mark.parametrize(
    ("q", "p"), [(16, 4), (17, 5), pytest.param(251, 32, marks=pytest.mark.slow), (8, 8)]
)
@pytest.mark.parametrize("noise", [NO_NOISE, CentredBinomial(1)])
def test_windows_of_labels_are_exact(q, p, noise):
    starts, widths = label_windows(np.arange(p), parameters(q=q, p=p, Xe=noise), missed=1e-9)
    errors = [0] if noise is NO_NOISE else [-1, 0, 1]
    for label in range(p):
        allowed = {t for t in range(q) for e in errors if rounded(np.array([t + e]), q, p)[0] == label}
        assert allowed == {(starts[label] + i) % q for i in range(widths[label])}


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
    boxes = _Boxes.choose(few, left, right)
    pairs = fitting_pairs(few, left, right) if join == "words" else boxes.pairs()
    found = [np.hstack([first.vectors(i), last.vectors(j)]) for i, j, _ in pairs]
    every = np.array(list(itertools.product([-1, 0, 1], repeat=8)))
    passing = np.all(np.mod(every @ few.rows.T - few.starts, made.q) < few.widths, axis=1)
    assert sorted(map(tuple, np.concatenate(found).tolist())) == sorted(map(tuple, every[passing].tolist()))
    assert passing.sum() > 3
