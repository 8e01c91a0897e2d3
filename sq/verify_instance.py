"""Whether one hard instance, such as a file holds, is what its family's definition says of its secret."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from attention import BooleanInputs
from attention._arrays import count, random_generator
from attention.inputs import Rng
from lower import HardInstance, KnownPart, LinearKnownPart, all_sign_matrices
from sq.designed_steps import DesignedStepsFamily
from sq.general_k import TokenParityFamily
from sq.hidden_gate import HiddenGateFamily
from sq.hidden_part import HiddenPart
from sq.pairs import PairFamily
from sq.parities import ParityFamily
from sq.profiles import BumpFamily, CentreThresholdFamily, TwoSlopeFamily
from sq.realisation import MOST_SAMPLES
from sq.symmetric import SymmetricFamily
from sq.target_family import require_hard_instance
from sq.verify import ParityVerification, verify_parity_instance

__all__ = ["InstanceVerification", "KnownFamily", "rebuild_family", "verify_instance"]

KnownFamily = SymmetricFamily | PairFamily | TokenParityFamily | HiddenGateFamily

_EXHAUSTIVE_BITS = 16
_BLOCK = 4096
_STATED = ("profile", "scale")
# What a profile, a scale or a known part that went through a file may be off, relative to its size.
_AGREES = 1e-9


@dataclass(frozen=True)
class InstanceVerification:
    """What comparing a layer with the definition of its hidden part gave.

    Attributes
    ----------
    max_error : float
        The largest Euclidean norm of a row of layer - K - scale f_S w^T on the inputs checked, float64 rounding
        included; f_S is the family's definition for the secret S.
    amplitude : float
        The average of layer - K along scale f_S w^T: 1 for a true realisation.
    inputs_checked : int
        How many token matrices were compared.
    exhaustive : bool
        Whether those were all there are; else `max_error` is a lower bound on the supremum.
    allowed_error : float
        What `max_error` may be: the realisation error, with an allowance for float64 rounding.
    separation : float
        Half of what rows of the targets of two secrets differ by on some input, at the least: an allowed error this
        large would let the layer of another secret pass.
    contradictions : tuple of str
        What the instance states of its family and the family's definition denies, such as "profile".
    """

    max_error: float
    amplitude: float
    inputs_checked: int
    exhaustive: bool
    allowed_error: float
    separation: float
    contradictions: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no input checked contradicts the instance, and another secret would have been contradicted.

        Where `exhaustive` is False this says what was seen on random inputs; it is no proof.
        """
        fits = self.max_error <= self.allowed_error < self.separation and self.amplitude > 0
        return fits and not self.contradictions

    def __str__(self) -> str:
        which = "all inputs" if self.exhaustive else "random inputs, a sample of all"
        verdict, why = "Verified", ""
        if not self.holds:
            verdict = "NOT verified"
            if self.max_error <= self.allowed_error and not self.contradictions:
                why = (
                    "; no input of the sample shows the secret"
                    if self.allowed_error < self.separation
                    else f"; errors from {self.separation:.3g} on do not tell this secret from another"
                )
        stated = f"; not its family's: {', '.join(self.contradictions)}" if self.contradictions else ""
        return (
            f"{verdict}: largest row error {self.max_error:.3g} ({self.allowed_error:.3g} is allowed{why}) on "
            f"{self.inputs_checked} inputs ({which}), amplitude {self.amplitude:.12g}{stated}."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values; a number that is not finite is None."""
        fields = {"holds": self.holds, **asdict(self), "contradictions": list(self.contradictions)}
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one
            for name, one in fields.items()
        }


def verify_instance(
    instance: HardInstance, *, rng: Rng = None, samples: int = 20_000
) -> InstanceVerification | ParityVerification:
    """Compare the layer of a hard instance with its known part and the definition of its hidden part.

    Parameters
    ----------
    instance : HardInstance
        Of any family of `sq.families`.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws inputs where there are too many to try all.
    samples : int
        How many inputs to draw then.

    Returns
    -------
    InstanceVerification or ParityVerification
        The latter for "sq-parity", of `verify_parity_instance`.

    Raises
    ------
    ValueError
        If the instance is of another family, or its parts do not describe a target of its family.

    Notes
    -----
    The family is built again from the parameters the instance makes public, for its definition of the hidden part; the
    layer is the instance's own, and no heads are made to compare it with. What is stated besides, `profile`, `scale`
    and the known part, must be the family's too.

    All inputs are tried where k d <= 16. Beyond, half of the random inputs are uniform, and half have a number of
    secret coordinates where the tokens differ that is uniform from 0 to l, so that rare values of a profile are met.

    Examples
    --------
    >>> from sq import BumpFamily
    >>> checked = verify_instance(BumpFamily(dim=6, bits=4).instance(3))
    >>> checked.holds, checked.exhaustive, checked.inputs_checked, checked.max_error < 1e-12
    (True, True, 4096, True)
    """
    require_hard_instance(instance)
    if instance.family == "sq-parity":
        return verify_parity_instance(instance, rng=rng, samples=samples)
    family, public = rebuild_family(instance), _public(instance)
    number = family.secrets.rank(instance.secret)
    exhaustive = family.tokens * family.dim <= _EXHAUSTIVE_BITS
    total = 1 << (family.tokens * family.dim) if exhaustive else count("samples", samples, most=MOST_SAMPLES)
    rng = random_generator(rng)
    contradictions = _contradictions(instance, family, public)
    worst, along, weight = 0.0, 0.0, 0.0
    for start in range(0, total, _BLOCK):
        stop = min(start + _BLOCK, total)
        x = (
            all_sign_matrices(family.tokens, family.dim, start, stop)
            if exhaustive
            else _drawn(family, instance.secret, stop - start, rng)
        )
        pattern = family.scale * family.hidden(number, x)
        rest = _unknown_part(instance, x)
        # Python's max would drop a NaN
        error = np.linalg.norm(rest - pattern[..., None] * public.direction, axis=-1).max()
        worst = float(np.maximum(worst, error))
        along += float(np.sum(rest @ public.direction * pattern))
        weight += float(np.sum(pattern**2))
    return InstanceVerification(
        max_error=worst,
        amplitude=along / weight if weight > 0 else 0.0,
        inputs_checked=total,
        exhaustive=exhaustive,
        allowed_error=instance.allowed_error,
        separation=_separation(family),
        contradictions=contradictions,
    )


def _unknown_part(instance: HardInstance, x: np.ndarray) -> np.ndarray:
    """The layer's output less the known part; NaN where numbers of a damaged layer overflow, which nothing equals."""
    try:
        return np.asarray(instance.layer(x) - instance.known(x))
    except ValueError:
        return np.full(x.shape, np.nan)


def rebuild_family(instance: HardInstance) -> KnownFamily:
    """The family that an instance's public parameters describe, without its secret.

    Raises
    ------
    ValueError
        If the instance is of no family of `sq.families`, its inputs are not Boolean, or its parameters describe none.

    Examples
    --------
    >>> from sq import TwoSlopeFamily
    >>> rebuild_family(TwoSlopeFamily(dim=20, bits=6).instance(0))
    TwoSlopeFamily(dim=20, bits=6, slopes=(0.1, 1.0))
    """
    require_hard_instance(instance)
    if instance.family not in _BUILDERS:
        raise ValueError(
            f"The instance is of the family {instance.family!r}: one of {', '.join(_BUILDERS)} is needed."
        )
    inputs = instance.inputs
    if not isinstance(inputs, BooleanInputs):
        raise ValueError(f"The inputs are {inputs}: {instance.family} has Boolean tokens.")
    try:
        family = _BUILDERS[instance.family](instance.parameters, inputs)
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(
            f"The parameters of the instance do not describe a family {instance.family} ({error!r})."
        ) from None
    if family.tokens != inputs.k:
        raise ValueError(f"The instance has {inputs.k} tokens: {instance.family} has {family.tokens}.")
    return family


def _parity(public: Mapping[str, Any], inputs: BooleanInputs) -> ParityFamily:
    construction, slopes = public["construction"], tuple(public["slopes"])
    own: dict[str, Any] = {"slopes": slopes} if construction == "D" else {"beta": slopes[0]}
    return ParityFamily(dim=inputs.d, bits=public["bits"], construction=construction, **own)


def _bump(public: Mapping[str, Any], inputs: BooleanInputs) -> BumpFamily:
    return BumpFamily(dim=inputs.d, bits=public["bits"], at=public["at"], beta=public["slopes"][0])


def _two_slope(public: Mapping[str, Any], inputs: BooleanInputs) -> TwoSlopeFamily:
    return TwoSlopeFamily(dim=inputs.d, bits=public["bits"], slopes=tuple(public["slopes"][:2]))


def _designed_steps(public: Mapping[str, Any], inputs: BooleanInputs) -> DesignedStepsFamily:
    thresholds = tuple(public["thresholds"])
    return DesignedStepsFamily(
        dim=inputs.d, bits=public["bits"], thresholds=thresholds, beta=public["slopes"][0]
    )


def _centre_threshold(public: Mapping[str, Any], inputs: BooleanInputs) -> CentreThresholdFamily:
    return CentreThresholdFamily(
        dim=inputs.d,
        bits=public["bits"],
        heads_count=len(public["thresholds"]),
        # where "best fit" has coefficients of size 1 only, it is "alternating"
        steps="alternating" if _all_of_size_one(public["coefficients"]) else "best fit",
        beta=public["slopes"][0],
    )


def _pair(public: Mapping[str, Any], inputs: BooleanInputs) -> PairFamily:
    return PairFamily(dim=inputs.d, beta=public["beta"])


def _token_parity(public: Mapping[str, Any], inputs: BooleanInputs) -> TokenParityFamily:
    return TokenParityFamily(dim=inputs.d, tokens=inputs.k, bits=public["bits"], beta=public["beta"])


def _hidden_gate_parity(public: Mapping[str, Any], inputs: BooleanInputs) -> HiddenGateFamily:
    # the head that was added last, to make C = 0, has slope 0
    slopes = [one for one in public["slopes"] if one != 0]
    own = {name: public[name][: len(slopes)] for name in ("thresholds", "coefficients")}
    saturated = "B" if _all_of_size_one(own["coefficients"]) else "C"
    construction = "D" if len(set(own["thresholds"])) == 1 else saturated
    base = {"bits": public["bits"], "construction": construction, "slopes": slopes}
    return HiddenGateFamily(base=_parity(base, inputs))


def _hidden_gate_two_slope(public: Mapping[str, Any], inputs: BooleanInputs) -> HiddenGateFamily:
    return HiddenGateFamily(base=_two_slope(public, inputs))


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any], BooleanInputs], KnownFamily]] = {
    "sq-parity": _parity,
    "sq-pair": _pair,
    "sq-bump": _bump,
    "sq-two-slope": _two_slope,
    "sq-designed-steps": _designed_steps,
    "sq-centre-threshold": _centre_threshold,
    "sq-token-parity": _token_parity,
    "sq-hidden-gate-parity": _hidden_gate_parity,
    "sq-hidden-gate-two-slope": _hidden_gate_two_slope,
}


def _all_of_size_one(coefficients: list[float]) -> bool:
    return all(abs(one) == 1 for one in coefficients)


def _public(instance: HardInstance) -> HiddenPart:
    try:
        return HiddenPart.of(instance)
    except TypeError as error:
        raise ValueError(
            f"The direction or the scale of the instance of {instance.family} is no number ({error})."
        ) from None


def _numbers(stated: Any) -> np.ndarray:
    try:
        return np.asarray(stated, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(1, np.nan)


def _contradictions(instance: HardInstance, family: KnownFamily, public: HiddenPart) -> tuple[str, ...]:
    # the parameters were read once for the family: what follows from them must be what is stated
    found = []
    base = family.base if isinstance(family, HiddenGateFamily) else family
    for name in _STATED:
        own = np.asarray(getattr(base, name, np.nan), dtype=np.float64)
        if name in instance.parameters and not _agree(_numbers(instance.parameters[name]), own):
            found.append(name)
    known = _known(family, public.direction)
    x = BooleanInputs(family.tokens, family.dim).sample(4 * family.dim, rng=0)
    if not _agree(instance.known(x), known(x)):
        found.append("known part")
    if not np.array_equal(family.secrets.unrank(family.secrets.rank(instance.secret)), instance.secret):
        found.append("order of the secret")
    return tuple(found)


def _agree(stated: np.ndarray, own: np.ndarray) -> bool:
    size = 1 + np.abs(own).max(initial=0.0)
    return stated.shape == own.shape and bool(np.all(np.abs(stated - own) <= _AGREES * size))


def _known(family: KnownFamily, direction: np.ndarray) -> KnownPart:
    if isinstance(family, TokenParityFamily):
        return family.known(direction)
    if isinstance(family, HiddenGateFamily):
        return LinearKnownPart.zero(2, family.dim)
    return LinearKnownPart.from_gate(family.c, family.c0, gate=0, direction=direction)


def _separation(family: KnownFamily) -> float:
    if isinstance(family, PairFamily):
        return 0.5  # where u_b = 0 for one pair only, one target is 0 and the other has rows of norm 1
    if isinstance(family, TokenParityFamily):
        return 1.0  # rows of opposite signs
    # two secrets of one gate meet as neighbours N, N + 1 whatever they share; those of two gates as g(N) and 0
    hides_gate = isinstance(family, HiddenGateFamily)
    profile = family.base.profile if isinstance(family, HiddenGateFamily) else family.profile
    differences = float(np.abs(np.diff(profile)).max())
    return (min(differences, float(np.abs(profile[:-1]).max())) if hides_gate else differences) / 2


def _drawn(family: KnownFamily, secret: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    x = np.array(BooleanInputs(family.tokens, family.dim).sample(n, rng=rng))
    if isinstance(family, PairFamily | TokenParityFamily):
        return x
    gate, chosen = (
        (int(secret[0]), secret[1:]) if isinstance(family, HiddenGateFamily) else (0, np.asarray(secret))
    )
    half, bits = n // 2, len(chosen)
    places = rng.permuted(np.tile(np.arange(bits), (half, 1)), axis=1)
    differ = places < rng.integers(bits + 1, size=(half, 1))
    x[:half, 1, chosen] = np.where(differ, -1, 1) * x[:half, 0, chosen]
    x[:half, 1, gate] = -x[:half, 0, gate]
    return x
