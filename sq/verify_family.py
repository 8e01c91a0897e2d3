"""Whether a family is what it says: layers against definitions and correlations against closed forms, on inputs."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attention import BooleanInputs
from attention._arrays import count, random_generator
from attention.inputs import Rng
from lower import HardInstance, all_sign_matrices
from sq.realisation import MOST_SAMPLES
from sq.target_family import TargetFamily, require_family

__all__ = ["FamilyVerification", "verify_family"]

_EXHAUSTIVE_BITS = 16
_BLOCK = 4096
# Sums over 2^16 inputs of numbers of the size of hidden parts, in float64.
_ROUNDING = 1e-10


@dataclass(frozen=True)
class FamilyVerification:
    """What comparing a family with its own definitions gave.

    Attributes
    ----------
    max_error : float
        The largest Euclidean norm of a row of layer - K - scale f w^T, over the inputs and the targets checked.
    excess_error : float
        By how much that passes what it may be, the realisation error with an allowance for rounding; at most 0.
    allowed_error : float
        The largest that it may be.
    separation : float
        Half of what the rows of two targets are apart at most, on the inputs checked, for the two closest targets: an
        error from there on does not tell them apart.
    amplitude : float
        The smallest share of its hidden part that a layer shows, by projection: 1 for a true one.
    correlation_error : float
        The largest |E sum_a f_S f_T as measured - in closed form|, S = T (where it is 1) among them.
    allowed_correlation_error : float
        What that may be: rounding for full enumeration, else the largest half-width of the confidence intervals.
    correlations_hold : bool
        Whether every measured correlation is within rounding, or its own interval, of the closed form.
    targets_checked, inputs_checked : int
        How many targets, all pairs of which were compared, and on how many token matrices.
    exhaustive : bool
        Whether these were all inputs. Else intervals have joint `confidence`.
    confidence : float
        The probability with which all intervals hold together (Bonferroni).
    """

    max_error: float
    excess_error: float
    allowed_error: float
    separation: float
    amplitude: float
    correlation_error: float
    allowed_correlation_error: float
    correlations_hold: bool
    targets_checked: int
    inputs_checked: int
    exhaustive: bool
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether nothing checked contradicts the family; where not `exhaustive`, this is no proof."""
        told_apart = self.allowed_error < self.separation and self.amplitude > 0
        return self.excess_error <= 0 and told_apart and self.correlations_hold

    def __str__(self) -> str:
        which = "all inputs" if self.exhaustive else "random inputs, a sample of all"
        verdict = "Verified" if self.holds else "NOT verified"
        return (
            f"{verdict}: {self.targets_checked} targets on {self.inputs_checked} inputs ({which}), largest row error "
            f"{self.max_error:.3g} ({self.allowed_error:.3g} is allowed, targets are {2 * self.separation:.3g} apart), "
            f"correlations within {self.correlation_error:.3g} of their closed form "
            f"({self.allowed_correlation_error:.3g} is allowed)."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values; a number that is not finite is None."""
        fields = {"holds": self.holds, **asdict(self)}
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one
            for name, one in fields.items()
        }


def verify_family(
    family: TargetFamily,
    *,
    targets: int = 40,
    samples: int = 20_000,
    confidence: float = 0.9999,
    rng: Rng = None,
) -> FamilyVerification:
    """Compare layers with the definition of their hidden parts, and the correlations of those with their closed form.

    Parameters
    ----------
    family : TargetFamily
        The family. Its `hidden`, its `correlations` and the layers and known parts of its instances are compared
        with each other on inputs; how it was built is not looked at.
    targets : int
        How many targets to compare, pairwise; all if there are no more.
    samples : int
        How many inputs to draw where there are more than 2^16.
    confidence : float
        The joint confidence of the intervals then, in (0, 1).
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); chooses targets and draws inputs.

    Raises
    ------
    ValueError
        If a number is out of its range, or an instance says neither its direction nor its scale.

    Notes
    -----
    O(inputs (T k d m + T^2 k)) for T targets. Intervals on n random inputs are empirical Bernstein bounds,
    sqrt(2 V L / n) + 7 R L / (3 (n - 1)) on either side, with the sample variance V, L = ln(4 pairs / (1 - confidence))
    and for the range R twice the largest |sum_a f_S f_T| seen: rigorous for families of which no larger one is unseen.

    References
    ----------
    Maurer and Pontil 2009, Theorem 4, for the intervals.

    Examples
    --------
    >>> from sq.profiles import BumpFamily
    >>> checked = verify_family(BumpFamily(dim=6, bits=4))
    >>> checked.holds, checked.exhaustive, checked.targets_checked, checked.inputs_checked
    (True, True, 5, 4096)
    """
    require_family(family)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: a number above 0 and below 1 is needed.")
    rng = random_generator(rng)
    size, k, d = family.secrets.size, family.tokens, family.dim
    chosen = np.arange(size)
    if size > count("targets", targets):
        chosen = np.sort(rng.choice(size, size=targets, replace=False))
    exhaustive = k * d <= _EXHAUSTIVE_BITS
    total = 1 << (k * d) if exhaustive else count("samples", samples, least=2, most=MOST_SAMPLES)
    instances = [family.instance(int(one)) for one in chosen]
    errors, along, energy = np.zeros((3, len(chosen)))
    first, second, apart = np.zeros((3, len(chosen), len(chosen)))
    largest = 0.0
    for start in range(0, total, _BLOCK):
        stop = min(start + _BLOCK, total)
        x = (
            all_sign_matrices(k, d, start, stop)
            if exhaustive
            else BooleanInputs(k, d).sample(stop - start, rng=rng)
        )
        values = np.stack([family.hidden(int(one), x) for one in chosen])
        for place, instance in enumerate(instances):
            pattern, w = _scale(instance) * values[place], _direction(instance)
            rest = instance.layer(x) - instance.known(x)
            error = np.linalg.norm(rest - pattern[..., None] * w, axis=-1).max()
            errors[place] = np.maximum(errors[place], error)  # Python's max would drop a NaN
            along[place] += float(np.sum(rest @ w * pattern))
            energy[place] += float(np.sum(pattern**2))
        for place, own in enumerate(values):
            differences = _scale(instances[place]) * np.abs(values - own).max(axis=(1, 2))
            apart[place] = np.maximum(apart[place], differences)
            products = np.einsum("nk,tnk->tn", own, values)
            first[place] += products.sum(axis=1)
            second[place] += (products**2).sum(axis=1)
            largest = max(largest, float(np.abs(products).max()))
    measured = first / total
    closed = np.array([family.correlations(int(one))[chosen] for one in chosen])
    off = np.abs(measured - closed)
    allowed = np.full_like(off, _ROUNDING)
    if not exhaustive:
        pairs = len(chosen) * (len(chosen) + 1) / 2
        odds = math.log(4 * pairs / (1 - confidence))
        variance = np.maximum(second / total - measured**2, 0.0) * total / (total - 1)
        allowed += np.sqrt(2 * variance * odds / total) + 7 * 2 * largest * odds / (3 * (total - 1))
    np.fill_diagonal(apart, math.inf)
    excess = max(float(error - one.allowed_error) for error, one in zip(errors, instances, strict=True))
    return FamilyVerification(
        max_error=float(errors.max()),
        excess_error=excess if np.all(np.isfinite(errors)) else math.inf,
        allowed_error=max(one.allowed_error for one in instances),
        separation=float(apart.min()) / 2,
        amplitude=float(np.min(np.divide(along, energy, out=np.zeros_like(along), where=energy > 0))),
        correlation_error=float(off.max()),
        allowed_correlation_error=float(allowed.max()),
        correlations_hold=bool(np.all(off <= allowed)),
        targets_checked=len(chosen),
        inputs_checked=total,
        exhaustive=exhaustive,
        confidence=1.0 if exhaustive else confidence,
    )


def _direction(instance: HardInstance) -> np.ndarray:
    if "direction" not in instance.parameters:
        raise ValueError(
            f'The instance of the family {instance.family!r} has no parameter "direction": it is needed.'
        )
    return np.array(instance.parameters["direction"], dtype=np.float64)


def _scale(instance: HardInstance) -> float:
    return float(instance.parameters.get("scale", 1.0))
