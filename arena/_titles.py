"""What tables call hard instances: their kind, and a title made of their parameters."""

from collections.abc import Mapping
from typing import Any

from arena._phrases import plural
from lower import HardInstance

__all__ = ["hard_kind", "hard_title"]

_KINDS = {
    "sq-parity": "parity",
    "sq-pair": "pair",
    "sq-bump": "bump",
    "sq-two-slope": "two-slope",
    "sq-designed-steps": "designed-steps",
    "sq-centre-threshold": "centre-threshold",
    "sq-token-parity": "token-parity",
    "sq-hidden-gate-parity": "hidden-gate",
    "sq-hidden-gate-two-slope": "hidden-gate",
    "lwr": "lwr",
}
_TITLES = {
    "sq-parity": "Parity of {bits}, {heads}",
    "sq-pair": "Pair of coordinates, {heads}",
    "sq-bump": "Bump at {at} of {bits}, {heads}",
    "sq-two-slope": "Two slopes, {bits}, {heads}",
    "sq-designed-steps": "Designed steps, {bits}, {heads}",
    "sq-centre-threshold": "Centre thresholds, {bits}, {heads}",
    "sq-token-parity": "Parity of each token, {bits}, {heads}, {tokens}",
    "sq-hidden-gate-parity": "Hidden gate, parity of {bits}, {heads}",
    "sq-hidden-gate-two-slope": "Hidden gate, two slopes, {bits}, {heads}",
    "lwr": "{rounding}, n = {secret_dim}, q = {modulus}, p = {levels}{laws}",
}
_ROUNDING = {"gadget": "Gadget rounding", "ternary": "Ternary rounding"}


def hard_kind(instance: HardInstance) -> str:
    """The kind of its family; "file" for a family that is not known."""
    return _KINDS.get(instance.family, "file")


def hard_title(instance: HardInstance) -> str:
    """A title made of the family and its parameters."""
    heads, parameters = plural(instance.layer.heads, "head"), instance.parameters
    words = {name: parameters.get(name, "?") for name in ("at", "secret_dim", "modulus", "levels")}
    words |= {"heads": heads, "tokens": plural(instance.inputs.k, "token")}
    words |= {"bits": plural(parameters.get("bits", 0), "bit")}
    words |= {"rounding": _ROUNDING.get(parameters.get("matrix", ""), "Rounding"), "laws": _laws(parameters)}
    if instance.family not in _TITLES:
        return f"{instance.family}, {heads}"
    return _TITLES[instance.family].format(**words)


def _laws(parameters: Mapping[str, Any]) -> str:
    """The laws of a secret and of errors that are not the usual ones."""
    secret, noise = parameters.get("secret", "uniform"), parameters.get("noise", "zero")
    said = "" if secret == "uniform" else f", {secret} secret"
    return said if noise == "zero" else f"{said}, {noise} errors"
