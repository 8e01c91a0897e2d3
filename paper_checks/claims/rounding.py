"""Claims: Learning with rounding, realised by heads."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import sympy
from numpy.random import Generator

from attention import AttentionLayer
from lower import solve_gf2
from lwe import (
    BinomialLaw,
    FlipLaw,
    LWRParameters,
    centred,
    covariate_form,
    covariates_of,
    lwr_instance,
    lwr_layer,
    lwr_staircase,
    make_lwr_instance,
    noisy_examples,
    rounded,
)
from paper_checks.check import Basis, Constants, Scale, check
from paper_checks.claims import _heads_by_hand as by_hand
from paper_checks.claims import _rounding_sizes as sizes
from paper_checks.comparison import (
    Comparison,
    Kind,
    at_least,
    at_most,
    covers,
    equal,
)
from paper_checks.faults import Fault, given, returned
from paper_checks.intervals import proportion_interval

_CASES = ((6, 8, 2), (6, 16, 4), (8, 7, 3), (10, 64, 2), (5, 17, 17), (12, 4, 2))
_HALF = Fraction(1, 2)


@check(
    "rounding/uniform-covariates",
    claim="For uniform tokens x_1, x_2 in {-1, 1}^d the covariates a_j = 1[x_1j != x_2j], j = 2..d, are exactly "
    "uniform bits, on the gate x_11 != x_21 and off it.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All 4^d token pairs at d = 5 are listed; that signs of independent fair tokens differ as fair coins is the "
    "proof.",
    constants={"d": 5, "pairs_per_pattern": 32, "differences": (-2, 2)},
    wrong=Fault("lwe.examples:covariates_of", returned(lambda bits: 1 - bits), "1 where tokens agree"),
)
def uniform_covariates(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Count each pattern of gate and covariates."""
    d = constants["d"]
    signs = list(itertools.product((-1, 1), repeat=d))
    found: Counter[tuple[bool, ...]] = Counter()
    for one, other in itertools.product(signs, signs):
        bits = [x - y in constants["differences"] for x, y in zip(one, other, strict=True)]
        found[one[0] != other[0], *bits[1:]] += 1
    x = np.array(list(itertools.product(signs, signs)), dtype=float)
    library = covariates_of(x, LWRParameters(secret_dim=d - 1, modulus=4, levels=2), 0)
    own = [
        [int(a - b in constants["differences"]) for a, b in zip(*pair, strict=True)][1:]
        for pair in x.tolist()
    ]
    return [
        equal("patterns of gate and covariates", len(found), 2**d),
        equal("how often a pattern occurs", sorted(set(found.values())), [constants["pairs_per_pattern"]]),
        equal("the library's covariates are these", bool((library == np.array(own)).all()), True),
    ]


@check(
    "rounding/padded-layer-exact",
    claim="With the pads alpha = (c0 - (p-1)/2 - C)/2 below and gamma = (-C - c0 + (p-1)/2)/2 above, row r of the "
    "layer is x_r1 (f(T) - (p-1)/2) e_1 on the gate and 0 off it, T = <v, a>: in double precision with error 0 at "
    "beta = 40.",
    source="derived here (proof: docstrings of lwe.heads.lwr_staircase and lower.Staircase)",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Six (n, q, p), uniform secrets, random tokens; heads written from the formulas, and the library's layer, "
    "against labels by whole numbers. That the error is 0 and not merely small is a fact of float64 at this slope, "
    "seen on these inputs.",
    constants={"beta": 40.0, "error": 0.0, "pad_share": _HALF},
    wrong=Fault(
        "lwe.heads:lwr_staircase",
        returned(
            lambda stairs: replace(
                stairs,
                coefficients=np.concatenate(
                    [stairs.coefficients[-1:], stairs.coefficients[1:-1], stairs.coefficients[:1]]
                ),
            )
        ),
        "the two pads exchanged",
    ),
)
def padded_layer_exact(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Both layers against the labels."""
    number = 200 if scale is Scale.QUICK else 4000
    own = library = 0.0
    for n, q, p in _CASES:
        v = by_hand.uniform_secret(n, q, rng)
        heads = by_hand.jumps(*by_hand.ends(v), q, p) + by_hand.pads(v, q, p, constants["pad_share"])
        x = by_hand.tokens(number, n, rng)
        target = by_hand.targets(x, v, q, p)
        own = max(own, np.abs(by_hand.layer_of(v, heads, constants["beta"])(x) - target).max())
        made = make_lwr_instance(secret_dim=n, modulus=q, levels=p, secret=v, beta=constants["beta"])
        library = max(library, np.abs(made.layer(x) - target).max())
    return [
        at_most("error of the heads written from the formulas", float(own), constants["error"]),
        at_most("error of the library's layer", float(library), constants["error"]),
    ]


@check(
    "rounding/pads-unique",
    claim="Heads at the jumps alone give f(T) - c0 on the gate and C off it, c0 = (f(sum v^-) + f(sum v^+))/2 and C "
    "= (f(sum v^+) - f(sum v^-))/2, which depend on the secret: a query off the gate sees its weights; exactly one "
    "pair of pads makes these (p-1)/2 and 0 for all secrets.",
    source="derived here",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="The two linear equations for the pads are solved in symbols; C is listed for all secrets of n = 3, q = 8, "
    "p = 4 from a loop over the jumps: without pads it takes all 2p - 1 multiples of 1/2, with pads the value 0 "
    "alone.",
    constants={"unpadded_values": 7, "padded_values": 1, "pad_share": _HALF},
    wrong=Fault(
        "paper_checks.claims._heads_by_hand:pads",
        returned(lambda found: [(at, 2 * c) for at, c in found]),
        "pads of twice the size",
    ),
)
def pads_unique(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Solve for the pads, and list what is seen without them."""
    alpha, gamma, c, c0, centre = sympy.symbols("alpha gamma C c0 centre")
    # the lower pad is above its threshold on the gate, the upper one below; off the gate both give their coefficient
    solved = sympy.solve([c + alpha + gamma, -c0 + alpha - gamma + centre], [alpha, gamma], dict=True)
    share = sympy.Rational(constants["pad_share"])
    stated = [{alpha: share * (c0 - centre - c), gamma: share * (centre - c0 - c)}]
    n, q, p = 3, 8, 4
    without, within, telescoped = set(), set(), True
    for v in itertools.product(range(-3, 5), repeat=n):
        low, high = by_hand.ends(v)
        total = sum((one for _, one in by_hand.jumps(low, high, q, p)), Fraction(0))
        two = by_hand.pads(v, q, p, constants["pad_share"])
        without.add(total)
        within.add(total + sum(one for _, one in two))
        telescoped &= total == Fraction(by_hand.label(high, q, p) - by_hand.label(low, q, p), 2)
    return [
        equal(
            "solutions for the pads",
            [{k: sympy.expand(x) for k, x in one.items()} for one in solved],
            [{k: sympy.expand(x) for k, x in one.items()} for one in stated],
        ),
        equal("C is half the difference of the end labels", telescoped, True),
        equal("values of C over all secrets, without pads", len(without), constants["unpadded_values"]),
        equal("values off the gate over all secrets, with pads", len(within), constants["padded_values"]),
    ]


@check(
    "rounding/centred-representative",
    claim="Secrets are centred to (-q/2, q/2]: the residue q/2 of an even q stands for q/2, not for -q/2.",
    source="derived here: a convention of the realisation",
    kind=Kind.EXACT,
    basis=Basis.DERIVED,
    how="All whole numbers from -2q to 2q for q = 2, ..., 40, against a search of the interval.",
    constants={"half": 1},
    wrong=Fault(
        "lwe.parameters:centred",
        lambda right: lambda values, q: -right(-np.asarray(values), q),
        "q/2 stands for -q/2",
    ),
)
def centred_representative(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Search the interval with the one of its ends that belongs to it."""
    wrong = 0
    for q in range(2, 41):
        ends_in = constants["half"]
        allowed = [z for z in range(-q, q + 1) if -q < 2 * z < q or 2 * z == ends_in * q]
        for z in range(-2 * q, 2 * q + 1):
            wrong += [int(centred([z], q)[0])] != [one for one in allowed if (one - z) % q == 0]
    return [equal("numbers with another representative", wrong, 0)]


@check(
    "rounding/finite-slope",
    claim="At slope beta a row of the layer is off the labels by at most 4 max|c| e^-beta / (1 - e^(-2 beta)), c "
    "the coefficients of the heads.",
    source="derived here (proof: docstring of lower.Staircase.error_bound)",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="Random tokens through the library's layer at four slopes from 2 to 12 against labels by whole numbers; at "
    "q = p = 2, where steps alternate, the bound is nearly reached, so its constant cannot be halved.",
    constants={"front": 4.0, "exponent": 1.0, "rounding": 1e-12},
    wrong=Fault(
        "lower.staircase:Staircase.layer",
        given(lambda stairs: replace(stairs, slopes=np.asarray(stairs.slopes) / 2)),
        "half of the slopes",
    ),
)
def finite_slope(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The largest error over the bound."""
    worst = 0.0
    for n, q, p in (*_CASES, (12, 2, 2)):
        v = by_hand.uniform_secret(n, q, rng)
        if q == 2:  # all entries odd, so that every step is there
            v = [1] * n
        x = by_hand.tokens(300 if scale is Scale.QUICK else 3000, n, rng)
        target = by_hand.targets(x, v, q, p)
        for beta in (2.0, 4.0, 7.0, 12.0):
            stairs = lwr_staircase(np.array(v), LWRParameters(n, q, p), beta=beta)
            error = np.abs(lwr_layer(stairs, "binary")(x) - target).max()
            largest = float(np.abs(stairs.coefficients).max())
            bound = constants["front"] * largest * math.exp(-constants["exponent"] * beta)
            worst = max(worst, (error - constants["rounding"]) / (bound / (1 - math.exp(-2 * beta))))
    return [
        at_most("largest error over the bound", float(worst), 1.0),
        at_least("largest error over the bound", float(worst), 0.7),
    ]


@check(
    "rounding/ternary-covariates",
    claim="With Theta_i = beta (e_1 v^T - t_i e_1 e_1^T) the heads read a_j = x_11 (x_1j - x_2j)/2 in {-1, 0, 1}, "
    "independent with probabilities 1/4, 1/2, 1/4, and need about 2 p |v|_1/q jumps.",
    source="derived here (proof: docstring of lwe.heads.lwr_layer)",
    kind=Kind.NUMERIC,
    basis=Basis.PROVED,
    how="The law is counted over all token pairs at d = 4; labels of the layer with these Theta_i against whole "
    "numbers; jumps are counted by walking along f over [-|v|_1, |v|_1].",
    constants={"weights": (1, 2, 1), "range": 2, "error": 0.0, "most_off": 1.0, "beta": 40.0},
    wrong=Fault(
        "lwe.heads:lwr_layer",
        returned(lambda layer: AttentionLayer(theta=np.swapaxes(layer.theta, 1, 2), w=layer.w)),
        "Theta_i transposed",
    ),
)
def ternary_covariates(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The law, the labels and the number of heads."""
    signs = list(itertools.product((-1, 1), repeat=4))
    found = Counter(
        tuple(x[0] * (a - b) // 2 for a, b in zip(x[1:], y[1:], strict=True))
        for x, y in itertools.product(signs, signs)
        if x[0] != y[0]
    )
    weights = dict(zip((-1, 0, 1), constants["weights"], strict=True))
    law = all(
        found[a] * sum(constants["weights"]) ** 3
        == math.prod(weights[one] for one in a) * sum(found.values())
        for a in itertools.product((-1, 0, 1), repeat=3)
    )
    error = off = 0.0
    for n, q, p in ((6, 8, 2), (8, 16, 4), (6, 7, 3)):
        v = by_hand.uniform_secret(n, q, rng)
        made = lwr_instance(LWRParameters(n, q, p, matrix="ternary"), secret=v, beta=constants["beta"])
        size = sum(map(abs, v))
        heads = by_hand.jumps(-size, size, q, p)
        by_hand_layer = by_hand.layer_of(
            v,
            heads
            + [(t, c) for t, c in zip((-size - _HALF, size + _HALF), _ternary_pads(size, q, p), strict=True)],
            constants["beta"],
            ternary=True,
        )
        x = by_hand.tokens(200, n, rng)
        target = by_hand.targets(x, v, q, p, ternary=True)
        error = max(error, *(float(np.abs(one(x) - target).max()) for one in (made.layer, by_hand_layer)))
        off = max(off, abs(made.layer.heads - 2 - constants["range"] * p * size / q))
    return [
        equal("the law of three covariates on the gate", law, True),
        at_most("error of both layers", error, constants["error"]),
        at_most("jumps less 2 p |v|_1/q", off, constants["most_off"]),
    ]


@check(
    "rounding/gadget-identity",
    claim="With q = 2^kappa and v_{j,i} = 2^i s_j mod q, <v, a> = <s, G a> mod q, G a the residues that the bits of "
    "a spell; G a is exactly uniform in Z_q^n', so labelled covariates are exactly LWR_{n',q,p}, q a power of two.",
    source="derived here, from the gadget matrix of Micciancio and Peikert 2012",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All secrets and all covariates at n' = 2, q = 8 and n' = 1, q = 16, in whole numbers: each pair (u, label) "
    "once. That LWR with these parameters is hard is an assumption, not checked.",
    constants={"first_power": 0, "times_each_residue": 1, "levels": 2},
    wrong=Fault("lwe.parameters:covariate_form", returned(lambda form: 2 * form), "powers of two from 2 on"),
)
def gadget_identity(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """List everything."""
    p, identity, uniform, same_form = constants["levels"], True, True, True
    for n, kappa in ((2, 3), (1, 4)):
        q = 2**kappa
        parameters = LWRParameters(n, q, p, matrix="gadget")
        bits = np.array(list(itertools.product((0, 1), repeat=n * kappa)))
        powers = 2 ** (constants["first_power"] + np.arange(kappa))
        u = bits.reshape(-1, n, kappa) @ powers % q
        residues = Counter(map(tuple, u.tolist()))
        uniform &= len(residues) == q**n and set(residues.values()) == {constants["times_each_residue"]}
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
    return [
        equal("v_{j,i} = 2^i s_j mod q", same_form, True),
        equal("labels of <v, a> are those of <s, G a>", identity, True),
        equal("every vector of residues is G a for as many a", uniform, True),
    ]


@check(
    "rounding/parity",
    claim="At q = p = 2 the label is the parity of the a_j with v_j odd, which Gaussian elimination reads off; a "
    "label flipped with probability eta gives exactly learning parity with noise: label and parity differ for a "
    "share eta.",
    source="derived here; Blum, Furst, Kearns and Lipton 1993 for learning parity with noise",
    kind=Kind.EXACT,
    basis=Basis.PROVED,
    how="All secrets and covariates at n = 5; elimination over GF(2) from all of them; the law of label and parity "
    "under the library's flips eta = 1/8 in fractions. Of the cost of learning with flips nothing is checked.",
    constants={"eta": 0.125, "differ": Fraction(1, 8)},
    wrong=Fault(
        "lwe.laws:FlipLaw._values",
        returned(lambda found: (found[0], found[1][::-1])),
        "the two chances exchanged",
    ),
)
def parity(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """Parities, elimination, and the law with flips."""
    bits = np.array(list(itertools.product((0, 1), repeat=5)))
    is_parity = solved = True
    for v in bits:
        odd = [sum(a for a, one in zip(row, v, strict=True) if one) % 2 for row in bits.tolist()]
        labels = rounded(bits @ v, 2, 2)
        is_parity &= labels.tolist() == odd
        found = solve_gf2(bits.astype(bool), labels.astype(bool))
        solved &= found.consistent and np.asarray(found.solution).astype(int).tolist() == v.tolist()
    errors, chances = FlipLaw(constants["eta"]).support(2)
    differ = sum(
        (
            Fraction(float(chance))
            for error, chance in zip(errors, chances, strict=True)
            if any(by_hand.label(t + int(error), 2, 2) != t % 2 for t in (0, 1))
        ),
        Fraction(0),
    )
    return [
        equal("labels are parities", is_parity, True),
        equal("elimination finds every secret", bool(solved), True),
        equal("probability that label and parity differ", differ, constants["differ"]),
    ]


@check(
    "rounding/noisy-examples",
    claim="Errors enter the labels on the gate: at q = p examples are learning-with-errors samples T + e mod q with "
    "e of the given law, at q = p = 2 with flips learning parity with noise; off the gate the outputs stay 0.",
    source="derived here; Regev 2005 for learning with errors",
    kind=Kind.STATISTICAL,
    basis=Basis.DERIVED,
    how="The library's noisy examples with flips eta = 1/8, and with centred binomial errors (0 for half of them) "
    "at q = p = 8; labels without errors are computed from the tokens by whole numbers.",
    constants={"eta": 0.125, "changed": 0.5, "off_gate": 0.0},
    wrong=Fault(
        "lwe.examples:_ErrorsOnTheGate.__call__",
        lambda right: lambda self, y, rng: y[:, :, :-2],
        "labels without errors",
    ),
    false_alarm=2e-4,
)
def noisy_example_labels(constants: Constants, scale: Scale, rng: Generator) -> Sequence[Comparison]:
    """The shares of labels that errors change."""
    found = []
    laws = ((2, FlipLaw(0.125), "eta", {0, 1}), (8, BinomialLaw(1), "changed", {-1, 0, 1}))
    for q, law, name, values in laws:
        v = by_hand.uniform_secret(8, q, rng)
        made = make_lwr_instance(secret_dim=8, modulus=q, levels=q, noise=law, secret=v)
        x, y = noisy_examples(made, rng=rng).draw(4000 if scale is Scale.QUICK else 40_000)
        on = x[:, 0, 0] != x[:, 1, 0]
        # row 1 is x_11 (label - (q-1)/2): the difference to the label without errors, centred mod q
        off = (x[:, 0, 0] * (y - by_hand.targets(x, v, q, q))[:, 0, 0])[on].astype(int) % q
        errors = np.where(2 * off > q, off - q, off)
        share = proportion_interval(int((errors != 0).sum()), int(on.sum()), confidence=0.9999)
        found += [
            at_most(
                f"largest output off the gate, q = {q}", float(np.abs(y[~on]).max()), constants["off_gate"]
            ),
            equal(f"errors are values of the law, q = {q}", set(errors.tolist()) <= values, True),
            covers(f"share of labels with an error, q = {q}", share, constants[name]),
        ]
    return found


# checks of this group that are written in a module of their own
head_count, jump_count_quarter = sizes.head_count, sizes.jump_count_quarter
truncation, gadget_size = sizes.truncation, sizes.gadget_size


def _ternary_pads(size: int, q: int, p: int) -> tuple[Fraction, Fraction]:
    """The pads for T in [-size, size]."""
    total = Fraction(by_hand.label(size, q, p) - by_hand.label(-size, q, p), 2)
    middle, centre = Fraction(by_hand.label(size, q, p) + by_hand.label(-size, q, p), 2), Fraction(p - 1, 2)
    return (middle - centre - total) / 2, (centre - middle - total) / 2
