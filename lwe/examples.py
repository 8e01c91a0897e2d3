"""Between the examples of a layer and samples: noisy labels on the gate, and samples (A, b) read off examples."""

from functools import partial
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from attention import AttentionLayer, ExampleOracle, Inputs
from attention.inputs import Rng
from attention.validation import Real, checked
from lwe.heads import covariates_of, rows_of_tokens
from lwe.parameters import LWEParameters, rounded
from lwe.samples import LWRSamples

__all__ = ["noisy_examples", "samples_from_examples"]


def noisy_examples(
    layer: AttentionLayer,
    inputs: Inputs,
    form: Int[np.ndarray, " n"],
    parameters: LWEParameters,
    covered: tuple[int, int],
    *,
    rng: Rng = None,
) -> ExampleOracle:
    """The examples of a layer with errors in their labels, as `LWRFamily.examples` describes them.

    `form` is the integer form v of the secret, and `covered` the range of T = <v, a> that the heads cover.
    """
    return ExampleOracle(
        partial(_with_products, layer, form, parameters, covered),
        inputs,
        noise=partial(_with_errors, parameters),
        rng=rng,
    )


@checked
def samples_from_examples(
    x: Float[np.ndarray, "N 2 d"],
    y: Float[np.ndarray, "N 2 d"],
    parameters: LWEParameters,
    *,
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
    allowed_error : float
        How far an output may be from a whole label. For layers with a small slope use `HardInstance.allowed_error`.

    Returns
    -------
    LWRSamples
        Rows are bits (binary), -1, 0 and 1 (ternary), or the residues G a mod q, each from log2 q bits (gadget).

    Examples
    --------
    >>> from lwe import LWRFamily
    >>> instance = LWRFamily(n=6, q=16, p=2, matrix="gadget").instance(rng=0)
    >>> x = instance.inputs.sample(100, rng=1)
    >>> samples = samples_from_examples(x, instance.layer(x), LWEParameters(6, 16, 2, matrix="gadget"))
    >>> samples.public.shape[1], bool(np.all(2 * (samples.public @ instance.secret % 16) // 16 == samples.labels))
    (6, True)
    """
    public, on = rows_of_tokens(x, parameters)
    if not on.any():
        raise ValueError(f"x has {len(x)} examples, none on the gate: more are needed.")
    values = x[on, :, 0] * y[on, :, 0] + parameters.centre
    labels = np.rint(values)
    wrong = np.abs(values - labels).max(axis=1) > allowed_error
    wrong |= (labels[:, 0] != labels[:, 1]) | (labels.min(axis=1) < 0) | (labels.max(axis=1) >= parameters.p)
    if wrong.any():
        first, second = values[wrong][0]
        raise ValueError(
            f"y has the labels {first:g} and {second:g} in the two rows of an example on the gate: equal whole numbers "
            f"from 0 to {parameters.p - 1}, up to {allowed_error:g}, are needed for {parameters}."
        )
    return LWRSamples(public[on], labels[:, 0].astype(np.int64))


def _with_products(
    layer: AttentionLayer,
    form: np.ndarray,
    parameters: LWEParameters,
    covered: tuple[int, int],
    x: np.ndarray,
) -> Float[np.ndarray, "N 2 columns"]:
    """The labels, T and, on the gate, x_rg: the errors need the last two."""
    t = np.clip(covariates_of(x, parameters) @ form, *covered)
    signs = np.where(x[:, [0], 0] != x[:, [1], 0], x[:, :, 0], 0)
    return np.concatenate([layer(x), np.stack(np.broadcast_arrays(t[:, None], signs), axis=2)], axis=2)


def _with_errors(
    parameters: LWEParameters, y: np.ndarray, rng: np.random.Generator
) -> Float[np.ndarray, "N 2 d"]:
    q, p = parameters.q, parameters.p
    t, signs = y[:, 0, -2].astype(np.int64), y[:, :, -1]
    errors = parameters.Xe.draw(len(y), q, rng=rng)
    noisy = y[:, :, :-2].copy()
    noisy[:, :, 0] += signs * (rounded(t + errors, q, p) - rounded(t, q, p))[:, None]
    return noisy
