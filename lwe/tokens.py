"""Samples as token matrices and their outputs, and back: for learners of layers, and for attacks on layers."""

from collections.abc import Callable
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import BooleanInputs, ExampleOracle
from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import Real, checked, count
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples

_GATE = 0


def rows_of_tokens(
    x: Float[np.ndarray, "N 2 d"], parameters: LWEParameters
) -> tuple[Int[np.ndarray, "N n"], Bool[np.ndarray, " N"]]:
    """The rows of the public matrix that token matrices of signs stand for, and which of them are on the gate."""
    covariates = covariates_of(x, parameters)
    if parameters.gadget:
        bits = covariates.reshape(len(x), parameters.n, parameters.digits)
        covariates = bits @ (1 << np.arange(parameters.digits, dtype=np.int64))
    return covariates, x[:, 0, 0] != x[:, 1, 0]


@checked
def covariates_of(x: Float[np.ndarray, "N 2 d"], parameters: LWEParameters) -> Int[np.ndarray, "N n"]:
    """The covariates a of token matrices of signs, whose inner product with the layer's integer form is T.

    A bit is 1 where the tokens differ. A ternary covariate is 0 where they agree, else the first token's sign times
    its sign in the gate, as on the gate. The gate is coordinate 0. ValueError if tokens are not signs or have another
    dimension. O(N d).
    """
    if parameters.matrix == "uniform":
        raise ValueError(f"parameters is {parameters}: no layer has a uniform matrix, another is needed.")
    if x.shape[2] != parameters.dim:
        raise ValueError(f"x has shape {x.shape}: (N, 2, {parameters.dim}) is needed for {parameters}.")
    if not np.all(np.abs(x) == 1):
        raise ValueError(
            "x has entries other than -1 and 1: tokens of this family are signs, others are not allowed."
        )
    differ = (x[:, 0, 1:] != x[:, 1, 1:]).astype(np.int64)
    return differ * (x[:, 0, 1:] * x[:, 0, :1]).astype(np.int64) if parameters.matrix == "ternary" else differ


@checked
def samples_from_examples(
    x: Float[np.ndarray, "N 2 d"],
    y: Float[np.ndarray, "N 2 d"],
    parameters: LWEParameters,
    *,
    allowed_error: Annotated[float, Real(least=0, below=0.5)] = 1e-6,
) -> LWRSamples:
    """The samples (A, b) in examples of a layer of the family "lwr": one for every example on the gate; O(N d).

    ValueError if the arrays are not (N, 2, d), no example is on the gate, or the outputs are not those of labels from 0
    to p - 1.

    Parameters
    ----------
    x, y : array (N, 2, d)
        Token matrices and their labels, noisy or not.
    parameters : LWEParameters
        The parameters of the layer.
    allowed_error : float
        How far an output may be from that of a label. For layers with a small slope use `HardInstance.allowed_error`.

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
    labels = np.rint(labels_of_outputs(x, y, parameters)).astype(np.int64)
    error = float(np.abs(outputs_of_labels(x, labels, parameters) - y).max())
    if error > allowed_error:
        raise ValueError(
            f"y has an entry that is off by {error:.3g}: labels from 0 to {parameters.p - 1} on the gate, equal in "
            f"both rows, and 0 elsewhere, up to {allowed_error:g}, are needed for {parameters}."
        )
    return LWRSamples(public[on], labels[on])


def realised(parameters: LWEParameters) -> LWEParameters | None:
    """The parameters whose layer has these samples; None if no heads realise them.

    Uniform rows mod a power of two are the gadget's.
    """
    if parameters.matrix != "uniform":
        return parameters
    if parameters.q & (parameters.q - 1):
        return None
    return parameters.updated(matrix="gadget")


def token_examples(
    gate: Bool[np.ndarray, " N"],
    public: Int[np.ndarray, "on n"],
    labels: Int[np.ndarray, " on"],
    parameters: LWEParameters,
    *,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "N 2 d"], Float[np.ndarray, "N 2 d"]]:
    """Examples that are on the gate where `gate` is true, with these rows and labels in order.

    The first tokens and the covariates off the gate are random.
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
    x: Float[np.ndarray, "N 2 d"], labels: Int[np.ndarray, " N"], parameters: LWEParameters
) -> Float[np.ndarray, "N 2 d"]:
    """What the layer outputs: x_r0 (b - (p - 1)/2) e_0 in row r on the gate, 0 off it."""
    outputs = np.zeros_like(x)
    on_gate = x[:, 0, _GATE] != x[:, 1, _GATE]
    outputs[:, :, _GATE] = x[:, :, _GATE] * ((labels - parameters.centre) * on_gate)[:, None]
    return outputs


def labels_of_outputs(
    x: Float[np.ndarray, "N 2 d"], y: Float[np.ndarray, "N 2 d"], parameters: LWEParameters
) -> Float[np.ndarray, " N"]:
    """The real numbers that outputs on the gate stand for as labels, in [0, p - 1]: the mean of both rows."""
    read = (y[:, :, _GATE] * x[:, :, _GATE]).mean(axis=1) + parameters.centre
    return np.clip(np.nan_to_num(read, nan=parameters.centre), 0, parameters.p - 1)


class SampleOracle(ExampleOracle):
    """Unlimited examples from a number of samples: each use of a sample has new tokens.

    A row and its label determine where the two tokens differ, and the output, up to the signs of the first token. So
    one binary sample gives 2^d equally likely examples. All samples are used once in order, then again in random
    orders. Until a sample is used again, examples are independent, and examples held out by a learner are unseen.

    `parameters` are those that `realised` returns. With `on_gate_only` every example uses a sample; by default each
    does with probability 1/2, as for uniform signs. `check` is called before examples are drawn, with their number.
    """

    def __init__(
        self,
        samples: LWRSamples,
        parameters: LWEParameters,
        *,
        rng: np.random.Generator,
        on_gate_only: bool = False,
        check: Callable[[int], None] = lambda number: None,
    ) -> None:
        super().__init__(np.zeros_like, BooleanInputs(tokens=2, dim=parameters.dim), rng=rng)
        self._samples, self._parameters = samples, parameters
        self._on_gate_only, self._check = on_gate_only, check
        self._order = np.arange(len(samples))  # of the samples of this pass that are left

    def draw(self, n: int) -> tuple[Float[np.ndarray, "n 2 d"], Float[np.ndarray, "n 2 d"]]:
        """Draw `n` examples: token matrices and their labels."""
        n = count("n", n, least=0)
        require_memory(f"n is {shown(n)}: that many examples", 64 * n * (self.dim + 1), advice="draw fewer")
        self._check(n)
        gate = np.ones(n, dtype=bool) if self._on_gate_only else self._rng.random(n) < 0.5
        used, needed = self._order[:0], int(gate.sum())
        while len(used) < needed:
            if not len(self._order):
                self._order = self._rng.permutation(len(self._samples))
            used, self._order = (
                np.append(used, self._order[: needed - len(used)]),
                self._order[needed - len(used) :],
            )
        self._drawn += n
        public, labels = self._samples.public[used], self._samples.labels[used]
        return token_examples(gate, public, labels, self._parameters, rng=self._rng)

    def split(self, streams: int) -> list[ExampleOracle]:
        """The same oracle so many times: the streams draw from it in turn."""
        return [self] * streams


def _covariates(public: np.ndarray, parameters: LWEParameters) -> Int[np.ndarray, "N n"]:
    q = parameters.q
    residues = np.mod(public, q)
    if parameters.gadget:
        bits = (residues[:, :, None] >> np.arange(parameters.digits)) & 1
        return bits.reshape(len(public), -1)
    return np.where(residues == q - 1, -1, residues) if parameters.matrix == "ternary" else residues
