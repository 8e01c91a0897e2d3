"""Between the examples of a layer and samples: noisy labels on the gate, and samples (A, b) read off examples."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer, ExampleOracle
from attention.inputs import Rng
from attention.validation import NonNegativeInt, Real, checked
from lower import HardInstance
from lwe.families import LWRFamily, describe_instance
from lwe.heads import covariates_of, kept_range, rows_of_tokens
from lwe.parameters import LWEParameters, covariate_form, rounded
from lwe.samples import LWRSamples

__all__ = ["noisy_examples", "samples_from_examples"]


@checked
def noisy_examples(instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
    """The examples of an instance with errors in their labels: f(T + e) on the gate where the layer gives f(T).

    Both rows of an example have the same error, from the law in the instance's parameters; off the gate there is no
    error. ValueError if the instance is not of this family or contradicts itself.

    Notes
    -----
    Errors are added to the inner product before rounding. This is learning with errors for p = q, and learning parity
    with noise for p = q = 2 with flips. Beyond the range of a truncated layer T is the last value within the range.

    Examples
    --------
    >>> from lwe.families import make_lwr_instance
    >>> from lwe.distributions import Flips
    >>> parity = make_lwr_instance(secret_dim=8, modulus=2, levels=2, noise=Flips(0.125), rng=0)
    >>> x, y = noisy_examples(parity, rng=1).draw(4000)
    >>> gate = x[:, 0, 0] != x[:, 1, 0]
    >>> round(float(np.mean((y != parity.layer(x)).any(axis=(1, 2))[gate])), 2)
    0.12
    """
    described = describe_instance(instance)
    if not described.parameters.noisy:
        return ExampleOracle(instance.layer, instance.inputs, rng=rng)
    form = covariate_form(instance.secret, described.parameters)
    noisy = _NoisyLabels(instance.layer, form, described)
    return ExampleOracle(noisy.with_products, instance.inputs, noise=noisy.with_errors, rng=rng)


@checked
def samples_from_examples(
    x: Float[np.ndarray, "N 2 d"],
    y: Float[np.ndarray, "N 2 d"],
    parameters: LWEParameters,
    *,
    gate: NonNegativeInt = 0,
    allowed_error: Annotated[float, Real(least=0, below=0.5)] = 1e-6,
) -> LWRSamples:
    """The samples (A, b) in examples of a layer of the family "lwr": one for every example on the gate; O(N d).

    ValueError if the arrays are not (N, 2, d), no example is on the gate, or the labels are not whole numbers from 0 to
    p - 1 that both rows agree on.

    Parameters
    ----------
    x, y : array (N, 2, d)
        Token matrices and their labels, noisy or not.
    parameters : LWEParameters
        The parameters of the layer.
    gate : int
        The gate coordinate.
    allowed_error : float
        How far an output may be from a whole label. For layers with a small slope use `HardInstance.allowed_error`.

    Returns
    -------
    LWRSamples
        Rows are bits (binary), -1, 0 and 1 (ternary), or the residues G a mod q, each from log2 q bits (gadget).

    Examples
    --------
    >>> from lwe import make_lwr_instance
    >>> instance = make_lwr_instance(secret_dim=6, modulus=16, levels=2, matrix="gadget", rng=0)
    >>> x = instance.inputs.sample(100, rng=1)
    >>> samples = samples_from_examples(x, instance.layer(x), LWEParameters(6, 16, 2, matrix="gadget"))
    >>> samples.public.shape[1], bool(np.all(2 * (samples.public @ instance.secret % 16) // 16 == samples.labels))
    (6, True)
    """
    public, on = rows_of_tokens(x, parameters, gate)
    if not on.any():
        raise ValueError(f"x has {len(x)} examples, none on the gate {gate}: more are needed.")
    values = x[on, :, gate] * y[on, :, gate] + parameters.centre
    labels = np.rint(values)
    wrong = np.abs(values - labels).max(axis=1) > allowed_error
    wrong |= (labels[:, 0] != labels[:, 1]) | (labels.min(axis=1) < 0) | (labels.max(axis=1) >= parameters.p)
    if wrong.any():
        one, other = values[wrong][0]
        raise ValueError(
            f"y has the labels {one:g} and {other:g} in the two rows of an example on the gate: equal whole numbers "
            f"from 0 to {parameters.p - 1}, up to {allowed_error:g}, are needed for {parameters}."
        )
    return LWRSamples(public[on], labels[:, 0].astype(np.int64))


@dataclass(frozen=True, eq=False)
class _NoisyLabels:
    """A layer's labels with errors; the arrays also hold T and, on the gate, x_rg, which the errors need."""

    layer: AttentionLayer
    form: np.ndarray
    described: LWRFamily

    def with_products(self, x: np.ndarray) -> Float[np.ndarray, "N 2 columns"]:
        parameters, gate = self.described.parameters, self.described.gate
        t = covariates_of(x, parameters, gate) @ self.form
        if self.described.deviations is not None:
            t = np.clip(t, *kept_range(self.form, parameters.matrix, self.described.deviations))
        on = x[:, 0, gate] != x[:, 1, gate]
        beside = np.stack([np.repeat(t[:, None], 2, axis=1), x[:, :, gate] * on[:, None]], axis=2)
        return np.concatenate([self.layer(x), beside], axis=2)

    def with_errors(self, y: np.ndarray, rng: np.random.Generator) -> Float[np.ndarray, "N 2 d"]:
        q, p = self.described.parameters.q, self.described.parameters.p
        t, signs = y[:, 0, -2].astype(np.int64), y[:, :, -1]
        errors = self.described.parameters.Xe.draw(len(y), q, rng=rng)
        noisy = y[:, :, :-2].copy()
        noisy[:, :, self.described.gate] += signs * (rounded(t + errors, q, p) - rounded(t, q, p))[:, None]
        return noisy
