"""The executable reduction: a learner of the layer tells its labels from random ones; here one is made to."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from attention import Learner
from attention.inputs import Rng
from attention.validation import count, finite_number, non_negative, random_generator
from lwe.attack import Attack, AttackOutcome, Budget
from lwe.attacks.learner import LabelReader
from lwe.attacks.sample_oracle import SampleOracle
from lwe.attacks.tokens import realised
from lwe.parameters import LWRParameters, require_parameters, rounded
from lwe.samples import LWRSamples, make_samples

__all__ = ["Distinguishing", "distinguish", "sufficient_examples"]

_LEAST_GAIN = 1e-6
"""Below it no theorem is told: it would ask for some 10^13 samples and more."""

_MOST_SAMPLES = 1 << 62

Values = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Distinguishing:
    """How well a learner told labels of secrets from random ones.

    Attributes
    ----------
    parameters : LWRParameters
        What the labels were of.
    learner : str
        What learned.
    examples, fresh : int
        In each run: how many samples it learned from, and how many others its hypothesis was tested on.
    false_alarm : float
        The level of the test of a run: at most this share of runs on random labels is taken for real ones.
    confidence : float
        Of both intervals together: each has half the error.
    real, random : array (runs,)
        Of each run, the estimate of E b^2 - E(h - b)^2 on its fresh samples, labels b scaled to [-1, 1].
    real_detected, random_detected : int
        In how many runs the labels were taken for real ones.
    seconds : float
        How long it all took.
    fixed_secret : bool
        Whether all runs on real labels had one secret that was given; then what follows is of this secret alone.
    """

    parameters: LWRParameters
    learner: str
    examples: int
    fresh: int
    false_alarm: float
    confidence: float
    real: Float[np.ndarray, " runs"]
    random: Float[np.ndarray, " runs"]
    real_detected: int
    random_detected: int
    seconds: float = 0.0
    fixed_secret: bool = False

    @property
    def runs(self) -> int:
        """How many on labels of secrets, and how many on random labels."""
        return len(self.real)

    @property
    def advantage(self) -> float:
        """The share of real runs taken for real, minus that of random ones."""
        return (self.real_detected - self.random_detected) / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """A confidence interval of the advantage, at half the error: two of Clopper and Pearson, a quarter each.

        It holds together with `gain_interval` with at least the confidence asked for (Bonferroni's inequality).
        """
        (low1, high1), (low0, high0) = (
            _clopper_pearson(found, self.runs, (1 - self.confidence) / 4)
            for found in (self.real_detected, self.random_detected)
        )
        return low1 - high0, high1 - low0

    @property
    def gain(self) -> float:
        """Eps, the mean of `real`: E(h - b)^2 is below E b^2 (1 for labels -1 and 1) by so much."""
        return float(np.mean(self.real))

    @property
    def gain_interval(self) -> tuple[float, float]:
        """A confidence interval of the mean eps of these hypotheses, at half the error, by Hoeffding's inequality.

        Over all fresh samples of all runs; it holds together with `interval`.
        """
        # a term 2hb - h^2 lies in [-3m^2, m^2] for |h|, |b| <= m
        _, bound = _scale(self.parameters)
        radius = 4 * bound**2 * math.sqrt(math.log(4 / (1 - self.confidence)) / (2 * self.runs * self.fresh))
        return self.gain - radius, self.gain + radius

    @property
    def conclusion(self) -> str:
        """What follows, and what does not."""
        low, high = self.interval
        percent = f"{100 * self.confidence:.4g}%"  # of all that is said: both intervals hold
        if low > 0:
            least, m = self.gain_interval[0], _scale(self.parameters)[1]
            theorem = (
                f" Its hypotheses have E(h - b)^2 <= E b^2 - {least:.2g} on average; whatever has that on an instance "
                f"tells it from random labels with {sufficient_examples(least / m**2, self.false_alarm)} fresh "
                f"samples, up to errors of {self.false_alarm:.2g} on both sides."
                if _LEAST_GAIN <= least <= 1
                else ""
            )
            whose, others = ("these parameters", "others, larger ones among them,")
            if self.fixed_secret:
                whose, others = "this secret", "other secrets of these parameters, and of other parameters,"
            return (
                f"It distinguishes: the advantage is at least {low:.2g} ({percent} confidence).{theorem} So labels of "
                f"{whose} are not pseudorandom to a distinguisher of this cost; of {others} nothing follows."
            )
        if high < 0:
            return (
                f"It takes random labels for real ones more often than real ones (advantage at most {high:.2g}, "
                f"{percent} confidence): something is wrong with it."
            )
        options = "these options, this secret" if self.fixed_secret else "these options"
        return (
            f"No advantage was shown: it is at most {high:.2g} ({percent} confidence) for this learner with {options} "
            "and so many examples. Of other learners nothing follows, and nothing of security."
        )

    def __str__(self) -> str:
        low, high = self.interval
        eps_low, eps_high = self.gain_interval
        return (
            f"{self.learner} on {self.parameters}: {self.real_detected} of {self.runs} runs on labels of secrets and "
            f"{self.random_detected} of {self.runs} on random labels taken for real; advantage {self.advantage:.3g} "
            f"[{low:.3g}, {high:.3g}]; eps {self.gain:.3g} [{eps_low:.3g}, {eps_high:.3g}], together at "
            f"{100 * self.confidence:.4g}%. {self.conclusion}"
        )

    def to_json(self) -> dict[str, Any]:
        """The fields and what follows from them as plain JSON values."""
        return {
            "parameters": self.parameters.to_json(),
            "learner": self.learner,
            "runs": self.runs,
            "examples": self.examples,
            "fresh": self.fresh,
            "false_alarm": self.false_alarm,
            "confidence": self.confidence,
            "real": [float(one) for one in self.real],
            "random": [float(one) for one in self.random],
            "real_detected": self.real_detected,
            "random_detected": self.random_detected,
            "advantage": self.advantage,
            "interval": list(self.interval),
            "gain": self.gain,
            "gain_interval": list(self.gain_interval),
            "conclusion": self.conclusion,
            "seconds": self.seconds,
            "fixed_secret": self.fixed_secret,
        }


def distinguish(
    learner: Learner | Attack,
    parameters: LWRParameters,
    *,
    runs: int = 20,
    examples: int = 4000,
    fresh: int = 1000,
    false_alarm: float = 0.01,
    confidence: float = 0.95,
    secret: ArrayLike | None = None,
    budget: Budget | None = None,
    rng: Rng = None,
) -> Distinguishing:
    """Make a distinguisher of a learner: run it on labels of secrets and on random ones, and see whether it can tell.

    Parameters
    ----------
    learner : Learner or Attack
        A learner gets each sample as examples on the gate, again and again with other tokens, with about as many off
        it; an attack gets the samples.
    parameters : LWRParameters
        Of the labels, their errors included.
    runs : int
        How many on each kind of labels.
    examples, fresh : int
        In each run, how many samples to learn from, and how many others to test the hypothesis on.
    false_alarm : float
        The level delta of the test of a run, in (0, 1).
    confidence : float
        Of what is concluded: that both intervals hold, each at half the error, in (0, 1).
    secret : array of int (secret_dim,), optional
        One secret for all runs, of which alone something follows then; by default each run on real labels draws its
        own.
    budget : Budget, optional
        Of an attack, in each run; by default no seconds, so that results do not depend on the machine.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    Distinguishing
        The counts, the advantage with its interval, and what follows.

    Raises
    ------
    ValueError
        If a number is out of its range, it is neither learner nor attack, no heads realise the parameters and it is
        a learner, or the learner refuses so few examples.

    Notes
    -----
    Random labels are floor(p u / q) of uniform residues u, independent of everything: what decision learning with
    rounding compares with. A hypothesis h, from samples of its own, is tested on N fresh samples with centred labels
    b in an interval of length W (2 for labels -1 and 1). If labels are random, 2hb is sub-Gaussian given h, so
    E exp(2 (2hb - h^2)/W^2) <= 1 by Hoeffding's lemma, and by Markov's inequality the sum of 2hb - h^2 reaches
    (W^2/2) ln(1/delta) with probability at most delta, whatever h. That is when labels are taken for real. As
    2hb - h^2 = b^2 - (h - b)^2, a learner with E(h - b)^2 <= E b^2 - eps passes with probability 1 - delta from
    N = 32 ln(1/delta)/eps^2 on, for |h|, |b| <= 1 (Hoeffding's inequality): O(1/eps^2) examples. Derived here.

    An attack that says DISTINGUISHED without predicting takes labels for real as well; then the level is its own.

    References
    ----------
    Derived here; Banerjee, Peikert and Rosen 2012 for decision learning with rounding, Hoeffding 1963, Clopper and
    Pearson 1934.

    Examples
    --------
    >>> from lwe.attacks.least_squares import LeastSquaresAttack
    >>> from lwe.laws import TernaryLaw
    >>> easy = LWRParameters(secret_dim=8, modulus=64, levels=4, secret=TernaryLaw())
    >>> found = distinguish(LeastSquaresAttack(), easy, runs=10, examples=500, rng=0)
    >>> found.real_detected, found.random_detected, found.interval[0] > 0
    (10, 0, True)
    """
    require_parameters(parameters)
    runs = count("runs", runs, most=10**6)
    examples = count("examples", examples, least=1)
    fresh = count("fresh", fresh, least=1)
    false_alarm = finite_number("false_alarm", false_alarm)
    confidence = finite_number("confidence", confidence)
    for name, share in (("false_alarm", false_alarm), ("confidence", confidence)):
        if not 0 < non_negative(name, share) < 1:
            raise ValueError(f"{name} is {share}: a number between 0 and 1 is needed.")
    hypothesis: Callable[[LWRSamples, np.random.Generator], tuple[Values | None, bool]]
    if isinstance(learner, type):
        raise ValueError(f"learner is the class {learner.__name__}: an instance of it is needed.")
    if isinstance(learner, Learner):
        realisable, name = realised(parameters), type(learner).__name__
        if realisable is None:
            raise ValueError(
                f"No heads realise {parameters}: take a modulus that is a power of two, or an attack."
            )
        student, heads = learner, realisable
        hypothesis = lambda samples, rng: (_learned(student, samples, heads, rng), False)  # noqa: E731
    elif isinstance(learner, Attack):
        attack, name = learner, learner.name
        spend = budget or Budget(seconds=None)
        hypothesis = lambda samples, rng: _attacked(attack, samples, parameters, spend, rng)  # noqa: E731
    else:
        raise ValueError(f"learner is {learner!r}: a learner or an attack is needed.")
    mean, _ = _scale(parameters)
    began = time.perf_counter()
    gains, detected = np.zeros((2, runs)), [0, 0]
    for run, stream in enumerate(random_generator(rng).spawn(runs)):
        for kind, generator in enumerate(stream.spawn(2)):
            samples, _ = make_samples(parameters, examples + fresh, secret=secret, rng=generator)
            if kind == 1:
                samples = LWRSamples(samples.public, _random_labels(parameters, len(samples), generator))
            training, held_out = samples.held_out(fresh)
            values, said = hypothesis(training, generator)
            terms = np.zeros(fresh)
            if values is not None:
                h, b = values(held_out.public) - mean, held_out.labels - mean
                terms = 2 * h * b - h**2
            width = parameters.levels - 1
            gains[kind, run] = float(terms.mean()) * (2 / width) ** 2
            detected[kind] += bool(said or terms.sum() >= width**2 / 2 * math.log(1 / false_alarm))
    return Distinguishing(
        parameters=parameters,
        learner=name,
        examples=examples,
        fresh=fresh,
        false_alarm=float(false_alarm),
        confidence=float(confidence),
        real=gains[0],
        random=gains[1],
        real_detected=detected[0],
        random_detected=detected[1],
        seconds=time.perf_counter() - began,
        fixed_secret=secret is not None,
    )


def sufficient_examples(gain: float, error: float) -> int:
    """How many fresh samples suffice to tell labels in [-1, 1] from random ones, given E(h - b)^2 <= E b^2 - gain.

    Parameters
    ----------
    gain : float
        Eps, in (0, 1].
    error : float
        What both errors of the test may be, in (0, 1).

    Raises
    ------
    ValueError
        If a number is out of its range, or 2^62 samples do not suffice.

    Notes
    -----
    32 ln(1/error)/eps^2, rounded up: the sum of N terms in [-3, 1] with mean at least eps is below N eps/2 with
    probability at most exp(-N eps^2/32), and N eps/2 is then above the threshold 2 ln(1/error). Derived here.

    Examples
    --------
    >>> sufficient_examples(0.5, 0.01)
    590
    """
    gain = finite_number("gain", gain)
    error = finite_number("error", error)
    for name, value, most in (("gain", gain, 1.0), ("error", error, math.nextafter(1.0, 0.0))):
        if not 0 < non_negative(name, value) <= most:
            raise ValueError(
                f"{name} is {value}: a number above 0 and {'at most' if most == 1 else 'below'} 1 is needed."
            )
    needed = -32 * math.log(error)
    if math.sqrt(needed / _MOST_SAMPLES) > gain:  # gain^2 may be 0
        raise ValueError(
            f"gain is {gain}: more than 2^62 samples would be needed; take a gain above "
            f"{math.sqrt(needed / _MOST_SAMPLES):.3g}."
        )
    return math.ceil(needed / gain**2)


def _learned(
    learner: Learner, samples: LWRSamples, parameters: LWRParameters, generator: np.random.Generator
) -> Values:
    least = learner.minimum_examples(2, parameters.dim)
    if 2 * len(samples) < least:
        raise ValueError(
            f"{len(samples)} samples give {2 * len(samples)} examples and {type(learner).__name__} needs {least}: "
            "give it more."
        )
    fit = learner.fit(SampleOracle(samples, parameters, rng=generator), rng=generator)
    return LabelReader(fit.predict, parameters, seed=int(generator.integers(1 << 62))).values


def _attacked(
    attack: Attack,
    samples: LWRSamples,
    parameters: LWRParameters,
    budget: Budget,
    generator: np.random.Generator,
) -> tuple[Values | None, bool]:
    result = attack(samples, parameters, rng=generator, budget=budget)
    return result.predict, result.outcome is AttackOutcome.DISTINGUISHED


def _random_labels(
    parameters: LWRParameters, number: int, generator: np.random.Generator
) -> Int[np.ndarray, " N"]:
    return rounded(generator.integers(parameters.modulus, size=number), parameters.modulus, parameters.levels)


def _scale(parameters: LWRParameters) -> tuple[float, float]:
    """The mean of random labels, and the largest centred label once labels are scaled to length 2.

    The labels floor(p u / q) of u = 0, ..., q - 1 sum to ((p - 1)(q - 1) + gcd(p, q) - 1)/2, which is the number of
    points of the grid under the diagonal of a p x q rectangle.
    """
    q, p = parameters.modulus, parameters.levels
    mean = ((p - 1) * (q - 1) + math.gcd(p, q) - 1) / (2 * q)
    return mean, 2 * max(mean, p - 1 - mean) / (p - 1)


def _clopper_pearson(found: int, runs: int, error: float) -> tuple[float, float]:
    """The exact interval of a proportion with that two-sided error."""
    from scipy.stats import beta

    low = 0.0 if found == 0 else float(beta.ppf(error / 2, found, runs - found + 1))
    high = 1.0 if found == runs else float(beta.ppf(1 - error / 2, found + 1, runs - found))
    return low, high
