"""Samples as an example oracle without end: each is used again and again, with other tokens."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from attention import ExampleOracle
from attention._arrays import shown
from attention.memory import require_memory
from attention.validation import count, require_instance
from lwe.attack import require_samples
from lwe.attacks.tokens import token_examples
from lwe.parameters import LWRParameters
from lwe.samples import LWRSamples

__all__ = ["SampleOracle"]


class SampleOracle(ExampleOracle):
    """Examples without end from a number of samples: each has tokens of its own, whenever its sample is used again.

    A row and its label fix where the two tokens differ and what the output is, up to the signs of the first token: 2^d
    examples of one binary sample, all alike likely. All samples are used once in their order, then again in random
    ones. Until one is used again examples are independent, and those held out by a learner were never seen.

    Parameters
    ----------
    samples : LWRSamples
        At least one.
    parameters : LWRParameters
        As `realised` gives them.
    rng : numpy.random.Generator
        Draws the first tokens, the orders, and what is off the gate.
    on_gate_only : bool
        Whether all examples have a sample; by default each of them does with probability 1/2, as uniform signs do.
    before_draw : callable, optional
        Called with the number of examples before they are drawn; what it raises ends the fit.
    """

    def __init__(
        self,
        samples: LWRSamples,
        parameters: LWRParameters,
        *,
        rng: np.random.Generator,
        on_gate_only: bool = False,
        before_draw: Callable[[int], None] | None = None,
    ) -> None:
        # of the oracle it derives from it has the interface alone
        require_samples(samples, parameters, least=1)
        require_instance("rng", rng, np.random.Generator, needed="a numpy.random.Generator")
        self._samples, self._parameters, self._generator = samples, parameters, rng
        self._on_gate_only, self._before_draw = on_gate_only, before_draw
        self._order, self._used, self._own_drawn = np.arange(len(samples)), 0, 0
        self._parts: list[SampleOracle] = []

    @property
    def k(self) -> int:
        """Two tokens."""
        return 2

    @property
    def d(self) -> int:
        """The covariates and the gate."""
        return self._parameters.dim

    @property
    def drawn(self) -> int:
        """How many examples were drawn so far, by this oracle and by those split from it."""
        return self._own_drawn + sum(part.drawn for part in self._parts)

    @property
    def remaining(self) -> int | None:
        """None: there is no end."""
        return None

    def draw(self, n: int) -> tuple[Float[np.ndarray, "n 2 d"], Float[np.ndarray, "n 2 d"]]:
        """Draw `n` examples: token matrices and their labels."""
        n = count("n", n, least=0)
        require_memory(f"n is {shown(n)}: that many examples", 64 * n * (self.d + 1), advice="draw fewer")
        if self._before_draw is not None:
            self._before_draw(n)
        gate = np.ones(n, dtype=bool) if self._on_gate_only else self._generator.random(n) < 0.5
        used = self._next_samples(int(gate.sum()))
        self._own_drawn += n
        public, labels = self._samples.public[used], self._samples.labels[used]
        return token_examples(gate, public, labels, self._parameters, rng=self._generator)

    def split(self, workers: int) -> list[ExampleOracle]:
        """Oracles for `workers` workers, among whom the samples are shared out."""
        workers, own = count("workers", workers), len(self._samples)
        # more workers than samples: a sample goes to several
        shares = np.array_split(np.resize(np.arange(own), max(own, workers)), workers)
        parts = [
            SampleOracle(
                LWRSamples(self._samples.public[share], self._samples.labels[share]),
                self._parameters,
                rng=stream,
                on_gate_only=self._on_gate_only,
                before_draw=self._before_draw,
            )
            for share, stream in zip(shares, self._generator.spawn(workers), strict=True)
        ]
        self._parts += parts
        return list(parts)

    def _next_samples(self, number: int) -> Int[np.ndarray, " number"]:
        parts: list[np.ndarray] = [self._order[:0]]
        while number:
            if self._used == len(self._order):
                self._order, self._used = self._generator.permutation(len(self._order)), 0
            parts.append(self._order[self._used : self._used + number])
            self._used += len(parts[-1])
            number -= len(parts[-1])
        return np.concatenate(parts)
