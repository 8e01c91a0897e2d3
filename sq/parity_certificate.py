"""What is known of a hidden parity: how many targets, what of it is seen, what queries tell, who breaks it."""

import numpy as np

from lower import Certificate, Statement, number_of_parities, query_lower_bound, query_verdict
from sq.heads import ParityHeads

__all__ = ["PARITY", "parity_certificate"]

PARITY = "sq-parity"
_TOLERANCES = ("0.3", "0.1", "0.05")


def parity_certificate(heads: ParityHeads, dim: int, error: float) -> Certificate:
    """Statements of the parity these heads hide among the coordinates of `dim`, realised up to `error`; O(d)."""
    bits, shared = heads.bits, heads.c**2 + heads.c0**2
    targets = number_of_parities(dim, bits)
    here = "Derived here; checked over all secrets and inputs at d = 6"
    statements = [
        Statement(
            "targets",
            targets,
            f"{heads.heads} heads hide a parity of {bits} of {dim - 1} coordinates: C({dim - 1}, {bits}) "
            f"targets, of the order d^{bits}.",
            "derived",
            here,
        ),
        Statement(
            "correlation of two targets, known part off",
            0.0,
            "E<F_S - K, F_T - K> = 0 for S != T (and 1 for S = T): on the gate they are distinct characters.",
            "proved",
            "Orthogonality of characters",
        ),
        Statement(
            "Gram diagonal",
            shared + 1,
            "E|F_S|^2 over both rows, C^2 + c0^2 + 1.",
            "derived",
            here,
        ),
        Statement(
            "Gram off the diagonal",
            shared,
            "E<F_S, F_T> for S != T, C^2 + c0^2: all of it is the known part's.",
            "derived",
            here,
        ),
        Statement(
            "share of the energy that is unknown",
            1 / (shared + 1),
            "Report errors relative to this part: the rest is known in advance.",
            "derived",
            here,
        ),
        Statement(
            "lowest degree of the unknown part",
            2 * bits + 1,
            f"Every Fourier coefficient of F - K of degree below {2 * bits + 1} in the entries of X is zero.",
            "derived",
            here,
        ),
        *(
            Statement(
                f"queries at tolerance {tau}",
                query_lower_bound(targets, tau),
                "A deterministic learner that comes within E|H - F|^2 < kappa^2/2 = 1/2 of whichever of the targets "
                "F it is given (over both rows; kappa = 1 scales the hidden part, and coming so close identifies the "
                f"secret) needs at least this many correlational queries of tolerance {tau}; one scalar query "
                "counts one. A learner content with a larger error is not covered.",
                "proved",
                "lower.query_lower_bound",
            )
            for tau in _TOLERANCES
        ),
        Statement(
            "realisation error",
            error,
            "Upper bound on the row norm of the layer minus its ideal target, in exact arithmetic; evaluating the "
            "layer in float64 adds rounding of about eps sum|c| = "
            f"{np.finfo(np.float64).eps * np.abs(heads.coefficients).sum():.1e}.",
            "derived",
            "Enumeration of every reachable value to 50 digits, rounded outward",
        ),
        Statement(
            "what the bounds do not cover",
            "the low digits of the labels",
            _DIGITS[heads.construction],
            "derived",
            "Derived here",
        ),
        query_verdict(targets, dim),
        Statement(
            "who breaks it",
            "Gaussian elimination over GF(2)",
            f"About {2 * (dim + 9)} noise-free examples give {dim + 9} equations, and these the secret with "
            "probability .999. Elimination asks no statistical queries: no bound above speaks of it.",
            "proved",
            "sq.ParityElimination",
        ),
    ]
    return Certificate(PARITY, tuple(statements))


_ORACLES = (
    "With exactly two-valued labels queries of STAT(tau) have a like bound, sq.full_query_cap; of other oracles "
    "nothing is proved. "
)
_LEAK = (
    "A finite slope leaks in the low digits; from slope 38 on the float64 softmax is exactly saturated and nothing is "
    "left."
)
_ROUNDING = (
    "Floating-point rounding leaves the labels off by a few units of precision: round them to 1e-9 before asking for "
    "digits."
)
_DIGITS = {one: _ORACLES + (_LEAK if one in "AB" else _ROUNDING) for one in "ABCD"}
