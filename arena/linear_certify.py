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
from upper.linear_attention import certify, exact_rank, feature_count, feature_moment, population_moment
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
    """

    name: Any
    dim: int
    tokens: int
    examples: Float[np.ndarray, "N n d"] | None = None

    def moment(self, *, average: bool) -> Float[np.ndarray, "D D"]:
        """The mean of phi phi^T, exact for a population; with `average` G is the mean over the tokens."""
        require_feature_memory(feature_count(self.dim))
        if self.examples is not None:
            return feature_moment(self.examples, average=average)
        moment = population_moment(self.name, self._own_dim, self.tokens)
        return moment / self.tokens**2 if average else moment

    @property
    def known_rank(self) -> int | None:
        """The rank that is proved for the population; None for a file."""
        return None if self.examples is not None else exact_rank(self.name, self._own_dim, self.tokens)

    def __str__(self) -> str:
        if self.examples is not None:
            return f"the {len(self.examples)} sequences of {self.tokens} tokens in {self.name}"
        return f"{self.name} tokens, {self.tokens} a sequence, by the exact moment"

    @property
    def _own_dim(self) -> int:
        return self.dim - token_dimension(self.name, 0)  # without the constant


@dataclass(frozen=True, eq=False)
class LinearCertified:
    """A certificate with what it is of, and the spectra it rests on.

    Attributes
    ----------
    data, domain : TokenSource
        What is learned from, and what one cares about.
    certificate : Certificate
        The verdict.
    spectra : dict of str to array
        The eigenvalues of both moments, "data" and "domain", largest first.
    average : bool
        Whether G is the mean over the tokens.
    """

    data: TokenSource
    domain: TokenSource
    certificate: Certificate
    spectra: dict[str, np.ndarray]
    average: bool

    def __str__(self) -> str:
        sources = f"Learned from: {self.data}\nCared about:  {self.domain}"
        return "\n".join([sources, str(self.certificate), *self.warnings()])

    def warnings(self) -> list[str]:
        """What is to be known before the verdict is believed, in sentences."""
        found, examples = self.certificate, self.domain.examples
        warned = []
        if examples is not None and found.domain_rank >= len(examples):
            warned.append(
                f"The domain is these {len(examples)} sequences and nothing else: they are independent, so that more "
                "of them may show more directions."
            )
        for source, rank in ((self.data, found.rank), (self.domain, found.domain_rank)):
            if source.known_rank not in (None, rank):
                warned.append(
                    f"The rank of {source.name} tokens is {source.known_rank}, and {rank} of it was found at this "
                    "tolerance: the eigenvalues are too far apart for the verdict to be believed."
                )
        return warned

    def panels(self) -> dict[str, Panel]:
        """What is drawn, by name of the file: the two spectra, nothing where all tokens are zero."""
        curves = {}
        for label, spectrum in self.spectra.items():
            there = np.flatnonzero(spectrum > max(self.certificate.tolerance * spectrum[0], 0.0))
            if len(there):
                curves[label] = ((there + 1).tolist(), spectrum[there].tolist())
        border = (self.certificate.rank + 0.5,)
        panel = Panel("place", "eigenvalue", curves, marks_only=True, verticals=border)
        return {"spectrum": panel} if curves else {}

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is not finite is None."""
        names = (
            *(
                "features",
                "rank",
                "domain_rank",
                "joint_rank",
                "deficit",
                "identified",
                "identified_everywhere",
            ),
            *("factor", "smallest_eigenvalue", "tolerance", "gap", "margin", "borderline"),
        )
        told = {
            "data": self.data.name,
            "domain": self.domain.name,
            "data_tokens": self.data.tokens,
            "domain_tokens": self.domain.tokens,
            "average": self.average,
            "dim": self.data.dim,
            "data_rank_proved": self.data.known_rank,
            "warnings": self.warnings(),
            "verdict": str(self.certificate),
        }
        return as_plain(told | {name: getattr(self.certificate, name) for name in names})


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
        dim = count("--dim", dim, least=token_dimension(name, 1))
        return TokenSource(name, dim, _USUAL_TOKENS if tokens is None else tokens)
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
    x: Any = arrays.get("x", next(iter(arrays.values()))) if arrays else np.zeros(0)
    try:
        require_array("The array", x, ("N", "n", "d"))
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return TokenSource(str(path), x.shape[2], x.shape[1], np.asarray(x, dtype=float))


def certify_linear(
    data: TokenSource, domain: TokenSource, *, tolerance: float, average: bool
) -> LinearCertified:
    """What learning from one source of tokens determines on another; O((N + D) D^2), D = d^2 (d + 1)/2.

    `tolerance` and errors are those of `upper.linear_attention.certify`, beside a ValueError if the dimensions differ;
    with `average` G is the mean over the tokens.
    """
    if data.dim != domain.dim:
        raise ValueError(
            f"The tokens of {data.name} have {data.dim} dimensions and those of {domain.name} {domain.dim}: the same "
            "number is needed."
        )
    moments = {"data": data.moment(average=average), "domain": domain.moment(average=average)}
    certificate = certify(**moments, tolerance=tolerance)
    spectra = {name: np.linalg.eigvalsh(moment)[::-1] for name, moment in moments.items()}
    return LinearCertified(data, domain, certificate, spectra, average)
