"""Families held to their definitions by trying inputs, which the toolkit itself has no need to do."""

from types import SimpleNamespace

import numpy as np
import pytest

from attention import BooleanInputs
from lower import all_sign_matrices


@pytest.fixture
def enumerated():
    """Compare layers with the hidden parts of a family, and those with their correlations in closed form."""
    return _enumerated


def _enumerated(family, *, targets=40, samples=None):
    """On all inputs, or on `samples` random ones; rows off by more than they may be fail at once."""
    numbers = range(family.secrets.size)
    if targets < len(numbers):
        numbers = np.sort(np.random.default_rng(0).choice(len(numbers), size=targets, replace=False))
    if samples is None:
        x = all_sign_matrices(family.tokens, family.dim)
    else:
        x = BooleanInputs(family.tokens, family.dim).sample(samples, rng=0)
    values = np.array([family.hidden(int(one), x) for one in numbers])
    errors = [row_error(family, int(one), x) for one in numbers]
    flat = values.reshape(len(values), -1)
    closed = np.array([family.correlations(int(one))[numbers] for one in numbers])
    return SimpleNamespace(
        targets=len(numbers),
        max_error=max(errors),
        correlation_error=float(np.abs(flat @ flat.T / len(x) - closed).max()),
    )


def row_error(family, number, x):
    instance = family.instance(number, direction=np.cos(number + np.arange(family.dim)))
    own = family.scale * family.hidden(number, x)[..., None] * instance.direction
    error = float(np.linalg.norm(instance.layer(x) - instance.known(x) - own, axis=-1).max())
    assert error <= instance.allowed_error
    return error
