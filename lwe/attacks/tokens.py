"""Samples as token matrices that a learner of attention layers can be given, and examples read back as samples."""

import numpy as np
from jaxtyping import Bool, Float, Int

from lwe.examples import covariates_of
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples

__all__ = [
    "examples_of_samples",
    "labels_of_outputs",
    "outputs_of_labels",
    "realised",
    "rows_of_tokens",
    "token_examples",
]

GATE = 0


def realised(parameters: LWRParameters) -> LWRParameters | None:
    """The parameters whose layer has these samples; None if no heads realise them.

    Uniform rows mod a power of two are the gadget's.

    Examples
    --------
    >>> print(realised(LWRParameters(secret_dim=4, modulus=8, levels=2, matrix="uniform")))
    LWR n'=4 q=8 p=2 gadget (d=13)
    """
    if parameters.matrix != "uniform":
        return parameters
    if parameters.modulus & (parameters.modulus - 1):
        return None
    return parameters.updated(matrix="gadget")


def examples_of_samples(
    samples: LWRSamples, parameters: LWRParameters, *, rng: np.random.Generator, on_gate_only: bool = False
) -> tuple[Float[np.ndarray, "N 2 d"], Float[np.ndarray, "N 2 d"]]:
    """Examples of two tokens, distributed as uniform signs are if the rows are uniform, with their outputs.

    Half of them are off the gate, where outputs are 0 and the learner needs no sample; all samples are used once.

    Parameters
    ----------
    samples : LWRSamples
        At least one.
    parameters : LWRParameters
        As `realised` gives them.
    rng : numpy.random.Generator
        Draws the first tokens and what is off the gate.
    on_gate_only : bool
        One example for each sample, in order, and no others.

    Returns
    -------
    x, y : array (N, 2, d)
        About twice as many examples as samples.
    """
    number = len(samples)
    gate = np.ones(number, dtype=bool)
    if not on_gate_only:
        bits = rng.integers(2, size=4 * number + 64, dtype=np.int8).astype(bool)
        gate = np.append(bits[: np.searchsorted(np.cumsum(bits), number)], True)
        gate = np.append(gate, np.ones(max(0, number - int(gate.sum())), dtype=bool))
    return token_examples(gate, samples.public, samples.labels, parameters, rng=rng)


def token_examples(
    gate: Bool[np.ndarray, " N"],
    public: Int[np.ndarray, "on n"],
    labels: Int[np.ndarray, " on"],
    parameters: LWRParameters,
    *,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "N 2 d"], Float[np.ndarray, "N 2 d"]]:
    """Examples that are on the gate where `gate` says so, there with these rows and labels, in order.

    All else is random: the first tokens, and the covariates off the gate.
    """
    n, off = parameters.covariates, int(np.sum(~gate))
    covariates = np.empty((len(gate), n), dtype=np.int64)
    covariates[gate] = _covariates(public, parameters)
    covariates[~gate] = rng.integers(2, size=(off, n))
    if parameters.matrix == "ternary":
        covariates[~gate] -= rng.integers(2, size=(off, n))
    x = np.empty((len(gate), 2, n + 1))
    x[:, 0] = 2.0 * rng.integers(2, size=(len(gate), n + 1)) - 1
    if parameters.matrix == "ternary":
        # where a_j is not 0, it is the first token's entry times its gate
        x[:, 0, 1:] = np.where(covariates != 0, covariates * x[:, 0, :1], x[:, 0, 1:])
    x[:, 1, 1:] = np.where(covariates != 0, -x[:, 0, 1:], x[:, 0, 1:])
    x[:, 1, 0] = np.where(gate, -x[:, 0, 0], x[:, 0, 0])
    all_labels = np.zeros(len(gate), dtype=np.int64)
    all_labels[gate] = labels
    return x, outputs_of_labels(x, all_labels, parameters)


def outputs_of_labels(
    x: Float[np.ndarray, "N 2 d"], labels: Int[np.ndarray, " N"], parameters: LWRParameters
) -> Float[np.ndarray, "N 2 d"]:
    """What the layer outputs: x_r0 (b - (p - 1)/2) e_0 in row r on the gate, 0 off it."""
    outputs = np.zeros_like(x)
    on_gate = x[:, 0, GATE] != x[:, 1, GATE]
    outputs[:, :, GATE] = x[:, :, GATE] * ((labels - parameters.centre) * on_gate)[:, None]
    return outputs


def labels_of_outputs(
    x: Float[np.ndarray, "N 2 d"], y: Float[np.ndarray, "N 2 d"], parameters: LWRParameters
) -> Float[np.ndarray, " N"]:
    """The real numbers that outputs on the gate stand for as labels, in [0, p - 1]: the mean of both rows."""
    read = (y[:, :, GATE] * x[:, :, GATE]).mean(axis=1) + parameters.centre
    return np.clip(np.nan_to_num(read, nan=parameters.centre), 0, parameters.levels - 1)


def rows_of_tokens(
    x: Float[np.ndarray, "N 2 d"], parameters: LWRParameters
) -> tuple[Int[np.ndarray, "N n"], Bool[np.ndarray, " N"]]:
    """The rows of the public matrix that token matrices of signs stand for, and which of them are on the gate."""
    covariates = covariates_of(x, parameters, GATE)
    if parameters.gadget:
        bits = covariates.reshape(len(x), parameters.secret_dim, parameters.digits)
        covariates = bits @ (1 << np.arange(parameters.digits, dtype=np.int64))
    return covariates, x[:, 0, GATE] != x[:, 1, GATE]


def _covariates(public: np.ndarray, parameters: LWRParameters) -> Int[np.ndarray, "N n"]:
    q = parameters.modulus
    residues = np.mod(public, q)
    if parameters.gadget:
        bits = (residues[:, :, None] >> np.arange(parameters.digits)) & 1
        return bits.reshape(len(public), -1)
    return np.where(residues == q - 1, -1, residues) if parameters.matrix == "ternary" else residues
