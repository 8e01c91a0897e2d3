"""The reduction as a program: it turns a learner of the layer into a test of its labels against random ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from attention import Learner
from attention.inputs import Rng
from attention.validation import PositiveInt, Real, Whole, checked, random_generator
from lwe.attacks.attack import Attack, Budget
from lwe.attacks.learner import label_values
from lwe.parameters import LWEParameters
from lwe.residues import rounded
from lwe.samples import LWRSamples, make_samples
from lwe.tokens import SampleOracle, realised

_MOST_SAMPLES = 1 << 62
_CONFIDENCE = 0.95  # of the interval of an advantage
_FALSE_ALARM = 0.01  # the level of the test of a run

Values = Callable[[np.ndarray], np.ndarray]
Share = Annotated[float, Real(above=0, below=1)]


@dataclass(frozen=True, eq=False)
class Distinguishing:
    """How well a learner distinguished labels of secrets from random labels."""

    parameters: LWEParameters  #: what the labels were of
    learner: str  #: what learned them
    #: for each run, the estimate of E b^2 - E(h - b)^2 on its fresh samples, with labels b scaled to [-1, 1]
    real: Float[np.ndarray, " runs"]
    random: Float[np.ndarray, " runs"]
    #: in how many runs the labels were accepted as real
    real_detected: int
    random_detected: int
    #: whether all runs on real labels used one given secret; then conclusions hold for this secret only
    fixed_secret: bool = False

    @property
    def runs(self) -> int:
        """How many on labels of secrets, and how many on random labels."""
        return len(self.real)

    @property
    def advantage(self) -> float:
        """The share of real runs accepted as real, minus the share of random runs accepted as real."""
        return (self.real_detected - self.random_detected) / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """A 95 % confidence interval of the advantage: two Clopper-Pearson intervals, each with half the error."""
        from scipy.stats import binomtest  # slow to import and rarely needed

        real, random = (
            binomtest(detected, self.runs).proportion_ci((1 + _CONFIDENCE) / 2)
            for detected in (self.real_detected, self.random_detected)
        )
        return float(real.low - random.high), float(real.high - random.low)

    def __str__(self) -> str:
        """The counts, the interval, and the conclusion about the labels, if any."""
        low, high = self.interval
        whose = "this secret" if self.fixed_secret else "these parameters"
        follows = (
            f"It distinguishes: labels of {whose} are not pseudorandom to a distinguisher of this cost; of others "
            "nothing follows."
            if low > 0
            else "No advantage was shown: of other learners nothing follows, and nothing of security."
        )
        return (
            f"{self.learner} on {self.parameters}: {self.real_detected} of {self.runs} runs on labels of secrets and "
            f"{self.random_detected} of {self.runs} on random labels taken for real; advantage {self.advantage:.3g} "
            f"[{low:.3g}, {high:.3g}] at {100 * _CONFIDENCE:g}% confidence; eps {self.real.mean():.3g}. {follows}"
        )


@checked
def distinguish(
    learner: Learner | Attack,
    parameters: LWEParameters,
    *,
    runs: Annotated[int, Whole(1, 10**6)] = 20,
    examples: PositiveInt = 4000,
    fresh: PositiveInt = 1000,
    secret: ArrayLike | None = None,
    rng: Rng = None,
) -> Distinguishing:
    """Turn a learner into a distinguisher: run it on labels of secrets and on random labels, and compare.

    ValueError if a learner is given and no heads realise the parameters, or the learner needs more examples.

    Parameters
    ----------
    learner : Learner or Attack
        A learner gets each sample repeatedly as examples on the gate, each time with new tokens, and about as many
        examples off the gate. An attack gets the samples, without a time limit.
    parameters : LWEParameters
        The parameters of the labels, including their errors.
    runs, examples, fresh : int
        The number of runs on each kind of labels; in each run, the number of samples to learn from and the number of
        fresh samples that test the hypothesis.
    secret : array of int (n,), optional
        One secret for all runs; then conclusions hold for this secret only. By default each run draws a secret.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Notes
    -----
    Random labels are floor(p u / q) of uniform residues u, independent of everything, as in decision learning with
    rounding. A hypothesis h, learned from other samples, is tested on N fresh samples with centred labels b in an
    interval of length W (2 for labels -1 and 1). If labels are random, 2hb is sub-Gaussian given h, so
    E exp(2 (2hb - h^2)/W^2) <= 1 by Hoeffding's lemma. By Markov's inequality the sum of 2hb - h^2 then reaches
    (W^2/2) ln(1/delta) with probability at most delta, whatever h. The test accepts labels as real if the sum reaches
    this value, with delta = 1/100. Since 2hb - h^2 = b^2 - (h - b)^2, a learner with E(h - b)^2 <= E b^2 - eps passes
    with probability 1 - delta from N = 32 ln(1/delta)/eps^2 on, for |h|, |b| <= 1 (Hoeffding's inequality): O(1/eps^2)
    examples. Derived here.

    Examples
    --------
    >>> from lwe import LeastSquaresAttack, TERNARY
    >>> easy = LWEParameters(n=8, q=64, p=4, Xs=TERNARY)
    >>> result = distinguish(LeastSquaresAttack(), easy, runs=10, examples=500, rng=0)
    >>> result.real_detected, result.random_detected, result.interval[0] > 0
    (10, 0, True)
    """
    if isinstance(learner, type):
        raise ValueError(f"learner is the class {learner.__name__}: an instance of it is needed.")
    name = learner.name if isinstance(learner, Attack) else type(learner).__name__
    mean, width = _mean_label(parameters), parameters.p - 1
    gains, detected = np.zeros((2, runs)), [0, 0]
    for run, stream in enumerate(random_generator(rng).spawn(runs)):
        for kind, generator in enumerate(stream.spawn(2)):
            samples, _ = make_samples(parameters, examples + fresh, secret=secret, rng=generator)
            if kind == 1:
                residues = generator.integers(parameters.q, size=len(samples))
                samples = LWRSamples(samples.public, rounded(residues, parameters.q, parameters.p))
            training, held_out = samples.held_out(fresh)
            if isinstance(learner, Attack):
                predict = learner(training, parameters, rng=generator, budget=Budget(seconds=None)).predict
            else:
                predict = _learned(learner, parameters, training, generator)
            terms = np.zeros(fresh)
            if predict is not None:
                h, b = predict(held_out.public) - mean, held_out.labels - mean
                terms = 2 * h * b - h**2
            gains[kind, run] = float(terms.mean()) * (2 / width) ** 2
            detected[kind] += bool(terms.sum() >= width**2 / 2 * math.log(1 / _FALSE_ALARM))
    return Distinguishing(parameters, name, gains[0], gains[1], detected[0], detected[1], secret is not None)


@checked
def sufficient_examples(gain: Annotated[float, Real(above=0, most=1)], error: Share) -> int:
    """How many fresh samples suffice to tell labels in [-1, 1] from random ones, given E(h - b)^2 <= E b^2 - gain.

    With 32 ln(1/error)/gain^2 samples, rounded up, both errors of the test are at most `error`; see `distinguish`.
    ValueError if 2^62 samples do not suffice.

    Examples
    --------
    >>> sufficient_examples(0.5, 0.01)
    590
    """
    needed = -32 * math.log(error)
    least = math.sqrt(needed / _MOST_SAMPLES)
    if least > gain:  # gain^2 may be 0
        raise ValueError(
            f"gain is {gain}: more than 2^62 samples would be needed; take a gain above {least:.3g}."
        )
    return math.ceil(needed / gain**2)


def _learned(
    learner: Learner, parameters: LWEParameters, samples: LWRSamples, generator: np.random.Generator
) -> Values:
    heads = realised(parameters)
    if heads is None:
        raise ValueError(
            f"No heads realise {parameters}: take a modulus that is a power of two, or an attack."
        )
    least = learner.minimum_examples(2, heads.dim)
    if 2 * len(samples) < least:
        raise ValueError(
            f"{len(samples)} samples give {2 * len(samples)} examples and {type(learner).__name__} needs {least}: "
            "give it more."
        )
    fit = learner.fit(SampleOracle(samples, heads, rng=generator), rng=generator)
    return label_values(fit.predict, heads, seed=int(generator.integers(1 << 62)))


def _mean_label(parameters: LWEParameters) -> float:
    """The mean of random labels.

    The labels floor(p u / q) of u = 0, ..., q - 1 sum to ((p - 1)(q - 1) + gcd(p, q) - 1)/2. This is the number of grid
    points under the diagonal of a p x q rectangle.
    """
    q, p = parameters.q, parameters.p
    return ((p - 1) * (q - 1) + math.gcd(p, q) - 1) / (2 * q)
