"""What examples determine of linear attention on the inputs one cares about, from populations or files of tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import as_plain
from attention import FileFormatError
from attention.files import read_arrays
from attention.validation import count, require_array
from studies.line_figure import Panel
from upper.linear_attention import (
    certify,
    exact_rank,
    feature_count,
    feature_moment,
    population_moment,
)
from upper.linear_attention.certificate import Certificate
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.populations import POPULATIONS, token_dimension

__all__ = ["LinearCertified", "TokenSource", "certify_linear", "token_source"]


_USUAL_TOKENS = 5


@dataclass(frozen=True, eq=False)
class TokenSource:
    """Where tokens are from: a population of which the exact moment is known, or a file.

    Attributes
    ----------
    name : str
        The population, or the file.
    dim : int
        Dimension of the tokens, the constant coordinate counted.
    tokens : int
        Tokens a sequence.
    examples : array (N, n, d) or None
        What the file holds; None for a population.
    population_dim : int
        Dimension without the constant; that of the tokens for a file.
    """

    name: str
    dim: int
    tokens: int
    examples: Float[np.ndarray, "N n d"] | None
    population_dim: int

    def moment(self, *, average: bool = False) -> Float[np.ndarray, "D D"]:
        """The mean of phi phi^T, exact for a population; with `average` G is the mean over the tokens."""
        require_feature_memory(feature_count(self.dim))
        if self.examples is not None:
            return feature_moment(self.examples, average=average)
        moment = population_moment(self.name, self.population_dim, self.tokens)  # type: ignore[arg-type]
        return moment / self.tokens**2 if average else moment

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.examples is not None:
            return f"the {len(self.examples)} sequences of {self.tokens} tokens in {self.name}"
        return f"{self.name} tokens, {self.tokens} a sequence, by the exact moment"

    @property
    def known_rank(self) -> int | None:
        """The rank that is proved for the population; None for a file."""
        if self.examples is not None:
            return None
        return exact_rank(self.name, self.population_dim, self.tokens)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class LinearCertified:
    """A certificate with what it is of, and the spectra it rests on.

    Attributes
    ----------
    data, domain : TokenSource
        What is learned from, and what one cares about.
    certificate : Certificate
        The verdict.
    spectra : tuple of arrays
        The eigenvalues of both moments, largest first.
    average : bool
        Whether G is the mean over the tokens.
    """

    data: TokenSource
    domain: TokenSource
    certificate: Certificate
    spectra: tuple[np.ndarray, np.ndarray]
    average: bool = False

    def __str__(self) -> str:
        sources = f"Learned from: {self.data.words}\nCared about:  {self.domain.words}"
        return "\n".join([sources, str(self.certificate), *self.warnings()])

    def warnings(self) -> list[str]:
        """What is to be known before the verdict is believed, in sentences."""
        said = []
        held = 0 if self.domain.examples is None else len(self.domain.examples)
        if held and self.certificate.domain_rank >= held:
            said.append(
                f"The domain is these {held} sequences and nothing else: they are independent, so that more of them "
                f"may show more directions."
            )
        for source, found in (
            (self.data, self.certificate.rank),
            (self.domain, self.certificate.domain_rank),
        ):
            if source.known_rank is not None and source.known_rank != found:
                said.append(
                    f"The rank of {source.name} tokens is {source.known_rank}, and {found} of it was found at this "
                    "tolerance: the eigenvalues are too far apart for the verdict to be believed."
                )
        return said

    def panels(self) -> dict[str, Panel]:
        """What is drawn, by name of the file: the two spectra, nothing where all tokens are zero."""
        curves = {}
        for label, spectrum in zip(("data", "domain"), self.spectra, strict=True):
            there = spectrum > max(self.certificate.tolerance * spectrum[0], 0.0)
            if there.any():
                curves[label] = (np.arange(1, len(spectrum) + 1)[there].tolist(), spectrum[there].tolist())
        if not curves:
            return {}
        border = self.certificate.rank + 0.5
        return {"spectrum": Panel("place", "eigenvalue", curves, marks_only=True, verticals=(border,))}

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is not finite is None."""
        found = self.certificate
        return as_plain(
            {
                "data": self.data.name,
                "domain": self.domain.name,
                "data_tokens": self.data.tokens,
                "domain_tokens": self.domain.tokens,
                "average": self.average,
                "dim": self.data.dim,
                "features": found.features,
                "rank": found.rank,
                "data_rank_proved": self.data.known_rank,
                "domain_rank": found.domain_rank,
                "joint_rank": found.joint_rank,
                "deficit": found.deficit,
                "identified": found.identified,
                "identified_everywhere": found.identified_everywhere,
                "factor": found.factor,
                "smallest_eigenvalue": found.smallest_eigenvalue,
                "tolerance": found.tolerance,
                "gap": found.gap,
                "margin": found.margin,
                "warnings": self.warnings(),
                "borderline": found.borderline,
                "verdict": str(found),
            }
        )


def token_source(name: str, *, dim: int | None, tokens: int | None) -> TokenSource:
    """Tokens by a word: the name of a population, or the path of a file.

    Parameters
    ----------
    name : str
        One of `POPULATIONS`, or an .npy or safetensors file with an array (N, n, d), x where it holds several.
    dim : int, optional
        Dimension of a population's tokens, the constant coordinate counted.
    tokens : int, optional
        Tokens a sequence, of a population; by default 5. A file says so itself.

    Raises
    ------
    ValueError
        If the word is neither, or the dimension is not given.
    FileFormatError
        If the file holds something else.
    """
    if name in POPULATIONS:
        if dim is None:
            raise ValueError(f"{name} tokens have no dimension of their own: give --dim a number.")
        extra = token_dimension(name, 1) - 1
        dim = count("--dim", dim, least=1 + extra)
        tokens = _USUAL_TOKENS if tokens is None else count("--tokens", tokens)
        return TokenSource(name, dim, tokens, None, dim - extra)
    path = Path(name)
    if path.suffix not in (".npy", ".safetensors"):
        raise ValueError(
            f"{name!r} is no population and no file of tokens: one of {', '.join(POPULATIONS)}, or an .npy or "
            "safetensors file is needed."
        )
    if tokens is not None:
        raise ValueError(
            f"A number of tokens is for populations: {path} says itself how many a sequence has."
        )
    arrays = read_arrays(path)
    x = arrays.get("x", next(iter(arrays.values()))) if arrays else np.zeros(0)
    try:
        require_array("The array", x, ("N", "n", "d"))
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    x = np.asarray(x, dtype=float)
    return TokenSource(str(path), x.shape[2], x.shape[1], x, x.shape[2])


def certify_linear(
    data: TokenSource, domain: TokenSource, *, tolerance: float = 1e-10, average: bool = False
) -> LinearCertified:
    """What learning from one source of tokens determines on another.

    Parameters
    ----------
    data, domain : TokenSource
        What is learned from, and what one cares about.
    tolerance : float
        Eigenvalues of at most that share of the largest are taken for zero.
    average : bool
        Whether G is the mean over the tokens.

    Raises
    ------
    ValueError
        If the dimensions differ, or as `upper.linear_attention.certify`.

    Notes
    -----
    O((N + D) D^2), D = d^2 (d + 1)/2.
    """
    if data.dim != domain.dim:
        raise ValueError(
            f"The tokens of {data.name} have {data.dim} dimensions and those of {domain.name} {domain.dim}: the same "
            "number is needed."
        )
    moments = data.moment(average=average), domain.moment(average=average)
    certificate = certify(*moments, tolerance=tolerance)
    first, second = (np.linalg.eigvalsh(moment)[::-1] for moment in moments)
    return LinearCertified(data, domain, certificate, (first, second), average)
