"""The labels of a hard instance: known and hidden part, and flips of the sign of the hidden part at a stated rate."""

from functools import partial

import numpy as np
from jaxtyping import Float

from attention import ExampleOracle
from attention.inputs import Rng
from attention.validation import checked
from lower import HardInstance, KnownComponent
from lower.low_degree import FlipRate

_GRAIN = 2.0**-40


def hidden_of_labels(
    instance: HardInstance, x: Float[np.ndarray, "n k d"], y: Float[np.ndarray, "n k d"]
) -> Float[np.ndarray, "n k"]:
    """The hidden part that labels show, row by row: <Y - K(X), w> / (scale (1 - 2 eta)), right in the mean.

    Only what is public about the instance is used: its known part, direction, scale and rate of flips.
    """
    family = instance.family
    return np.asarray((y - instance.known(x)) @ instance.direction / (family.scale * (1 - 2 * family.noise)))


def labels_of_hidden(
    instance: HardInstance, x: Float[np.ndarray, "n k d"], hidden: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k d"]:
    """The labels K(X) + scale f w^T of a hidden part f."""
    return np.asarray(instance.known(x) + instance.family.scale * hidden[..., None] * instance.direction)


@checked
def flipped_examples(
    instance: HardInstance, rate: FlipRate, *, rows_agree: bool, rng: Rng = None
) -> ExampleOracle:
    """Examples of K(X) + s (F(X) - K(X)) with random signs s that are -1 with probability `rate`.

    Labels are rounded to multiples of 2^-40. The last digits of a layer depend on the number of secret coordinates that
    differ, so without rounding they show the secret in spite of the flips. A realisation error above 2^-40 still does.

    With `rows_agree` all rows of an example have one sign, else each row has its own. Rows that show the same hidden
    sign must share s, or examples whose rows differ would give flips away; rows that show different signs must not, or
    their product would have no noise.

    Examples
    --------
    >>> from sq import ParityFamily
    >>> instance = ParityFamily(dim=8, bits=3, noise=0.2).instance(0)
    >>> x, y = flipped_examples(instance, 0.2, rows_agree=True, rng=0).draw(2000)
    >>> gate = x[:, 0, 0] != x[:, 1, 0]
    >>> round(float(np.mean(np.abs(y - instance.layer(x)).max(axis=(1, 2))[gate] > 1e-9)), 1)
    0.2
    """
    if not rate:
        return ExampleOracle(instance.layer, instance.inputs, rng=rng)
    noise = partial(_flipped, instance.known, rate=rate, rows_agree=rows_agree)
    return ExampleOracle(instance.layer, instance.inputs, noise=noise, rng=rng)


def _flipped(
    known: KnownComponent,
    x: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    *,
    rate: float,
    rows_agree: bool,
) -> Float[np.ndarray, "n k d"]:
    flip = rng.random((len(y), 1 if rows_agree else y.shape[1], 1)) < rate
    return np.rint(np.where(flip, 2 * known(x) - y, y) / _GRAIN) * _GRAIN
