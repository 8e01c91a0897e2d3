"""Between the examples of a layer and samples: noisy labels on the gate, and samples (A, b) read off examples."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import AttentionLayer, ExampleOracle
from attention._arrays import to_numpy
from attention.inputs import Rng
from attention.validation import count, finite_number, non_negative, real_array, require_instance
from lower import HardInstance
from lwe.description import PublicDescription, describe_instance
from lwe.heads import kept_range
from lwe.parameters import LWRParameters, covariate_form, require_parameters, rounded
from lwe.samples import LWRSamples

__all__ = ["covariates_of", "noisy_examples", "samples_from_examples"]

_NO_SIGNS = "x has entries other than -1 and 1: tokens of this family are signs, and no others are allowed."


def noisy_examples(instance: HardInstance, *, rng: Rng = None) -> ExampleOracle:
    """The examples of an instance with errors in their labels: f(T + e) on the gate where the layer gives f(T).

    Parameters
    ----------
    instance : HardInstance
        Of the family "lwr". Its layer has no noise; the law of the errors e is that of its parameters.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7); draws the inputs and the errors.

    Returns
    -------
    ExampleOracle
        Of the instance's inputs and labels. Both rows of an example have the same error; off the gate there is none.
        Without noise the labels are the layer's.

    Raises
    ------
    ValueError
        If the instance is none of this family or contradicts itself.

    Notes
    -----
    Errors are added to the inner product, before it is rounded: with p = q learning with errors, with p = q = 2 and
    flips learning parity with noise. What is changed is the layer's own output, by x_rg (f(T + e) - f(T)); beyond
    the range of a truncated layer T is the last value within it. That these examples are hard to learn from is what
    `LWRParameters.assumption` names, and no claim of security. O(n) integers an example besides the layer.

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from lwe.families import make_lwr_instance
    >>> from lwe.laws import FlipLaw
    >>> parity = make_lwr_instance(secret_dim=8, modulus=2, levels=2, noise=FlipLaw(0.125), rng=0)
    >>> x, y = noisy_examples(parity, rng=1).draw(4000)
    >>> gate = x[:, 0, 0] != x[:, 1, 0]
    >>> round(float(np.mean((y != parity.layer(x)).any(axis=(1, 2))[gate])), 2)
    0.12
    """
    require_instance("instance", instance, HardInstance, needed="a HardInstance, as lwr_instance gives it,")
    described = describe_instance(instance)
    if not described.parameters.noisy:
        return ExampleOracle(instance.layer, instance.inputs, rng=rng)
    form = covariate_form(instance.secret, described.parameters)
    return ExampleOracle(
        _LayerAndProduct(instance.layer, form, described),
        instance.inputs,
        noise=_ErrorsOnTheGate(described),
        rng=rng,
    )


def samples_from_examples(
    x: ArrayLike, y: ArrayLike, parameters: LWRParameters, *, gate: int = 0, allowed_error: float = 1e-6
) -> LWRSamples:
    """The samples (A, b) in examples of a layer of the family "lwr": one for every example on the gate.

    Parameters
    ----------
    x, y : array (N, 2, d)
        Token matrices and their labels, noisy or not.
    parameters : LWRParameters
        What they are examples of.
    gate : int
        The gate coordinate.
    allowed_error : float
        How far an output may be off a whole label, below 1/2: of layers with a small slope
        `HardInstance.allowed_error`.

    Returns
    -------
    LWRSamples
        Binary: rows are bits. Ternary: -1, 0 and 1. Gadget: the residues G a mod q, which log2 q bits each spell.

    Raises
    ------
    ValueError
        If the arrays are not (N, 2, d), no example is on the gate, or the labels are not whole numbers from 0 to p - 1
        that both rows agree on.

    Notes
    -----
    Off the gate an example says nothing of the secret: its outputs are 0. About half of uniform examples are on it.
    O(N d).

    Examples
    --------
    >>> from lwe import make_lwr_instance
    >>> instance = make_lwr_instance(secret_dim=6, modulus=16, levels=2, matrix="gadget", rng=0)
    >>> x = instance.inputs.sample(100, rng=1)
    >>> samples = samples_from_examples(x, instance.layer(x), LWRParameters(6, 16, 2, matrix="gadget"))
    >>> samples.public.shape[1], bool(np.all(2 * (samples.public @ instance.secret % 16) // 16 == samples.labels))
    (6, True)
    """
    require_parameters(parameters)
    allowed_error = finite_number("allowed_error", allowed_error)
    tokens, outputs = to_numpy(x), to_numpy(y)
    d, gate = parameters.dim, count("gate", gate, least=0)
    if non_negative("allowed_error", allowed_error) >= 0.5:
        raise ValueError(f"allowed_error is {allowed_error}: labels are 1 apart, so it must be below 1/2.")
    if parameters.matrix == "uniform":
        raise ValueError(f"{parameters} has a uniform public matrix: no layer has such examples.")
    if tokens.ndim != 3 or tokens.shape != outputs.shape or tokens.shape[1:] != (2, d) or gate >= d:
        raise ValueError(
            f"x has shape {tokens.shape} and y {outputs.shape}, the gate is {gate}: both must be (N, 2, {d}) for "
            f"{parameters}."
        )
    if not np.all(np.abs(tokens) == 1):
        raise ValueError(_NO_SIGNS)
    on = tokens[:, 0, gate] != tokens[:, 1, gate]
    if not on.any():
        raise ValueError(
            f"None of the {len(tokens)} examples is on the gate, where the tokens differ in coordinate {gate}: "
            "give more."
        )
    tokens = tokens[on]
    labels = _labels(tokens, outputs[on], parameters, gate, allowed_error)
    return LWRSamples(_public(covariates_of(tokens, parameters, gate), parameters), labels)


def covariates_of(
    x: Float[np.ndarray, "N 2 d"], parameters: LWRParameters, gate: int
) -> Int[np.ndarray, "N n"]:
    """The covariates a of token matrices, whose inner product with the layer's integer form is T.

    Parameters
    ----------
    x : array of float (N, 2, d)
        Two tokens of signs each.
    parameters : LWRParameters
        Of the layer.
    gate : int
        Its gate coordinate, which is no covariate.

    Raises
    ------
    ValueError
        If the tokens are not (N, 2, d) signs, or there is no such coordinate.

    Notes
    -----
    A bit is 1 where the tokens differ; a ternary covariate is 0 where they agree, else the first token's sign times
    its sign in the gate: what it is on the gate. O(N d).
    """
    require_parameters(parameters)
    x = real_array("x", x)
    if x.ndim != 3 or x.shape[1] != 2 or x.shape[2] != parameters.dim:
        raise ValueError(f"x has shape {x.shape}: (N, 2, {parameters.dim}) is needed.")
    if not np.all(np.abs(x) == 1):
        raise ValueError(_NO_SIGNS)
    gate = count("gate", gate, least=0, most=parameters.covariates)
    differ = np.delete(x[:, 0] != x[:, 1], gate, axis=1).astype(np.int64)
    if parameters.matrix != "ternary":
        return differ
    return differ * np.delete(x[:, 0] * x[:, 0, [gate]], gate, axis=1).astype(np.int64)


def _labels(
    x: np.ndarray, y: np.ndarray, parameters: LWRParameters, gate: int, allowed_error: float
) -> Int[np.ndarray, " N"]:
    values = x[:, :, gate] * y[:, :, gate] + parameters.centre
    nearest = np.rint(values)
    off = np.abs(values - nearest)
    if not np.all(off <= allowed_error):
        place = int(np.argmax(np.where(np.isnan(off), np.inf, off).max(axis=1)))
        raise ValueError(
            f"An example on the gate has the labels {values[place, 0]:g} and {values[place, 1]:g} in its two rows: "
            f"whole numbers up to {allowed_error:g} are needed, as a layer of {parameters} gives them."
        )
    if np.any(nearest[:, 0] != nearest[:, 1]):
        place = int(np.argmax(nearest[:, 0] != nearest[:, 1]))
        raise ValueError(
            f"The two rows of an example on the gate have the labels {nearest[place, 0]:g} and "
            f"{nearest[place, 1]:g}: they must agree."
        )
    if nearest.min() < 0 or nearest.max() >= parameters.levels:
        raise ValueError(
            f"The labels go from {nearest.min():g} to {nearest.max():g}: from 0 to {parameters.levels - 1} is allowed "
            f"for {parameters}."
        )
    return nearest[:, 0].astype(np.int64)


def _public(covariates: np.ndarray, parameters: LWRParameters) -> np.ndarray:
    if not parameters.gadget:
        return covariates
    digits = covariates.reshape(len(covariates), parameters.secret_dim, parameters.digits)
    return digits @ (1 << np.arange(parameters.digits))


@dataclass(frozen=True, eq=False)
class _LayerAndProduct:
    """A layer's labels with two columns more, which the errors need: T, and x_rg on the gate (0 off it)."""

    layer: AttentionLayer
    form: np.ndarray
    described: PublicDescription

    def __call__(self, x: np.ndarray) -> Float[np.ndarray, "N 2 columns"]:
        """The columns side by side."""
        parameters, gate = self.described.parameters, self.described.gate
        t = covariates_of(x, parameters, gate) @ self.form
        if self.described.deviations is not None:
            t = np.clip(t, *kept_range(self.form, parameters.matrix, self.described.deviations))
        on = x[:, 0, gate] != x[:, 1, gate]
        beside = np.stack([np.repeat(t[:, None], 2, axis=1), x[:, :, gate] * on[:, None]], axis=2)
        return np.concatenate([self.layer(x), beside], axis=2)


@dataclass(frozen=True)
class _ErrorsOnTheGate:
    """Takes the two columns off again and puts errors into the labels."""

    described: PublicDescription

    def __call__(self, y: np.ndarray, rng: np.random.Generator) -> Float[np.ndarray, "N 2 d"]:
        """The labels with errors."""
        parameters, gate = self.described.parameters, self.described.gate
        q, p = parameters.modulus, parameters.levels
        t, signs = y[:, 0, -2].astype(np.int64), y[:, :, -1]
        errors = parameters.noise.draw(len(y), q, rng=rng)
        change = rounded(t + errors, q, p) - rounded(t, q, p)
        noisy = y[:, :, :-2].copy()
        noisy[:, :, gate] += signs * change[:, None]
        return noisy
