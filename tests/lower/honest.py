"""Honest instances of every family, for the tests of verification."""

from functools import cache

import numpy as np

from lwe import TERNARY, CentredBinomial, Flips, LWRFamily, SparseSigned
from sq import (
    HiddenGateFamily,
    PairFamily,
    ParityFamily,
    PeriodicFamily,
    ProfileFamily,
    TokenParityFamily,
)

HONEST = {
    "parity-A": lambda: ParityFamily(dim=7, bits=3, construction="A").instance(4),
    "parity-B": lambda: ParityFamily(dim=9, bits=4, construction="B").instance(3),
    "parity-C": lambda: ParityFamily(dim=8, bits=3, construction="C", beta=0.7).instance(9),
    "parity-D": lambda: ParityFamily(dim=9, bits=5).instance(10, direction=np.arange(1.0, 10.0)),
    "pair": lambda: PairFamily(dim=9, beta=0.3).instance(5, direction=np.cos(np.arange(9.0))),
    "bump": lambda: ProfileFamily.bump(dim=12, bits=9, at=0).instance(1),
    "designed-steps": lambda: ProfileFamily.designed_steps(dim=9, bits=6, heads_count=4).instance(2),
    "centre-threshold": lambda: ProfileFamily.centre_threshold(
        dim=9, bits=5, heads_count=3, steps="best-fit"
    ).instance(1),
    "token-parity": lambda: TokenParityFamily(dim=7, tokens=4, bits=3, beta=9.0).instance(1),
    "hidden-gate-two-slope": lambda: HiddenGateFamily(base=ProfileFamily.two_slope(dim=8, bits=4)).instance(
        200
    ),
    "periodic": lambda: PeriodicFamily(dim=6, gamma=0.7).instance(rng=3),
    "periodic-set": lambda: PeriodicFamily(dim=8, bits=3, gamma=0.5).instance(
        5, direction=np.arange(1.0, 9.0)
    ),
    "lwr": lambda: LWRFamily(n=21, q=16, p=4).instance(rng=0),
    "lwr-gadget": lambda: LWRFamily(n=4, q=16, p=2, matrix="gadget").instance(rng=0),
    "lwr-ternary": lambda: LWRFamily(n=9, q=11, p=3, matrix="ternary").instance(rng=0),
    "lwr-truncated": lambda: LWRFamily(n=16, q=16, p=4, deviations=2.0, beta=7.0).instance(rng=1),
    "lwe-noise": lambda: LWRFamily(n=9, q=17, p=17, Xs=TERNARY, Xe=CentredBinomial(2)).instance(rng=0),
    "lpn": lambda: LWRFamily(n=12, q=2, p=2, Xs=SparseSigned(4), Xe=Flips(0.1)).instance(rng=0),
}


@cache
def honest(kind):
    return HONEST[kind]()


# families that differ from another only in their profile or their law
ALIKE = {
    "parity-A",
    "parity-B",
    "designed-steps",
    "centre-threshold",
    "lwr-ternary",
    "lwe-noise",
    "periodic-set",
}
