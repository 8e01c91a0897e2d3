"""What examples determine about linear attention on a domain, for populations or files of tokens."""

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
    """A source of tokens: a population whose exact moment is known, or a file.

    Attributes
    ----------
    name : str
        The population, or the file.
    dim : int
        Dimension of the tokens, including the constant coordinate.
    tokens : int
        Tokens per sequence.
    examples : array (N, n, d) or None
        The content of the file; None for a population.
    """

    name: Any
    dim: int
    tokens: int
    examples: Float[np.ndarray, "N n d"] | None = None

    def moment(self, *, average: bool) -> Float[np.ndarray, "D D"]:
        """The mean of phi phi^T, exact for a population; with `average`, G is the mean over the tokens."""
        require_feature_memory(feature_count(self.dim))
        if self.examples is not None:
            return feature_moment(self.examples, average=average)
        moment = population_moment(self.name, self._own_dim, self.tokens)
        return moment / self.tokens**2 if average else moment

    @property
    def known_rank(self) -> int | None:
        """The proved rank of the population; None for a file."""
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
    """A certificate with its two sources of tokens and the spectra that support it.

    Attributes
    ----------
    data, domain : TokenSource
        The source of the training data, and the domain on which errors count.
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
        """Caveats on the verdict, as sentences."""
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
        """The figures by file name: the two spectra; none if all tokens are zero."""
        curves = {}
        for label, spectrum in self.spectra.items():
            there = np.flatnonzero(spectrum > max(self.certificate.tolerance * spectrum[0], 0.0))
            if len(there):
                curves[label] = ((there + 1).tolist(), spectrum[there].tolist())
        border = (self.certificate.rank + 0.5,)
        panel = Panel("place", "eigenvalue", curves, marks_only=True, verticals=border)
        return {"spectrum": panel} if curves else {}

    def to_json(self) -> dict[str, Any]:
        """As JSON values; values that are not finite are None."""
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
    """A source of tokens from a string: the name of a population, or the path of a file.

    Parameters
    ----------
    name : str
        One of `POPULATIONS`, or an .npy or safetensors file with an array (N, n, d). If the file holds several arrays,
        the array x is used.
    dim : int, optional
        Dimension of a population's tokens, including the constant coordinate.
    tokens : int, optional
        Tokens per sequence of a population; by default 5. A file determines this itself.

    Raises
    ------
    ValueError
        If the name is neither a population nor a file, or the dimension is not given.
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
    """Certify what learning from one source of tokens determines on another.

    It costs O((N + D) D^2), with D = d^2 (d + 1)/2. `tolerance` and errors are those of
    `upper.linear_attention.certify`; a ValueError is also raised if the dimensions differ. With `average`, G is the
    mean over the tokens.
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
