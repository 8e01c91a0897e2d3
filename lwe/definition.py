"""What the family "lwr" says of an instance: the heads that its secret and its public parameters determine."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from lower import Definition, HardInstance, Heads, Staircase
from lwe.description import FAMILY, PublicDescription, describe_instance
from lwe.families import described_parts
from lwe.heads import kept_range, value_range

__all__ = ["DEFINITIONS"]

_BLOCK = 1 << 20


def _define(instance: HardInstance) -> Definition:
    described = describe_instance(instance)
    parameters = described.parameters
    form, stairs, stated = described_parts(
        parameters, secret=instance.secret, beta=described.beta, deviations=described.deviations
    )
    gate, d = stairs.gate, parameters.dim
    heads = Heads(
        form=stairs.form,
        rows=gate if parameters.matrix == "ternary" else np.arange(d),
        columns=np.arange(d),
        offset=gate,
        gate=gate,
        direction=np.asarray(stairs.direction),
        slopes=np.asarray(stairs.slopes),
        thresholds=stairs.thresholds,
        coefficients=stairs.coefficients,
    )
    del stated["realisation_error"]
    return Definition(heads, lambda: _error(stairs, form, described), **stated)


def _error(stairs: Staircase, form: np.ndarray, described: PublicDescription) -> float:
    """The proved bound of the staircase, once its steps are the labels at every whole T between the extremes of <v, a>.

    At each T the steps' sum is compared with floor(p (T mod q) / q) - (p - 1)/2, in whole numbers and quarters, without
    rounding; beyond the range of a truncated layer, with the label at its end.
    """
    parameters = described.parameters
    q, p = parameters.modulus, parameters.levels
    least, most = value_range(form, parameters.matrix)
    low, high = least, most
    if described.deviations is not None:
        low, high = kept_range(form, parameters.matrix, described.deviations)
    order = np.argsort(stairs.thresholds)
    total = math.fsum(stairs.coefficients)
    levels = 2 * np.concatenate([[0.0], np.cumsum(stairs.coefficients[order])]) - total
    for start in range(least, most + 1, _BLOCK):
        t = np.arange(start, min(start + _BLOCK, most + 1))
        steps = levels[np.searchsorted(stairs.thresholds[order], t)]
        labels = p * np.mod(np.clip(t, low, high), q) // q - (p - 1) / 2
        if not np.array_equal(steps, labels):
            wrong = int(t[np.flatnonzero(steps != labels)[0]])
            raise ValueError(f"the heads' sum at <v, a> = {wrong} is not the label of the secret")
    if total != 0:
        raise ValueError(f"the coefficients add up to {total}: off the gate the label is 0")
    return stairs.error_bound().value


DEFINITIONS: Mapping[str, Callable[[HardInstance], Definition]] = {FAMILY: _define}
"""What `lower.verify_instance` holds an instance to, by the family's name."""
