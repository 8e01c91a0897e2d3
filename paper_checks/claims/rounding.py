"""Claims: Learning with rounding, realised by heads."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import sympy
from numpy.random import Generator

from attention import AttentionLayer
from lower import solve_gf2
from lwe import CentredBinomial, Flips, LWEParameters, LWRFamily
from lwe.heads import covariates_of, lwr_heads
from lwe.parameters import centred, covariate_form, rounded
from paper_checks.check import Constants, Scale
from paper_checks.claims import _heads_by_hand as by_hand
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, at_least, at_most, covers, equal
from paper_checks.faults import given, returned
from studies.intervals import proportion_interval

_CASES = ((6, 8, 2), (6, 16, 4), (8, 7, 3), (10, 64, 2), (5, 17, 17), (12, 4, 2))
_HALF = Fraction(1, 2)


@checks("rounding/uniform-covariates", returned(lambda bits: 1 - bits))
def uniform_covariates(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Lists all 4^d token pairs at d = 5. Proof: the signs of independent fair tokens differ like fair coins."""
    d = claim.d
    signs = list(itertools.product((-1, 1), repeat=d))
    found: Counter[tuple[bool, ...]] = Counter()
    for one, other in itertools.product(signs, signs):
        bits = [x - y in claim.differences for x, y in zip(one, other, strict=True)]
        found[one[0] != other[0], *bits[1:]] += 1
    x = np.array(list(itertools.product(signs, signs)), dtype=float)
    library = covariates_of(x, LWEParameters(n=d - 1, q=4, p=2))
    own = [[int(a - b in claim.differences) for a, b in zip(*pair, strict=True)][1:] for pair in x.tolist()]
    yield equal("patterns of gate and covariates", len(found), 2**d)
    yield equal("how often a pattern occurs", sorted(set(found.values())), [claim.pairs_per_pattern])
    yield equal("the library's covariates are these", bool((library == np.array(own)).all()), True)


@checks(
    "rounding/padded-layer-exact",
    returned(
        lambda stairs: replace(
            stairs,
            coefficients=np.concatenate(
                [stairs.coefficients[-1:], stairs.coefficients[1:-1], stairs.coefficients[:1]]
            ),
        )
    ),
    pad_share=_HALF,
)
def padded_layer_exact(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes six (n, q, p), uniform secrets and random tokens. Compares heads written from the formulas, and
    the library's layer, with labels by whole numbers. That the error is 0 and not merely small is a property
    of float64 at this slope, observed on these inputs.
    """
    number = 200 if scale is Scale.QUICK else 4000
    own = library = 0.0
    for n, q, p in _CASES:
        v = by_hand.uniform_secret(n, q, rng)
        heads = by_hand.jumps(*by_hand.ends(v), q, p) + by_hand.pads(v, q, p, claim.pad_share)
        x = by_hand.tokens(number, n, rng)
        target = by_hand.targets(x, v, q, p)
        own = max(own, np.abs(by_hand.layer_of(v, heads, claim.beta)(x) - target).max())
        made = lwr_heads(np.array(v), LWEParameters(n, q, p), beta=claim.beta).layer()
        library = max(library, np.abs(made(x) - target).max())
    yield at_most("error of the heads written from the formulas", float(own), claim.error)
    yield at_most("error of the library's layer", float(library), claim.error)


@checks("rounding/pads-unique", returned(lambda found: [(at, 2 * c) for at, c in found]), pad_share=_HALF)
def pads_unique(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Solves the two linear equations for the pads in symbols. Lists C for all secrets of n = 3, q = 8, p = 4
    by a loop over the jumps. Without pads C takes all 2p - 1 multiples of 1/2, with pads the value 0 alone.
    """
    alpha, gamma, c, c0, centre = sympy.symbols("alpha gamma C c0 centre")
    # the lower pad is above its threshold on the gate, the upper one below; off the gate both give their coefficient
    solved = sympy.solve([c + alpha + gamma, -c0 + alpha - gamma + centre], [alpha, gamma], dict=True)
    share = sympy.Rational(claim.pad_share)
    stated = [{alpha: share * (c0 - centre - c), gamma: share * (centre - c0 - c)}]
    n, q, p = 3, 8, 4
    without, within, telescoped = set(), set(), True
    for v in itertools.product(range(-3, 5), repeat=n):
        low, high = by_hand.ends(v)
        total = sum((one for _, one in by_hand.jumps(low, high, q, p)), Fraction(0))
        two = by_hand.pads(v, q, p, claim.pad_share)
        without.add(total)
        within.add(total + sum(one for _, one in two))
        telescoped &= total == Fraction(by_hand.label(high, q, p) - by_hand.label(low, q, p), 2)
    yield equal(
        "solutions for the pads",
        [{k: sympy.expand(x) for k, x in one.items()} for one in solved],
        [{k: sympy.expand(x) for k, x in one.items()} for one in stated],
    )
    yield equal("C is half the difference of the end labels", telescoped, True)
    yield equal("values of C over all secrets, without pads", len(without), claim.unpadded_values)
    yield equal("values off the gate over all secrets, with pads", len(within), claim.padded_values)


@checks("rounding/centred-representative", lambda right: lambda values, q: -right(-np.asarray(values), q))
def centred_representative(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Compares all whole numbers from -2q to 2q for q = 2, ..., 40 with a search of the interval."""
    wrong = 0
    for q in range(2, 41):
        ends_in = claim.half
        allowed = [z for z in range(-q, q + 1) if -q < 2 * z < q or 2 * z == ends_in * q]
        for z in range(-2 * q, 2 * q + 1):
            wrong += [int(centred([z], q)[0])] != [one for one in allowed if (one - z) % q == 0]
    yield equal("numbers with another representative", wrong, 0)


@checks("rounding/finite-slope", given(lambda stairs: replace(stairs, slopes=np.asarray(stairs.slopes) / 2)))
def finite_slope(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Runs random tokens through the library's layer at four slopes from 2 to 12 and compares with labels by
    whole numbers. At q = p = 2 the steps alternate and the bound is nearly attained, so its constant cannot
    be halved.
    """
    worst = 0.0
    for n, q, p in (*_CASES, (12, 2, 2)):
        v = by_hand.uniform_secret(n, q, rng)
        if q == 2:  # all entries odd, so that every step is there
            v = [1] * n
        x = by_hand.tokens(300 if scale is Scale.QUICK else 3000, n, rng)
        target = by_hand.targets(x, v, q, p)
        for beta in (2.0, 4.0, 7.0, 12.0):
            stairs = lwr_heads(np.array(v), LWEParameters(n, q, p), beta=beta)
            error = np.abs(stairs.layer()(x) - target).max()
            largest = float(np.abs(stairs.coefficients).max())
            bound = claim.front * largest * math.exp(-claim.exponent * beta)
            worst = max(worst, (error - claim.rounding) / (bound / (1 - math.exp(-2 * beta))))
    yield at_most("largest error over the bound", float(worst), 1.0)
    yield at_least("largest error over the bound", float(worst), 0.7)


@checks(
    "rounding/ternary-covariates",
    returned(lambda layer: AttentionLayer(theta=np.swapaxes(layer.theta, 1, 2), w=layer.w)),
)
def ternary_covariates(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Counts the law over all token pairs at d = 4. Compares labels of the layer with these Theta_i with
    whole numbers. Counts jumps by walking along f over [-|v|_1, |v|_1].
    """
    signs = list(itertools.product((-1, 1), repeat=4))
    found = Counter(
        tuple(x[0] * (a - b) // 2 for a, b in zip(x[1:], y[1:], strict=True))
        for x, y in itertools.product(signs, signs)
        if x[0] != y[0]
    )
    weights = dict(zip((-1, 0, 1), claim.weights, strict=True))
    law = all(
        found[a] * sum(claim.weights) ** 3 == math.prod(weights[one] for one in a) * sum(found.values())
        for a in itertools.product((-1, 0, 1), repeat=3)
    )
    error = off = 0.0
    for n, q, p in ((6, 8, 2), (8, 16, 4), (6, 7, 3)):
        v = by_hand.uniform_secret(n, q, rng)
        made = LWRFamily.of(LWEParameters(n, q, p, matrix="ternary"), beta=claim.beta).instance(secret=v)
        size = sum(map(abs, v))
        heads = by_hand.jumps(-size, size, q, p)
        by_hand_layer = by_hand.layer_of(
            v,
            heads
            + [(t, c) for t, c in zip((-size - _HALF, size + _HALF), _ternary_pads(size, q, p), strict=True)],
            claim.beta,
            ternary=True,
        )
        x = by_hand.tokens(200, n, rng)
        target = by_hand.targets(x, v, q, p, ternary=True)
        error = max(error, *(float(np.abs(one(x) - target).max()) for one in (made.layer, by_hand_layer)))
        off = max(off, abs(made.layer.heads - 2 - claim.range * p * size / q))
    yield equal("the law of three covariates on the gate", law, True)
    yield at_most("error of both layers", error, claim.error)
    yield at_most("jumps less 2 p |v|_1/q", off, claim.most_off)


@checks("rounding/gadget-identity", returned(lambda form: 2 * form))
def gadget_identity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all secrets and all covariates at n' = 2, q = 8 and n' = 1, q = 16, in whole numbers: each pair
    (u, label) appears once. That LWR with these parameters is hard is an assumption, not checked.
    """
    p, identity, uniform, same_form = claim.levels, True, True, True
    for n, kappa in ((2, 3), (1, 4)):
        q = 2**kappa
        parameters = LWEParameters(n, q, p, matrix="gadget")
        bits = np.array(list(itertools.product((0, 1), repeat=n * kappa)))
        powers = 2 ** (claim.first_power + np.arange(kappa))
        u = bits.reshape(-1, n, kappa) @ powers % q
        residues = Counter(map(tuple, u.tolist()))
        uniform &= len(residues) == q**n and set(residues.values()) == {claim.times_each_residue}
        for s in itertools.product(range(q), repeat=n):
            form = covariate_form(np.array(s), parameters)
            same_form &= [one % q for one in form.tolist()] == [
                2**i * one % q for one in s for i in range(kappa)
            ]
            labels = [by_hand.label(sum(map(int, form * a)), q, p) for a in bits]
            of_u = [
                by_hand.label(sum(x * y for x, y in zip(s, one, strict=True)), q, p) for one in u.tolist()
            ]
            identity &= labels == of_u
    yield equal("v_{j,i} = 2^i s_j mod q", same_form, True)
    yield equal("labels of <v, a> are those of <s, G a>", identity, True)
    yield equal("every vector of residues is G a for as many a", uniform, True)


@checks("rounding/parity", returned(lambda found: (found[0], found[1][::-1])), differ=Fraction(1, 8))
def parity(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes all secrets and covariates at n = 5, and elimination over GF(2) from all of them. The law of
    label and parity under the library's flips eta = 1/8 is computed in fractions. The cost of learning with
    flips is not checked.
    """
    bits = np.array(list(itertools.product((0, 1), repeat=5)))
    is_parity = solved = True
    for v in bits:
        odd = [sum(a for a, one in zip(row, v, strict=True) if one) % 2 for row in bits.tolist()]
        labels = rounded(bits @ v, 2, 2)
        is_parity &= labels.tolist() == odd
        found = solve_gf2(bits.astype(bool), labels.astype(bool))
        solved &= found.consistent and np.asarray(found.solution).astype(int).tolist() == v.tolist()
    errors, chances = Flips(claim.eta).support(2)
    differ = sum(
        (
            Fraction(float(chance))
            for error, chance in zip(errors, chances, strict=True)
            if any(by_hand.label(t + int(error), 2, 2) != t % 2 for t in (0, 1))
        ),
        Fraction(0),
    )
    yield equal("labels are parities", is_parity, True)
    yield equal("elimination finds every secret", bool(solved), True)
    yield equal("probability that label and parity differ", differ, claim.differ)


@checks("rounding/noisy-examples", lambda right: lambda parameters, y, rng: y[:, :, :-2])
def noisy_example_labels(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Takes the library's noisy examples with flips eta = 1/8, and with centred binomial errors (half of them
    0) at q = p = 8. Labels without errors are computed from the tokens by whole numbers.
    """
    laws = ((2, Flips(0.125), "eta", {0, 1}), (8, CentredBinomial(1), "changed", {-1, 0, 1}))
    for q, law, name, values in laws:
        v = by_hand.uniform_secret(8, q, rng)
        family = LWRFamily(n=8, q=q, p=q, Xe=law)
        x, y = family.examples(family.instance(secret=v), rng=rng).draw(
            4000 if scale is Scale.QUICK else 40_000
        )
        on = x[:, 0, 0] != x[:, 1, 0]
        # row 1 is x_11 (label - (q-1)/2): the difference to the label without errors, centred mod q
        off = (x[:, 0, 0] * (y - by_hand.targets(x, v, q, q))[:, 0, 0])[on].astype(int) % q
        errors = np.where(2 * off > q, off - q, off)
        share = proportion_interval(int((errors != 0).sum()), int(on.sum()), confidence=0.9999)
        yield at_most(f"largest output off the gate, q = {q}", float(np.abs(y[~on]).max()), claim.off_gate)
        yield equal(f"errors are values of the law, q = {q}", set(errors.tolist()) <= values, True)
        yield covers(f"share of labels with an error, q = {q}", share, claim[name])


def _ternary_pads(size: int, q: int, p: int) -> tuple[Fraction, Fraction]:
    """The pads for T in [-size, size]."""
    total = Fraction(by_hand.label(size, q, p) - by_hand.label(-size, q, p), 2)
    middle, centre = Fraction(by_hand.label(size, q, p) + by_hand.label(-size, q, p), 2), Fraction(p - 1, 2)
    return (middle - centre - total) / 2, (centre - middle - total) / 2
