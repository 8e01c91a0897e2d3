"""Conversion of samples to token matrices for learners of attention layers, and of examples back to samples."""

import numpy as np
from jaxtyping import Bool, Float, Int

from attention import ExampleOracle
from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import count
from lwe.attacks.attack import Attempt
from lwe.parameters import LWEParameters
from lwe.samples import LWRSamples

__all__ = [
    "SampleOracle",
    "labels_of_outputs",
    "outputs_of_labels",
    "realised",
    "token_examples",
]

_GATE = 0


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
    does with probability 1/2, as for uniform signs. The budget of an `attempt` is checked before examples are drawn.
    """

    def __init__(
        self,
        samples: LWRSamples,
        parameters: LWEParameters,
        *,
        rng: np.random.Generator,
        on_gate_only: bool = False,
        attempt: Attempt | None = None,
    ) -> None:
        # it inherits only the interface of the base class
        self._samples, self._parameters, self._generator = samples, parameters, rng
        self._on_gate_only, self._attempt = on_gate_only, attempt
        self._order, self._used, self._count = np.arange(len(samples)), 0, 0

    @property
    def tokens(self) -> int:
        """Two tokens."""
        return 2

    @property
    def dim(self) -> int:
        """The covariates and the gate."""
        return self._parameters.dim

    @property
    def drawn(self) -> int:
        """How many examples were drawn so far."""
        return self._count

    @property
    def remaining(self) -> int | None:
        """None: examples are unlimited."""
        return None

    def draw(self, n: int) -> tuple[Float[np.ndarray, "n 2 d"], Float[np.ndarray, "n 2 d"]]:
        """Draw `n` examples: token matrices and their labels."""
        n = count("n", n, least=0)
        require_memory(f"n is {shown(n)}: that many examples", 64 * n * (self.dim + 1), advice="draw fewer")
        if self._attempt is not None:
            self._attempt.check()
            self._attempt.require_memory(32 * n * self.dim, f"{n} examples of two tokens")
        gate = np.ones(n, dtype=bool) if self._on_gate_only else self._generator.random(n) < 0.5
        used = self._next_samples(int(gate.sum()))
        self._count += n
        public, labels = self._samples.public[used], self._samples.labels[used]
        return token_examples(gate, public, labels, self._parameters, rng=self._generator)

    def split(self, workers: int) -> list[ExampleOracle]:
        """The same oracle for each of `workers` workers, which draw from it in turn."""
        return [self] * count("workers", workers)

    def _next_samples(self, number: int) -> Int[np.ndarray, " number"]:
        parts: list[np.ndarray] = [self._order[:0]]
        while number:
            if self._used == len(self._order):
                self._order, self._used = self._generator.permutation(len(self._order)), 0
            parts.append(self._order[self._used : self._used + number])
            self._used += len(parts[-1])
            number -= len(parts[-1])
        return np.concatenate(parts)


def _covariates(public: np.ndarray, parameters: LWEParameters) -> Int[np.ndarray, "N n"]:
    q = parameters.q
    residues = np.mod(public, q)
    if parameters.gadget:
        bits = (residues[:, :, None] >> np.arange(parameters.digits)) & 1
        return bits.reshape(len(public), -1)
    return np.where(residues == q - 1, -1, residues) if parameters.matrix == "ternary" else residues
