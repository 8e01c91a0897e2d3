"""The assumption of a problem, what known reductions to it lose at its parameters, and three that run on samples."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import PositiveInt, Whole, checked, random_generator
from lwe.costs.deviations import deviations
from lwe.costs.primal import fewest_samples
from lwe.distributions import DiscreteGaussian
from lwe.parameters import LWEParameters
from lwe.residues import LARGEST_MODULUS, centred, inner_products
from lwe.samples import LWRSamples, rounded_labels

Evidence = Literal["derived", "abstract read", "unchecked"]


@dataclass(frozen=True)
class Reduction:
    """A known reduction at the parameters of one problem: a solver of `to` solves `start`, at this loss."""

    start: str  #: a problem
    to: str  #: the problem that it leads to, or "layer"
    source: str  #: who found it
    #: How its condition is known. Derived: here, and tested by enumeration. Abstract read: the abstract or a survey
    #: agrees, constants are from memory. Unchecked: all from memory.
    evidence: Evidence
    condition: str  #: what it needs, with numbers
    #: bits by which the modulus is too small for the condition; at most 0 if it holds, infinite if no modulus helps
    modulus: float
    samples: float | None = None  #: the most samples that a solver of `to` may use; None without such a limit
    heads: float | None = None  #: the mean number of heads of the layer, if `to` is the layer
    executable: str = ""  #: the function here that carries it out on samples, if there is one

    @property
    def covers(self) -> bool:
        """Whether its condition holds."""
        return self.modulus <= 0

    def __str__(self) -> str:
        run = f", run by {self.executable}" if self.executable else ""
        loss = "covers" if self.covers else "does not cover"
        if 0 < self.modulus < math.inf:
            loss += f", short by a factor of 2^{self.modulus:.3g}"
        if self.samples is not None:
            loss += f", up to {math.floor(self.samples)} samples"
        if self.heads is not None:
            loss += f", about {self.heads:.4g} heads"
        return f"{self.start} -> {self.to}: {loss}. {self.condition} [{self.source}; {self.evidence}{run}]"


@dataclass(frozen=True)
class Reductions:
    """Known reductions that lead to a problem; none if nothing is assumed."""

    parameters: LWEParameters
    samples: int  #: so many samples determine the secret, by their bits; 0 if there is nothing to find
    steps: tuple[Reduction, ...]

    @property
    def rests_on(self) -> str:
        """The problem from which covering reductions lead here, as far back as they go."""
        if not self.steps:
            return "nothing"
        sources = {step.to: step.start for step in reversed(self.steps) if step.covers}
        problem = self.steps[-1].start
        while problem in sources:
            problem = sources[problem]
        return problem

    def __str__(self) -> str:
        if not self.steps:
            return f"Reductions to {self.parameters}: none, since nothing is assumed to be hard."
        return "\n".join(
            [
                f"Reductions to {self.parameters}, {self.parameters.assumption}",
                f"  samples that determine the secret: {self.samples}",
                *(f"  {step}" for step in self.steps),
                f"  rests on: {self.rests_on}, as far as these reductions lead. A reduction is no claim of security at "
                "this size.",
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {
            "parameters": self.parameters.to_json(),
            "assumption": self.parameters.assumption,
            "samples": self.samples,
            "reductions": [asdict(step) | {"covers": step.covers} for step in self.steps],
            "rests_on": self.rests_on,
        }


@checked
def known_reductions(parameters: LWEParameters) -> Reductions:
    """Known reductions to a problem, and what each loses at its parameters.

    Notes
    -----
    Rounding by p of q residues with errors of size B before it: among q residues at most 2 B p change their label by
    some error of that size, two runs of B at each of the p ends. If labels with errors look uniform, m of them round to
    other labels than without errors with probability at most 2 B p m / q (Banerjee, Peikert and Rosen 2012, derived
    here). B is 1, the smallest. "Covers" means at most 1/2 for the m samples that determine the secret: it is
    about solvers that succeed with a probability above 1/2.

    Where p divides q, learning with errors that are uniform on q/p neighbouring residues leads to learning with
    rounding, for any number of samples (`rejected_samples`). That problem may be easy: with q/p = 2 it falls to Arora
    and Ge. Not every known reduction is listed.

    Rows of bits for q = 2^k: take bits of uniform rows a' = G a. Then <a', s> = <a, G^T s>, and with a uniform r that
    one adds to labels as <a, r>, the secret G^T s + r is uniform. So plain learning with errors in n covariates is as
    hard as the standard problem in floor(n / k) entries (derived here; the idea is Boneh, Lewi, Montgomery and
    Raghunathan 2013). Ternary rows are differences of two such rows. Rounded labels cannot be shifted: so for plain
    learning with rounding nothing is known to us but ways by errors.

    Examples
    --------
    >>> known = known_reductions(LWEParameters(16, 256, 2, "gadget"))
    >>> known.samples, known.rests_on, known.steps[-1].heads
    (128, 'LWE with errors uniform on 128 residues', 66.0)
    """
    sizes = deviations(parameters)
    easy = parameters.p == parameters.q and not parameters.noisy
    if easy or sizes.secret_bits == 0 or sizes.label_bits == 0:
        return Reductions(parameters, 0, ())
    needed = fewest_samples(parameters)
    return Reductions(parameters, needed, tuple(_steps(parameters, needed)))


@checked
def rounded_samples(
    samples: LWRSamples, modulus: PositiveInt, levels: Annotated[int, Whole(2)]
) -> LWRSamples:
    """Samples of learning with errors, rounded to that many levels: the reduction to learning with rounding.

    Down or to the nearest, as the samples say. A label differs from that without the error in at most 2 B p of q
    residues, for errors of size B.

    Examples
    --------
    >>> fine = LWRSamples(np.array([[1], [2]]), np.array([3, 12]))
    >>> rounded_samples(fine, 16, 4).labels.tolist()
    [0, 3]
    """
    coarse = LWEParameters(samples.n, modulus, levels)
    return replace(samples, labels=rounded_labels(samples.labels, coarse, samples.rounding))


@checked
def rejected_samples(
    samples: LWRSamples, modulus: PositiveInt, levels: Annotated[int, Whole(2)]
) -> LWRSamples:
    """Samples of learning with errors, uniform on {-(q/p - 1), ..., 0}, as samples of learning with rounding.

    Those whose label is a multiple of q/p are kept, about p of q. ValueError unless p divides q, or if none is left.

    Notes
    -----
    Derived here. For each row a and q/p neighbouring errors, exactly one makes the label <a, s> + u a multiple of q/p:
    that which takes <a, s> down to one. So kept rows have the distribution of all rows, and the label over q/p is
    floor(p <a, s> / q). Random labels become random labels. It holds for every distribution of rows and secrets, and
    any number of samples. Bogdanov, Guo, Masny, Richelson and Rosen 2016 have it, as their abstract says.

    Examples
    --------
    >>> fine = LWRSamples(np.array([[1], [2], [3]]), np.array([3, 12, 8]))
    >>> rejected_samples(fine, 16, 4).labels.tolist()
    [3, 2]
    """
    if modulus % levels:
        raise ValueError(f"levels is {levels} and modulus {modulus}: a divisor of the modulus is needed.")
    share = modulus // levels
    kept = np.mod(samples.labels, modulus) % share == 0
    if not kept.any():
        raise ValueError(
            f"No label of {len(samples)} samples is a multiple of {share}: about {share} samples for each that is kept "
            "are needed."
        )
    return replace(
        samples,
        public=samples.public[kept],
        labels=np.mod(samples.labels[kept], modulus) // share,
        rounding="down",
    )


@checked
def small_row_samples(
    samples: LWRSamples, parameters: LWEParameters, *, rng: Rng = None
) -> tuple[LWRSamples, Int[np.ndarray, " n"]]:
    """Standard samples of learning with errors as samples with rows of bits or trits, and the shift of the secret.

    ValueError unless q is a power of two, labels are not rounded, the rows have floor(n / log2 q) residues, and
    `parameters` have a binary or ternary matrix.

    The new rows a of bits (or trits) have G a = a', and the labels <a, v> + e mod q have the same errors. The new
    secret is v = (s_1, 2 s_1, ..., q/2 s_1, s_2, ..., 0, ..., 0) + shift mod q, with zeros for covariates beyond.
    `parameters` are those of the new problem, in n covariates.

    Examples
    --------
    >>> from lwe import make_samples
    >>> standard, s = make_samples(LWEParameters(2, 8, 8, "uniform"), 50, rng=0)
    >>> found, shift = small_row_samples(standard, LWEParameters(6, 8, 8), rng=1)
    >>> v = np.multiply.outer(s, [1, 2, 4]).ravel() + shift
    >>> bool(np.all(found.public @ v % 8 == found.labels)), np.unique(found.public).tolist()
    (True, [0, 1])
    """
    q, n, digits = parameters.q, parameters.n, parameters.q.bit_length() - 1
    if q & (q - 1) or parameters.p != q or parameters.matrix not in ("binary", "ternary"):
        raise ValueError(
            f"parameters is {parameters}: q a power of two, p = q and a binary or ternary matrix is needed."
        )
    if samples.n != n // digits:
        raise ValueError(
            f"samples have rows of {samples.n} residues: {n // digits} are needed for {parameters}."
        )
    generator, number, used = random_generator(rng), len(samples), samples.n * digits
    residues, rows = np.mod(samples.public, q), np.zeros((number, n), dtype=np.int64)
    if parameters.matrix == "ternary":  # a bit minus a bit, and both rows of bits uniform
        rows -= generator.integers(2, size=(number, n))
        powers = 1 << np.arange(digits, dtype=np.int64)
        residues = np.mod(residues - rows[:, :used].reshape(number, -1, digits) @ powers, q)
    rows[:, :used] += (residues[:, :, None] >> np.arange(digits) & 1).reshape(number, used)
    rows[:, used:] += generator.integers(2, size=(number, n - used))
    shift = generator.integers(q, size=n)
    labels = np.mod(samples.labels + inner_products(rows, shift, q), q)
    return replace(samples, public=rows, labels=labels), shift


def _small_rows(parameters: LWEParameters) -> bool:
    # rows of bits are the uniform rows mod 2
    return parameters.matrix == "ternary" or (parameters.matrix == "binary" and parameters.q > 2)


def _steps(parameters: LWEParameters, needed: int) -> Iterator[Reduction]:
    """The reductions on the way from lattices to the layer, where the problem has to do with them."""
    q, p, n = parameters.q, parameters.p, parameters.n
    errors, rounding = "LPN" if q == 2 else "LWE", "LWR" if p < q else "LPN" if q == 2 else "LWE"
    secret = "" if parameters.Xs.is_uniform(q) else f", {parameters.Xs} secret"
    rows = f", {parameters.matrix} rows" if _small_rows(parameters) else ""
    unrounded, problem = errors + rows + secret, rounding + rows + secret

    # from lattices in the worst case to errors, if they are Gaussian
    if q > 2 and isinstance(parameters.Xe, DiscreteGaussian):
        dim = max(n // (q.bit_length() - 1), 1) if _small_rows(parameters) else n
        width, least = math.sqrt(2 * math.pi) * parameters.Xe.sigma, 2 * math.sqrt(dim)
        condition = (
            f"The width of errors, sqrt(2 pi) sigma = {width:.3g}, has to be above 2 sqrt n = {least:.3g}."
        )
        lattices, short = "lattices in the worst case, by quantum algorithms", math.log2(least / width)
        yield Reduction(lattices, errors, "Regev 2005", "abstract read", condition, short)

    # from uniform secrets to secrets from the distribution of the errors
    if secret:
        condition = (
            f"About n = {n} samples become the secret, which then has the distribution of the errors; the secret here "
            "has to have it, too."
        )
        source = "Applebaum, Cash, Peikert and Sahai 2009"
        short = -math.inf if parameters.Xs == parameters.Xe else math.inf
        yield Reduction(errors, errors + secret, source, "unchecked", condition, short)

    # from uniform rows mod q to rows of bits or trits
    if rows:
        yield _to_small_rows(parameters, errors + secret, unrounded)

    # from errors to rounding: errors before it, or such errors as hardly change a label
    run = "lwe.rounded_samples"
    if p < q and parameters.noisy:
        condition = "Labels of learning with errors, rounded, are exactly these labels."
        yield Reduction(unrounded, problem, "derived here", "derived", condition, -math.inf, executable=run)
    elif p < q:
        wrong = 2 * p / q  # the chance that an error of size 1 changes a label, at most
        condition = (
            f"An error of size 1 changes a label with probability at most 2p/q = {wrong:.3g}; over {needed} samples "
            "the sum has to be at most 1/2."
        )
        source, short = "Banerjee, Peikert and Rosen 2012", math.log2(2 * needed * wrong)
        yield Reduction(
            unrounded, problem, source, "derived", condition, short, 1 / (2 * wrong), executable=run
        )
        if not rows:
            power = needed * math.log2(1 + wrong)
            condition = (
                "Finding the secret loses a constant factor up to q/(2p) samples, at any q: a chance e of finding it "
                f"from m samples gives e^2 / (1 + 2p/q)^m. The power is 2^{power:.3g} for m = {needed}."
            )
            source, short = "Bogdanov, Guo, Masny, Richelson and Rosen 2016", math.log2(needed * wrong)
            yield Reduction(unrounded, problem, source, "abstract read", condition, short, 1 / wrong)

    # from errors that are uniform on q/p residues to rounding, for any number of samples
    if p < q and q % p == 0 and not parameters.noisy:
        uniform = f"{secret} with errors uniform on {q // p} residues"
        if rows:
            yield _to_small_rows(parameters, f"LWE{uniform}", f"LWE{rows}{uniform}")
        condition = (
            f"p divides q. Samples whose label is a multiple of q/p = {q // p} are kept: it takes {q // p} times as "
            "many, and nothing else is lost. Such errors may be easy: the fewer residues, the lower the degree of "
            "Arora and Ge's equations."
        )
        source, run = "derived here; Bogdanov, Guo, Masny, Richelson and Rosen 2016", "lwe.rejected_samples"
        start = f"LWE{rows}{uniform}"
        yield Reduction(start, problem, source, "derived", condition, -math.inf, executable=run)

    yield _to_layers(parameters, problem)


def _to_small_rows(parameters: LWEParameters, start: str, to: str) -> Reduction:
    q, n, digits = parameters.q, parameters.n, parameters.q.bit_length() - 1
    covers = q & (q - 1) == 0 and n >= digits and parameters.Xs.is_uniform(q)
    condition = f"q a power of two, n >= log2 q and a uniform secret are needed; the dimension falls to {n // digits}."
    source, run = "derived here, after Boneh and others 2013", "lwe.small_row_samples" if covers else ""
    short = -math.inf if covers else math.inf
    return Reduction(start, to, source, "derived", condition, short, executable=run)


def _to_layers(parameters: LWEParameters, start: str) -> Reduction:
    """From samples to examples of the layer."""
    q, here, layer = parameters.q, "derived here", parameters
    if parameters.matrix == "uniform":
        if q & (q - 1):
            condition = "No heads realise uniform rows mod q, unless q is a power of two."
            return Reduction(start, "layer", here, "derived", condition, math.inf)
        layer = parameters.updated(matrix="gadget")
    condition = "A sample is an example on the gate with the same label, and none is lost."
    if layer.gadget:
        condition = f"Rows mod 2^k are written in bits a, and <v, a> = <s, row> exactly. {condition}"
    heads, run = _mean_heads(layer), "lwe.LearnerAttack"
    return Reduction(start, "layer", here, "derived", condition, -math.inf, None, heads, run)


def _mean_heads(parameters: LWEParameters) -> float:
    """About p E|v|_1 / q jumps, twice as many for ternary rows, and two pads."""
    q, n, distribution = parameters.q, parameters.n, parameters.Xs
    if distribution.is_uniform(q):  # multiples by powers of two of a uniform residue have the same mean size
        size = parameters.digits * (q * q - q % 2) / (4 * q)
    else:
        values, weights = distribution.entries(n, q)
        multiples = np.multiply.outer(values, 1 << np.arange(parameters.digits))
        residues = centred(multiples, q) if q <= LARGEST_MODULUS else multiples  # small ones are centred
        size = float(weights @ np.abs(residues).sum(axis=1))
    return (2 if parameters.matrix == "ternary" else 1) * (parameters.p / q) * n * size + 2
