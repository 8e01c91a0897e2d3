"""What each family of `sq` says of an instance: the family its public numbers describe, and the heads it is made of."""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from attention.validation import real_array, require_instance
from lower import Definition, HardInstance, Heads, LinearKnownPart
from sq.designed_steps import DesignedStepsFamily
from sq.general_k import TokenParityFamily
from sq.hidden_gate import HiddenGateFamily
from sq.pairs import PairFamily, pair_error
from sq.parities import ParityFamily
from sq.profiles import BumpFamily, CentreThresholdFamily, TwoSlopeFamily
from sq.realisation import error_along, supremum_error
from sq.symmetric import ProfileHeads, SymmetricFamily, profile_error
from sq.target_family import require_hard_instance

__all__ = ["DEFINITIONS", "define_symmetric"]


def define_symmetric(family: SymmetricFamily | HiddenGateFamily, instance: HardInstance) -> Definition:
    """The definition of an instance of a family with a profile, its gate known or hidden.

    Raises
    ------
    ValueError
        If the instance's secret, direction or heads are none of the family's.
    """
    require_instance("family", family, SymmetricFamily | HiddenGateFamily, needed="a family with a profile")
    require_hard_instance(instance)
    if missing := {"direction", "thresholds", "coefficients", "slopes"} - set(instance.parameters):
        raise ValueError(f"The parameter {min(missing)} is missing.")
    public, d = instance.parameters, instance.layer.dim
    w = real_array("direction", public["direction"], (d,))
    made = family.instance(family.secrets.rank(instance.secret), direction=w)
    hidden_gate = isinstance(family, HiddenGateFamily)
    gate, chosen = (int(made.secret[0]), made.secret[1:]) if hidden_gate else (0, made.secret)
    form = np.zeros(d, dtype=np.int64)
    form[chosen] = 1
    linear = public.get("construction") == "A"
    slopes = real_array("slopes", public["slopes"], ("m",))
    thresholds, coefficients = (
        real_array(name, public[name], slopes.shape) for name in ("thresholds", "coefficients")
    )
    heads = Heads(
        form=form,
        rows=gate if linear else np.arange(d),
        columns=np.arange(d),
        offset=gate,
        gate=gate,
        direction=w,
        slopes=slopes,
        thresholds=thresholds,
        coefficients=coefficients,
    )
    return Definition.of(made, heads, partial(_symmetric_error, family, instance, heads))


def _symmetric_error(
    family: SymmetricFamily | HiddenGateFamily, instance: HardInstance, heads: Heads
) -> float:
    base = family.base if isinstance(family, HiddenGateFamily) else family
    m = len(base.heads.thresholds)
    own = ProfileHeads(heads.thresholds[:m], heads.coefficients[:m], heads.slopes[:m])
    c = math.fsum(own.coefficients)
    if list(heads.coefficients[m:]) != [-c] * (len(heads.coefficients) - m):
        raise ValueError(f"the coefficients after the first {m} are {heads.coefficients[m:]}: not -{c}")
    if isinstance(base, ParityFamily):
        c0 = 0.0 if base is not family else _constant_on_the_gate(instance.known)
        least = -base.bits if base.construction == "A" else 0
        error = supremum_error(
            {n: Fraction(c0) + (-1) ** abs(n) for n in range(least, base.bits + 1)},
            thresholds=own.thresholds,
            coefficients=own.coefficients,
            slopes=own.slopes,
            c=c,
        )
    else:
        error = profile_error(real_array("profile", instance.parameters["profile"], (base.bits + 1,)), own)
    return error_along(error, heads.coefficients, heads.direction)


def _constant_on_the_gate(known: Any) -> float:
    if not isinstance(known, LinearKnownPart):
        raise ValueError("the known part has a gate of its own")
    return float(known.mixing[0, 0] - known.mixing[0, 1])


def _define_pair(instance: HardInstance) -> Definition:
    public, d = instance.parameters, instance.layer.dim
    family = PairFamily(dim=d, beta=public["beta"])
    w = real_array("direction", public["direction"], (d,))
    made = family.instance(family.secrets.rank(instance.secret), direction=w)
    a, b = made.secret
    form = np.zeros(d, dtype=np.int64)
    form[b] = 1
    # the known part holds C / 2, so that its last digit is known as well
    c = 2 * float(instance.known.mixing[0, 0]) if isinstance(instance.known, LinearKnownPart) else family.c
    heads = Heads(
        form=form,
        rows=int(a),
        columns=np.arange(d),
        offset=0,
        gate=0,
        direction=w,
        slopes=np.array([family.beta]),
        thresholds=np.zeros(1),
        coefficients=np.array([c]),
    )
    return Definition.of(made, heads, lambda: error_along(pair_error(family.beta, c), np.array([c]), w))


def _define_token_parity(instance: HardInstance) -> Definition:
    public, d = instance.parameters, instance.layer.dim
    family = TokenParityFamily(dim=d, tokens=instance.inputs.k, bits=public["bits"], beta=public["beta"])
    w = real_array("direction", public["direction"], (d,))
    made = family.instance(family.secrets.rank(instance.secret), direction=w)
    form = np.zeros(d, dtype=np.int64)
    form[made.secret] = 1
    heads = Heads(
        form=form,
        rows=np.arange(d),
        columns=0,
        offset=1,
        gate=0,
        direction=w,
        slopes=np.full(family.bits, family.beta),
        thresholds=family.thresholds,
        coefficients=family.coefficients,
    )
    return Definition.of(made, heads, lambda: error_along(family.error(), heads.coefficients, w))


def _parity(public: Mapping[str, Any], dim: int) -> ParityFamily:
    construction, slopes = public["construction"], tuple(public["slopes"])
    own: dict[str, Any] = {"slopes": slopes} if construction == "D" else {"beta": slopes[0]}
    return ParityFamily(dim=dim, bits=public["bits"], construction=construction, **own)


def _bump(public: Mapping[str, Any], dim: int) -> BumpFamily:
    return BumpFamily(dim=dim, bits=public["bits"], at=public["at"], beta=public["slopes"][0])


def _two_slope(public: Mapping[str, Any], dim: int) -> TwoSlopeFamily:
    return TwoSlopeFamily(dim=dim, bits=public["bits"], slopes=tuple(public["slopes"][:2]))


def _designed_steps(public: Mapping[str, Any], dim: int) -> DesignedStepsFamily:
    thresholds = tuple(public["thresholds"])
    return DesignedStepsFamily(dim=dim, bits=public["bits"], thresholds=thresholds, beta=public["slopes"][0])


def _centre_threshold(public: Mapping[str, Any], dim: int) -> CentreThresholdFamily:
    return CentreThresholdFamily(
        dim=dim,
        bits=public["bits"],
        heads_count=len(public["thresholds"]),
        # where "best fit" has coefficients of size 1 only, it is "alternating"
        steps="alternating" if _all_of_size_one(public["coefficients"]) else "best fit",
        beta=public["slopes"][0],
    )


def _hidden_gate_parity(public: Mapping[str, Any], dim: int) -> HiddenGateFamily:
    # the head that was added last, to make C = 0, has slope 0
    slopes = [one for one in public["slopes"] if one != 0]
    own = {name: public[name][: len(slopes)] for name in ("thresholds", "coefficients")}
    saturated = "B" if _all_of_size_one(own["coefficients"]) else "C"
    construction = "D" if len(set(own["thresholds"])) == 1 else saturated
    base = {"bits": public["bits"], "construction": construction, "slopes": slopes}
    return HiddenGateFamily(base=_parity(base, dim))


def _hidden_gate_two_slope(public: Mapping[str, Any], dim: int) -> HiddenGateFamily:
    return HiddenGateFamily(base=_two_slope(public, dim))


def _all_of_size_one(coefficients: list[float]) -> bool:
    return all(abs(one) == 1 for one in coefficients)


_PROFILED: Mapping[str, Callable[[Mapping[str, Any], int], SymmetricFamily | HiddenGateFamily]] = {
    "sq-parity": _parity,
    "sq-bump": _bump,
    "sq-two-slope": _two_slope,
    "sq-designed-steps": _designed_steps,
    "sq-centre-threshold": _centre_threshold,
    "sq-hidden-gate-parity": _hidden_gate_parity,
    "sq-hidden-gate-two-slope": _hidden_gate_two_slope,
}


def _define_profiled(instance: HardInstance) -> Definition:
    family = _PROFILED[instance.family](instance.parameters, instance.layer.dim)
    return define_symmetric(family, instance)


DEFINITIONS: Mapping[str, Callable[[HardInstance], Definition]] = {
    **dict.fromkeys(_PROFILED, _define_profiled),
    "sq-pair": _define_pair,
    "sq-token-parity": _define_token_parity,
}
"""What `lower.verify_instance` holds an instance of each family to, by the family's name."""
