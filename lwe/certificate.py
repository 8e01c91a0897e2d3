"""The statements of a certificate: its assumption, the numbers of its secret, and what is not claimed."""

import math

import numpy as np
from jaxtyping import Int

from lower import Hardness, Heads, Statement
from lwe.heads import kept_range, truncation_failure, value_range
from lwe.labels import LowDegreeWeights, root_mean_square_correlation
from lwe.parameters import LWRParameters
from lwe.uniformity import total_variation_from_uniform
from lwe.verdict import LEAST_WRAP, Verdict

__all__ = ["lwr_statements"]

_MOST_EXACT = 1 << 22
_DERIVED = "Derived here; exact for this secret"
_TOO_LARGE = (
    "it is computed residue by residue, for q up to 2^22, n q up to 2^28 and, for weights, n^2 q up to 2^37."
)


def lwr_statements(
    form: Int[np.ndarray, " n"],
    heads: Heads,
    error: float,
    parameters: LWRParameters,
    verdict: Verdict,
    deviations: float | None,
) -> list[Statement]:
    """The statements about an instance: the covariate form of its secret, its heads, its error and its verdict."""
    statements = [
        Statement.derived(
            "assumption",
            str(parameters),
            parameters.assumption,
            "Banerjee, Peikert and Rosen 2012; Regev 2005; Blum, Furst, Kearns and Lipton 1993; on small secrets "
            "Applebaum, Cash, Peikert and Sahai 2009",
        ),
        *_of_the_secret(form, parameters, verdict),
        _heads(form, heads, parameters, deviations),
        _realisation(heads, error, deviations),
    ]
    if deviations is not None:
        statements.append(_truncation(form, parameters, deviations))
    if parameters.noisy:
        statements.append(
            Statement.derived(
                "noise",
                parameters.noise.words,
                f"The layer has none: its labels are f(T). Errors are added to the labels of examples, f(T + e), by "
                f"lwe.noisy_examples; then the secret itself predicts a share of about {parameters.best_accuracy:.4g}.",
                "Derived here; the share is exact for a uniform inner product",
            )
        )
    statements += [
        Statement.derived(
            "verdict",
            (Hardness.ASSUMED if verdict.passes else Hardness.NEITHER).value,
            str(verdict),
            "lwe.judge_secret; its limits are conventions of this project",
        ),
        Statement.derived(
            "what is claimed",
            "no security",
            "A learner of this family would solve the problem named above; that an attack fails here is no "
            "claim of security.",
        ),
    ]
    return statements


def _of_the_secret(form: np.ndarray, parameters: LWRParameters, verdict: Verdict) -> list[Statement]:
    assert verdict.rho is not None  # heads have no uniform matrix
    wraps = (
        "the sum wraps around"
        if verdict.rho >= LEAST_WRAP
        else f"below {LEAST_WRAP}, so the sum hardly wraps around: expect an easy one"
    )
    size = "|v|_2 / (sqrt 2 q)" if parameters.matrix == "ternary" else "|v|_2 / (2q)"
    statements = [
        Statement.derived(
            "rho",
            verdict.rho,
            f"{size}, the standard deviation of the inner product in units of q; {wraps}.",
            "Exact for this secret",
        ),
        _distance(form, parameters, verdict.log2_distance),
        *_weights(verdict.weights),
    ]
    if parameters.matrix == "binary" and parameters.secret.kind == "uniform":
        statements.append(
            Statement.derived(
                "correlation of secrets",
                root_mean_square_correlation(parameters),
                "Root mean square, over pairs of uniform secrets, of how their labels correlate; statistical queries "
                "of a larger tolerance hardly tell them apart, which says nothing of other algorithms.",
                "lwe.root_mean_square_correlation; exact for the family",
            )
        )
    return statements


def _distance(form: np.ndarray, parameters: LWRParameters, log2: float | None) -> Statement:
    q, n = parameters.modulus, len(form)
    what = "Total variation distance of the inner product mod q from uniform"
    if log2 is None:
        told = f"{what}: {_TOO_LARGE}"
        if parameters.matrix == "binary" and parameters.secret.kind == "uniform":
            bound = (math.log2(q - 1) - n) / 2 - 1
            told += f" Its mean over uniform secrets is at most sqrt((q - 1) / 2^n) / 2 = {_power(bound)}."
        return Statement.derived("distance from uniform", "not computed", told)
    exact = n * q <= _MOST_EXACT
    distance = float(total_variation_from_uniform(form, q, parameters.matrix)) if exact else float(2.0**log2)
    return Statement(
        "distance from uniform",
        _share(distance, log2),
        f"{what}, over random covariates; {_power(log2)}.",
        "proved" if exact else "derived",
        "lwe.total_variation_from_uniform, exact dynamic programming"
        if exact
        else "lwe.log2_distance_from_uniform, from the characters in floating point",
    )


def _weights(weights: LowDegreeWeights | None) -> list[Statement]:
    whats = ("single covariates", "pairs of covariates and no fewer")
    shares = [f"The share of the centred label that {what} tell, without noise" for what in whats]
    told: list[tuple[float | str, str]]
    if weights is None:
        told = [("not computed", f"{share}: {_TOO_LARGE}") for share in shares]
    else:
        told = [
            _weight(shares[0], weights.first, weights.log2_first, weights.first_resolved),
            _weight(shares[1], weights.second, weights.log2_second, weights.second_resolved),
        ]
    source = "lwe.low_degree_weights, by characters in floating point"
    return [
        Statement.derived(f"weight of degree {degree}", value, meaning, source)
        for degree, (value, meaning) in enumerate(told, 1)
    ]


def _weight(share: str, value: float, log2: float, resolved: bool) -> tuple[float | str, str]:
    """The value of a weight, and what it means."""
    if resolved:
        return _share(value, log2), f"{share}; {_power(log2)}."
    return (
        f"at most {_power(log2)}",
        f"{share}; its terms cancel, and rounding leaves no more than a bound.",
    )


def _share(share: float, log2: float) -> float | str:
    """The share, or a power of 2 if it is too small for a float."""
    return share if share > 0 or log2 == -math.inf else _power(log2)


def _power(log2: float) -> str:
    return "exactly 0" if log2 == -math.inf else f"2^{log2:.5g}"


def _heads(form: np.ndarray, heads: Heads, parameters: LWRParameters, deviations: float | None) -> Statement:
    spread = np.abs(form).sum() * parameters.levels / parameters.modulus
    told = f"|v|_1 p / q is {spread:.4g}"
    if parameters.matrix == "ternary":
        told = f"2 |v|_1 p / q is {2 * spread:.4g}"
    within = "" if deviations is None else f" within {deviations:g} standard deviations"
    return Statement.derived(
        "heads",
        len(heads),
        f"{len(heads) - 2} jumps of the label{within} and two pads; {told}.",
        _DERIVED,
    )


def _realisation(heads: Heads, error: float, deviations: float | None) -> Statement:
    target = "its ideal target"
    if deviations is not None:
        target = (
            "the label at T, or, where T is beyond the range of the heads, at the last value of T in it: so the "
            "label of T itself is met up to this bound on all inputs but those of the statement on truncation"
        )
    return Statement(
        "realisation error",
        error,
        f"Bound on the row norm of the layer minus {target}, in exact arithmetic; evaluating the layer "
        "in float64 adds rounding of about eps sum|c| = "
        f"{np.finfo(np.float64).eps * np.abs(heads.coefficients).sum():.1e}, and none where the softmax is "
        "saturated (slope 40).",
        "proved",
        "lower.Heads.one_slope_error: one slope and distinct half-integer thresholds, so 4 max|c| e^-b / (1 - e^-2b) "
        "applies",
    )


def _truncation(form: np.ndarray, parameters: LWRParameters, deviations: float) -> Statement:
    low, high = kept_range(form, parameters.matrix, deviations)
    least, most = value_range(form, parameters.matrix)
    return Statement(
        "truncation",
        truncation_failure(deviations),
        f"2 e^(-{deviations:g}^2 / 2), a bound on the share of covariates whose T is beyond {deviations:g} standard "
        f"deviations of its mean; the heads cover T from {low} to {high} of {least} to {most}. Beyond, the label is "
        "held at the last one covered, so the output stays a label, but it may be the wrong one.",
        "proved",
        "Hoeffding's inequality; lwe.truncation_failure",
    )
