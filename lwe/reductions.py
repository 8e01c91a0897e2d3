"""Cards: the assumption a problem rests on, and what each known reduction to it loses at its parameters."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int

from attention.inputs import Rng
from attention.validation import checked, random_generator
from lwe.costs.deviations import deviations
from lwe.costs.primal import fewest_samples
from lwe.parameters import LWRParameters, centred, rounded
from lwe.residues import inner_products
from lwe.samples import LWRSamples

__all__ = ["Card", "Reduction", "card_of", "rounded_samples", "small_row_samples"]

Evidence = Literal["derived", "abstract read", "unchecked"]


@dataclass(frozen=True)
class Reduction:
    """A known reduction at the parameters of one problem: a solver of `to` solves `start`, at this loss."""

    start: str  #: the problem that it starts from
    to: str  #: the problem that it leads to
    source: str  #: who found it
    #: How its condition is known. Derived: here, and tested by enumeration. Abstract read: the abstract or a survey
    #: agrees, constants are from memory. Unchecked: all from memory.
    evidence: Evidence
    covers: bool  #: whether its condition holds at these parameters
    condition: str  #: what it needs, with numbers
    #: bits that the modulus would have to grow by for the condition to hold; at most 0 if it holds, infinite if no
    #: modulus is enough
    modulus: float
    samples: float  #: the most samples that a solver of `to` may use; infinite without a limit
    heads: float | None = None  #: the mean number of heads of the layer, if `to` is the layer
    executable: str = ""  #: the function here that carries it out on samples, if there is one

    def __str__(self) -> str:
        run = f", run by {self.executable}" if self.executable else ""
        loss = "covers" if self.covers else "does not cover"
        if 0 < self.modulus < math.inf:
            loss += f", modulus {self.modulus:.3g} bits short"
        if 0 < self.samples < math.inf:
            loss += f", up to {math.floor(self.samples)} samples"
        if self.heads is not None:
            loss += f", about {self.heads:.4g} heads"
        return f"{self.start} -> {self.to}: {loss}. {self.condition} [{self.source}; {self.evidence}{run}]"


@dataclass(frozen=True)
class Card:
    """The assumption of a problem, and the known reductions that lead to it; none if nothing is assumed."""

    parameters: LWRParameters
    samples: int  #: so many samples determine the secret, by their bits; 0 if there is nothing to find
    reductions: tuple[Reduction, ...]

    @property
    def assumption(self) -> str:
        """The problem that is assumed to be hard, or why it is easy."""
        return self.parameters.assumption

    @property
    def rests_on(self) -> str:
        """The problem from which covering reductions lead here, as far back as they go."""
        if not self.reductions:
            return "nothing"
        ways, found = (
            {one.to: one.start for one in reversed(self.reductions) if one.covers},
            self.reductions[-1].start,
        )
        while found in ways:
            found = ways[found]
        return found

    def __str__(self) -> str:
        lines = [f"Card of {self.parameters}", f"  assumption: {self.assumption}"]
        if self.reductions:
            lines.append(f"  samples that determine the secret: {self.samples}")
            lines += [f"  {one}" for one in self.reductions]
            lines.append(f"  rests on: {self.rests_on}. A reduction is no claim of security at this size.")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {
            "parameters": self.parameters.to_json(),
            "assumption": self.assumption,
            "samples": self.samples,
            "reductions": [asdict(one) for one in self.reductions],
            "rests_on": self.rests_on,
        }


@checked
def card_of(parameters: LWRParameters) -> Card:
    """The card of a problem, computed from its parameters.

    Notes
    -----
    Rounding by p of q residues with errors of size B before it: among q residues at most 2 B p change their label by
    some error of that size, two runs of B at each of the p ends. So a learning-with-errors sample, rounded, is wrong as
    a sample of rounding with probability at most 2 B p / q, and m samples with at most 2 B p m / q (Banerjee, Peikert
    and Rosen 2012, derived here). B is 1 on cards, the smallest. "Covers" means at most 1/2 for the m samples that
    determine the secret.

    Rows of bits for q = 2^k: take bits of uniform rows a' = G a. Then <a', s> = <a, G^T s>, and with a uniform r that
    one adds to labels as <a, r>, the secret G^T s + r is uniform. So plain learning with errors in n covariates is as
    hard as the standard problem in floor(n / k) entries (derived here; the idea is Boneh, Lewi, Montgomery and
    Raghunathan 2013). Ternary rows are differences of two such rows. Rounded labels cannot be shifted: so for plain
    learning with rounding nothing is known to us but the way by errors.

    Examples
    --------
    >>> card = card_of(LWRParameters(16, 256, 2, "gadget"))
    >>> card.samples, card.rests_on, card.reductions[-1].heads
    (128, 'LWR', 66.0)
    """
    sizes = deviations(parameters)
    easy = parameters.levels == parameters.modulus and not parameters.noisy
    if easy or sizes.secret_bits == 0 or sizes.told == 0:
        return Card(parameters, 0, ())
    needed = fewest_samples(parameters)
    found = (
        *_from_lattices(parameters),
        *_to_small_secrets(parameters),
        *_to_small_rows(parameters),
        *_to_rounding(parameters, needed),
        _to_layers(parameters),
    )
    return Card(parameters, needed, found)


@checked
def rounded_samples(samples: LWRSamples, modulus: int, levels: int) -> LWRSamples:
    """Samples of learning with errors, rounded to that many levels: the reduction to learning with rounding.

    A label differs from that without the error in at most 2 B p of q residues, for errors of size B.

    Examples
    --------
    >>> rounded_samples(LWRSamples([[1], [2]], [3, 12]), 16, 4).labels.tolist()
    [0, 3]
    """
    return LWRSamples(samples.public, rounded(samples.labels, modulus, levels))


@checked
def small_row_samples(
    samples: LWRSamples, parameters: LWRParameters, *, rng: Rng = None
) -> tuple[LWRSamples, Int[np.ndarray, " n"]]:
    """Standard samples of learning with errors as samples with rows of bits or trits, and what the secret gains.

    ValueError unless q is a power of two, labels are not rounded, the rows have floor(n / log2 q) residues, and
    `parameters` have a binary or ternary matrix.

    Parameters
    ----------
    samples : LWRSamples
        Uniform rows mod q, and labels <a', s> + e mod q.
    parameters : LWRParameters
        The problem to make, with n covariates.
    rng : optional
        Anything `numpy.random.default_rng` accepts (SPEC 7).

    Returns
    -------
    samples : LWRSamples
        Rows a of bits (or trits) with G a = a', and labels <a, v> + e mod q with the same errors.
    shift : array of int (n,)
        v = (s_1, 2 s_1, ..., q/2 s_1, s_2, ..., 0, ..., 0) + shift mod q, with zeros for covariates beyond.

    Examples
    --------
    >>> from lwe import make_samples
    >>> standard, s = make_samples(LWRParameters(2, 8, 8, "uniform"), 50, rng=0)
    >>> found, shift = small_row_samples(standard, LWRParameters(6, 8, 8), rng=1)
    >>> v = np.multiply.outer(s, [1, 2, 4]).ravel() + shift
    >>> bool(np.all(found.public @ v % 8 == found.labels)), np.unique(found.public).tolist()
    (True, [0, 1])
    """
    q, n, digits = parameters.modulus, parameters.secret_dim, parameters.modulus.bit_length() - 1
    if q & (q - 1) or parameters.levels != q or parameters.matrix not in ("binary", "ternary"):
        raise ValueError(
            f"parameters is {parameters}: q a power of two, p = q and a binary or ternary matrix is needed."
        )
    if samples.secret_dim != n // digits:
        raise ValueError(
            f"samples have rows of {samples.secret_dim} residues: {n // digits} are needed for {parameters}."
        )
    generator, number, used = random_generator(rng), len(samples), samples.secret_dim * digits
    residues, rows = np.mod(samples.public, q), np.zeros((number, n), dtype=np.int64)
    if parameters.matrix == "ternary":  # a bit minus a bit, and both rows of bits uniform
        rows -= generator.integers(2, size=(number, n))
        powers = 1 << np.arange(digits, dtype=np.int64)
        residues = np.mod(residues - rows[:, :used].reshape(number, -1, digits) @ powers, q)
    rows[:, :used] += (residues[:, :, None] >> np.arange(digits) & 1).reshape(number, used)
    rows[:, used:] += generator.integers(2, size=(number, n - used))
    shift = generator.integers(q, size=n)
    return LWRSamples(rows, np.mod(samples.labels + inner_products(rows, shift, q), q)), shift


def _called(parameters: LWRParameters, *, rounded: bool, small_rows: bool = True, law: bool = True) -> str:
    """The name of the problem, or of the one without its rounding, small rows or law of the secret."""
    name = (
        "LPN"
        if parameters.modulus == 2
        else "LWR"
        if rounded and parameters.levels < parameters.modulus
        else "LWE"
    )
    if small_rows and _small_rows(parameters):
        name += f", {parameters.matrix} rows"
    if law and not parameters.secret.is_uniform(parameters.modulus):
        name += f", {parameters.secret} secret"
    return name


def _small_rows(parameters: LWRParameters) -> bool:
    # rows of bits are the uniform rows mod 2
    return parameters.matrix == "ternary" or (parameters.matrix == "binary" and parameters.modulus > 2)


def _from_lattices(parameters: LWRParameters) -> list[Reduction]:
    """From problems of lattices in the worst case to learning with errors, of Gaussian errors."""
    q, n, sigma = parameters.modulus, parameters.secret_dim, parameters.noise.number
    if q == 2 or parameters.noise.kind != "gaussian":
        return []
    name = _called(parameters, rounded=False, small_rows=False, law=False)
    width, least = math.sqrt(2 * math.pi) * sigma, 2 * math.sqrt(n)
    short, classical = math.log2(least / width), n / 2 - math.log2(q)
    told = f"The width of errors, sqrt(2 pi) sigma = {width:.3g}, has to be above 2 sqrt n = {least:.3g}"

    def reduction(start: str, source: str, evidence: Evidence, condition: str, bits: float) -> Reduction:
        return Reduction(
            start, name, source, evidence, bits < 0, condition, bits, math.inf if bits < 0 else 0
        )

    return [
        reduction(
            "lattices in the worst case, by quantum algorithms",
            "Regev 2005",
            "abstract read",
            f"{told}.",
            short,
        ),
        reduction(
            "lattices in the worst case",
            "Peikert 2009",
            "unchecked",
            f"{told}; q has to be at least 2^(n/2) = 2^{n / 2:g}.",
            max(short, classical),
        ),
        reduction(
            "lattices in the worst case, of dimension about sqrt n",
            "Brakerski, Langlois, Peikert, Regev and Stehle 2013",
            "abstract read",
            "For q polynomial in n, with losses polynomial in n: they are not computed, and nothing is claimed.",
            math.inf,
        ),
    ]


def _to_small_secrets(parameters: LWRParameters) -> list[Reduction]:
    """From learning with errors with uniform secrets to that with secrets from the law of the errors."""
    secret = parameters.secret
    if secret.is_uniform(parameters.modulus):
        return []
    normal = secret == parameters.noise
    return [
        Reduction(
            _called(parameters, rounded=False, small_rows=False, law=False),
            _called(parameters, rounded=False, small_rows=False),
            "Applebaum, Cash, Peikert and Sahai 2009",
            "unchecked",
            normal,
            f"About n = {parameters.secret_dim} samples become the secret, which then has the law of the errors; the "
            "secret here has to have it, too.",
            0.0 if normal else math.inf,
            math.inf if normal else 0,
        )
    ]


def _to_small_rows(parameters: LWRParameters) -> list[Reduction]:
    """From learning with errors with uniform rows mod q to that with rows of bits or trits."""
    if not _small_rows(parameters):
        return []
    q, n, digits = parameters.modulus, parameters.secret_dim, parameters.modulus.bit_length() - 1
    covers = q & (q - 1) == 0 and n >= digits and parameters.secret.is_uniform(q)
    told = f"q a power of two, n >= log2 q and a uniform secret are needed; the dimension falls from {n} to "
    return [
        Reduction(
            _called(parameters, rounded=False, small_rows=False),
            _called(parameters, rounded=False),
            "derived here, after Boneh, Lewi, Montgomery and Raghunathan 2013",
            "derived",
            covers,
            f"{told}{n // digits}.",
            0.0 if covers else math.inf,
            math.inf if covers else 0,
            executable="lwe.small_row_samples" if covers else "",
        )
    ]


def _to_rounding(parameters: LWRParameters, needed: int) -> list[Reduction]:
    """From learning with errors to learning with rounding."""
    q, p, n = parameters.modulus, parameters.levels, parameters.secret_dim
    if p == q:
        return []
    start, to = _called(parameters, rounded=False), _called(parameters, rounded=True)
    if parameters.noisy:
        told = "Labels of learning with errors, rounded, are exactly these labels."
        run = "lwe.rounded_samples"
        return [Reduction(start, to, "derived here", "derived", True, told, 0, math.inf, executable=run)]
    wrong = 2 * p / q  # the chance that an error of size 1 changes a label, at most
    found = [
        Reduction(
            start,
            to,
            "Banerjee, Peikert and Rosen 2012",
            "derived",
            2 * needed * wrong <= 1,
            f"An error of size 1 changes a label with probability at most 2p/q = {wrong:.3g}; over {needed} samples the "
            "sum has to be at most 1/2.",
            math.log2(2 * needed * wrong),
            1 / (2 * wrong),
            executable="lwe.rounded_samples",
        )
    ]
    if _small_rows(parameters):
        return found
    prime = _largest_prime(q)
    return [
        *found,
        Reduction(
            start,
            to,
            "Alwen, Krenn, Pietrzak and Wichs 2013",
            "unchecked",
            prime >= 2 * n * needed * p,
            f"The largest prime factor of q, {prime}, has to be at least 2 n m p = {2 * n * needed * p} for m = {needed} "
            "samples; and the dimension falls by a factor of about log2 q.",
            math.log2(2 * n * needed * p / prime),
            prime / (2 * n * p),
        ),
        Reduction(
            start,
            to,
            "Bogdanov, Guo, Masny, Richelson and Rosen 2016",
            "abstract read",
            needed * wrong <= 1,
            "Finding the secret loses a constant factor up to q/(2p) samples, at any q: a chance e of finding it from m "
            f"samples gives e^2 / (1 + 2p/q)^m, and the power is 2^{needed * math.log2(1 + wrong):.3g} for m = {needed}.",
            math.log2(needed * wrong),
            1 / wrong,
        ),
    ]


def _to_layers(parameters: LWRParameters) -> Reduction:
    """From samples to examples of the layer."""
    start, q, heads = _called(parameters, rounded=True), parameters.modulus, parameters
    source: tuple[str, Evidence] = ("derived here", "derived")
    if parameters.matrix == "uniform":
        if q & (q - 1):
            told = "No heads realise uniform rows mod q, unless q is a power of two."
            return Reduction(start, "layer", *source, False, told, math.inf, 0)
        heads = parameters.updated(matrix="gadget")
    told = "A sample is an example on the gate with the same label, and none is lost."
    if heads.gadget:
        told = f"Rows mod 2^k are written in bits a, and <v, a> = <s, row> exactly. {told}"
    run = "lwe.LearnerAttack"
    return Reduction(start, "layer", *source, True, told, 0, math.inf, _mean_heads(heads), run)


def _mean_heads(parameters: LWRParameters) -> float:
    """P E|v|_1 / q jumps, twice as many for ternary rows, and two pads."""
    q, n, law = parameters.modulus, parameters.secret_dim, parameters.secret
    if law.is_uniform(q):  # multiples by powers of two of a uniform residue have the same mean size
        size = parameters.digits * (q * q - q % 2) / (4 * q)
    else:
        sparse = np.array([0, 1]), np.array([1 - (law.number or 0) / n, (law.number or 0) / n])
        values, weights = sparse if law.kind == "sparse" else law.support(q)
        multiples = np.multiply.outer(values, 1 << np.arange(parameters.digits))
        size = float(weights @ np.abs(centred(multiples, q)).sum(axis=1))
    return (2 if parameters.matrix == "ternary" else 1) * parameters.levels * n * size / q + 2


def _largest_prime(number: int) -> int:
    from sympy import primefactors

    return int(max(primefactors(number)))
