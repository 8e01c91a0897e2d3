"""Whether a layer is the parity it claims to be: checked on inputs, without the algebra that built it."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped
from numpy.typing import ArrayLike

from attention import AttentionLayer, BooleanInputs
from attention._arrays import count, non_negative, random_generator, real_array, require_instance
from attention.inputs import Rng
from lower import GatedKnownPart, HardInstance, KnownPart, LinearKnownPart, all_sign_matrices
from sq.realisation import MOST_SAMPLES, secret_coordinates
from sq.target_family import require_hard_instance

__all__ = [
    "ParityVerification",
    "gate_and_direction",
    "is_parity_realisation",
    "parity_target",
    "verify_parity_instance",
]

_EXHAUSTIVE_BITS = 16
_BLOCK = 4096


@dataclass(frozen=True)
class ParityVerification:
    """What comparing a layer with its parity gave.

    Attributes
    ----------
    max_error : float
        The largest Euclidean norm of a row of layer minus target on the inputs checked, float64 rounding
        included.
    amplitude : float
        The average over the gate of the unknown part along the parity: 1 for a true realisation.
    inputs_checked : int
        How many token matrices were compared.
    exhaustive : bool
        Whether those were all there are; else `max_error` is a lower bound on the supremum.
    allowed_error : float
        What `max_error` may be: the realisation error, with an allowance for float64 rounding.
    separation : float
        Half the least distance of a row of two targets, |w|: an allowed error this large would let the layer of
        another secret pass.
    """

    max_error: float
    amplitude: float
    inputs_checked: int
    exhaustive: bool
    allowed_error: float
    separation: float

    @property
    def holds(self) -> bool:
        """Whether no input checked contradicts the instance, and another secret would have been contradicted.

        Where `exhaustive` is False this says what was seen on random inputs; it is no proof.
        """
        return self.max_error <= self.allowed_error < self.separation and self.amplitude > 0

    def __str__(self) -> str:
        which = "all inputs" if self.exhaustive else "random inputs, a sample of all"
        verdict, why = "Verified", ""
        if not self.holds:
            verdict = "NOT verified"
            if self.max_error <= self.allowed_error:
                why = (
                    "; no input of the sample lies on the gate, where the secret shows"
                    if self.allowed_error < self.separation
                    else f"; errors from {self.separation:.3g} on do not tell this secret from another"
                )
        return (
            f"{verdict}: largest row error {self.max_error:.3g} ({self.allowed_error:.3g} is allowed{why}) on "
            f"{self.inputs_checked} inputs ({which}), amplitude {self.amplitude:.12g}."
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict `holds` and the fields as plain JSON values; a number that is not finite is None."""
        fields = {"holds": self.holds, **asdict(self)}
        return {
            name: None if isinstance(one, float) and not math.isfinite(one) else one
            for name, one in fields.items()
        }


def parity_target(
    x: Shaped[np.ndarray, "*n 2 d"],
    secret: ArrayLike,
    *,
    known: KnownPart,
    gate: int,
    direction: ArrayLike,
) -> Float[np.ndarray, "*n 2 d"]:
    """The definition: K(X) + u_g chi_S(y) [1; -1] w^T, u = (x_1 - x_2)/2, y_j = x_1j x_2j.

    Parameters
    ----------
    x : array (..., 2, d)
        Boolean token matrices.
    secret : array of int
        The coordinates in S; the product is over those listed, so one that is there twice counts for nothing.
    known : LinearKnownPart
        K.
    gate, direction : int, array (d,)
        g and w.
    """
    x, direction = real_array("x", x), real_array("direction", direction)
    if x.ndim < 2 or direction.ndim != 1 or x.shape[-2:] != (2, len(direction)):
        raise ValueError(
            f"x has shape {x.shape} and direction {direction.shape}: (..., 2, d) and (d,) are needed."
        )
    require_instance(
        "known", known, LinearKnownPart | GatedKnownPart, needed="a LinearKnownPart or GatedKnownPart"
    )
    gate, secret = _coordinates(gate, secret, len(direction))
    first, second = x[..., 0, :], x[..., 1, :]
    chosen = np.asarray(secret, dtype=np.int64)
    parity = np.prod(first[..., chosen] * second[..., chosen], axis=-1)
    signal = parity * (first[..., gate] - second[..., gate]) / 2
    rows = np.stack([signal, -signal], axis=-1)
    return known(x) + rows[..., None] * np.asarray(direction, dtype=np.float64)


def verify_parity_instance(
    instance: HardInstance, *, rng: Rng = None, samples: int = 20_000
) -> ParityVerification:
    """Compare the layer of a parity instance with the definition of its target.

    Parameters
    ----------
    instance : HardInstance
        Of the family "sq-parity".
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws inputs where there are too many to try
        all.
    samples : int
        How many inputs to draw then.

    Raises
    ------
    ValueError
        If the instance is of another family, or its gate, direction or secret do not fit it.

    Notes
    -----
    All 2^(2d) inputs are tried for d <= 8, in blocks; `samples` random ones beyond.

    Examples
    --------
    >>> from sq import make_parity_instance
    >>> checked = verify_parity_instance(make_parity_instance(dim=5, heads=2, rng=0))
    >>> checked.holds, checked.exhaustive, checked.inputs_checked, checked.max_error < 1e-12
    (True, True, 1024, True)
    """
    require_hard_instance(instance)
    gate, w = gate_and_direction(instance)
    secret = instance.secret
    if secret.ndim != 1 or np.any((secret < 0) | (secret >= instance.layer.dim) | (secret == gate)):
        raise ValueError(
            f"The secret is {secret.tolist()}: coordinates from 0 to {instance.layer.dim - 1} other than the gate "
            f"{gate} are needed."
        )
    return _verify(
        instance.layer,
        secret,
        instance.known,
        gate,
        w,
        allowed=instance.allowed_error,
        rng=rng,
        samples=samples,
    )


def gate_and_direction(instance: HardInstance) -> tuple[int, Float[np.ndarray, " d"]]:
    """The gate coordinate and the output direction that a parity instance makes public.

    Raises
    ------
    ValueError
        If the instance is of another family, not of two tokens, or does not say what they are.
    """
    require_hard_instance(instance)
    if instance.family != "sq-parity":
        raise ValueError(f"The instance is of the family {instance.family!r}: one of sq-parity is needed.")
    if instance.inputs.k != 2:
        raise ValueError(f"The instance has {instance.inputs.k} tokens: parity instances have 2.")
    d = instance.layer.dim
    gate, direction = (instance.parameters.get(name) for name in ("gate", "direction"))
    gate = count("The instance's gate", gate, least=0)
    try:
        w = np.array(direction, dtype=np.float64)
    except (TypeError, ValueError):
        w = np.zeros(0)
    if gate >= d or w.shape != (d,) or not np.all(np.isfinite(w)):
        raise ValueError(
            f"The instance's gate is {gate}, its direction of shape {w.shape}: they must fit d = {d}."
        )
    return gate, w


def is_parity_realisation(
    layer: AttentionLayer,
    secret: ArrayLike,
    *,
    known: KnownPart,
    gate: int = 0,
    direction: ArrayLike | None = None,
    tolerance: float = 1e-9,
    rng: Rng = None,
    samples: int = 20_000,
) -> bool:
    """Whether `layer` is `known` plus the parity of the coordinates `secret`, up to `tolerance`.

    All inputs are tried for d <= 8; beyond, "yes" means that `samples` random inputs did not refute it.

    Parameters
    ----------
    layer : AttentionLayer
        The layer, NumPy parameters.
    secret : array of int
        The coordinates in S.
    known : LinearKnownPart
        The known part.
    gate, direction : int, array (d,), optional
        The gate coordinate, and the output direction; the gate's unit vector when left out.
    tolerance : float
        The largest Euclidean norm of a row's error that passes.
    rng, samples : optional
        As in `verify_parity_instance`.
    """
    require_instance("layer", layer, AttentionLayer, needed="an AttentionLayer")
    require_instance(
        "known", known, LinearKnownPart | GatedKnownPart, needed="a LinearKnownPart or GatedKnownPart"
    )
    gate, secret = _coordinates(gate, secret, layer.dim)
    w = np.eye(layer.dim)[gate] if direction is None else real_array("direction", direction, (layer.dim,))
    allowed = non_negative("tolerance", tolerance)
    checked = _verify(layer, np.asarray(secret), known, gate, w, allowed=allowed, rng=rng, samples=samples)
    return checked.max_error <= allowed


def _coordinates(gate: int, secret: ArrayLike, dim: int) -> tuple[int, Int[np.ndarray, " l"]]:
    return count("gate", gate, least=0, most=dim - 1), secret_coordinates(secret, dim, sets=False)


def _verify(
    layer: AttentionLayer,
    secret: np.ndarray,
    known: KnownPart,
    gate: int,
    direction: np.ndarray,
    *,
    allowed: float,
    rng: Rng,
    samples: int,
) -> ParityVerification:
    d = layer.dim
    exhaustive = 2 * d <= _EXHAUSTIVE_BITS
    total = 1 << (2 * d) if exhaustive else count("samples", samples, most=MOST_SAMPLES)
    rng = random_generator(rng)
    worst, along, weight = 0.0, 0.0, 0.0
    for start in range(0, total, _BLOCK):
        stop = min(start + _BLOCK, total)
        x = (
            all_sign_matrices(2, d, start, stop)
            if exhaustive
            else BooleanInputs(2, d).sample(stop - start, rng=rng)
        )
        output, fixed = layer(x), known(x)
        target = parity_target(x, secret, known=known, gate=gate, direction=direction)
        pattern = parity_target(x, secret, known=LinearKnownPart.zero(2, d), gate=gate, direction=direction)
        # Python's max would drop a NaN
        worst = float(np.maximum(worst, np.linalg.norm(output - target, axis=-1).max()))
        along += float(np.sum((output - fixed) * pattern))
        weight += float(np.sum(pattern**2))
    return ParityVerification(
        max_error=worst,
        amplitude=along / weight if weight > 0 else 0.0,
        inputs_checked=total,
        exhaustive=exhaustive,
        allowed_error=allowed,
        separation=float(np.linalg.norm(direction)),
    )
