"""What examples determine about linear attention on a domain, for populations or files of tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from arena.formats import as_plain
from attention import FileFormatError
from attention.files import read_arrays
from attention.validation import PositiveInt, checked, count, require_array
from studies.line_figure import Panel
from upper.linear_attention import certify, exact_rank, feature_count, feature_moment, population_moment
from upper.linear_attention.certificate import Certificate
from upper.linear_attention.least_squares import require_feature_memory
from upper.linear_attention.populations import POPULATIONS, token_dimension

_USUAL_TOKENS = 5
_CERTIFIED = (
    *("features", "rank", "domain_rank", "joint_rank", "deficit", "identified", "identified_everywhere"),
    *("factor", "smallest_eigenvalue", "tolerance", "gap", "margin", "borderline"),
)


@dataclass(frozen=True, eq=False)
class TokenSource:
    """A source of tokens: a population whose exact moment is known, or a file."""

    name: Any  #: the population, or the file
    dim: int  #: of the tokens, including the constant coordinate
    tokens: int  #: per sequence
    examples: Float[np.ndarray, "N n d"] | None = None  #: the content of the file; None for a population

    def moment(self) -> Float[np.ndarray, "D D"]:
        """The mean of phi phi^T, exact for a population."""
        require_feature_memory(feature_count(self.dim))
        if self.examples is not None:
            return feature_moment(self.examples)
        return population_moment(self.name, self.dim - token_dimension(self.name, 0), self.tokens)

    @property
    def known_rank(self) -> int | None:
        """The proved rank of the population; None for a file."""
        if self.examples is not None:
            return None
        return exact_rank(self.name, self.dim - token_dimension(self.name, 0), self.tokens)

    def __str__(self) -> str:
        if self.examples is not None:
            return f"the {len(self.examples)} sequences of {self.tokens} tokens in {self.name}"
        return f"{self.name} tokens, {self.tokens} a sequence, by the exact moment"


@dataclass(frozen=True, eq=False)
class LinearCertified:
    """A certificate with its two sources of tokens and the spectra that support it."""

    data: TokenSource  #: the source of the training data
    domain: TokenSource  #: the inputs on which errors count
    certificate: Certificate  #: the verdict
    spectra: dict[str, np.ndarray]  #: the eigenvalues of both moments, "data" and "domain", largest first

    def __str__(self) -> str:
        sources = f"Learned from: {self.data}\nCared about:  {self.domain}"
        return "\n".join([sources, str(self.certificate), *self.warnings()])

    def warnings(self) -> list[str]:
        """Caveats on the verdict, as sentences."""
        certificate, examples = self.certificate, self.domain.examples
        warned = []
        if examples is not None and certificate.domain_rank >= len(examples):
            warned.append(
                f"The domain is these {len(examples)} sequences and nothing else: they are independent, so that more "
                "of them may show more directions."
            )
        for source, rank in ((self.data, certificate.rank), (self.domain, certificate.domain_rank)):
            if source.known_rank not in (None, rank):
                warned.append(
                    f"The rank of {source.name} tokens is {source.known_rank}, and {rank} of it was found: the "
                    "eigenvalues are too far apart for the verdict to be believed."
                )
        return warned

    def panels(self) -> dict[str, Panel]:
        """The figures by file name: the two spectra; none if all tokens are zero."""
        curves = {}
        for label, spectrum in self.spectra.items():
            places = np.flatnonzero(spectrum > max(self.certificate.tolerance * spectrum[0], 0.0))
            if len(places):
                curves[label] = list(zip((places + 1).tolist(), spectrum[places].tolist(), strict=True))
        border = (self.certificate.rank + 0.5,)
        panel = Panel("place", "eigenvalue", curves, marks_only=True, verticals=border)
        return {"spectrum": panel} if curves else {}

    def to_json(self) -> dict[str, Any]:
        """As JSON values; values that are not finite are None."""
        sources = {
            "data": self.data.name,
            "domain": self.domain.name,
            "data_tokens": self.data.tokens,
            "domain_tokens": self.domain.tokens,
            "dim": self.data.dim,
            "data_rank_proved": self.data.known_rank,
        }
        verdict = {"warnings": self.warnings(), "verdict": str(self.certificate)}
        return as_plain(sources | verdict | {name: getattr(self.certificate, name) for name in _CERTIFIED})


@checked
def certify_linear(
    *, data: str, domain: str, dim: PositiveInt | None = None, tokens: PositiveInt | None = None
) -> LinearCertified:
    """Certify what learning linear attention from one source of tokens determines on another.

    Parameters
    ----------
    data : str
        The training data: gaussian, sphere, boolean, boolean-constant or one-hot tokens, or a file (N, n, d), .npy or
        safetensors. If the file holds several arrays, the array x is used.
    domain : str
        The inputs on which errors count: the same choices.
    dim : int, optional
        Dimension of populations, including a constant coordinate; by default that of the file of the other.
    tokens : int, optional
        Tokens per sequence of populations; by default as in the file of the other, or 5.

    Raises
    ------
    ValueError
        If a name is neither a population nor a file, or dimensions are missing or differ.
    FileFormatError
        If a file holds something else.

    Notes
    -----
    O((N + D) D^2), with D = d^2 (d + 1)/2.
    """
    files = {name: _file_of_tokens(name) for name in (data, domain) if name not in POPULATIONS}
    if tokens is not None and len(files) == len({data, domain}):
        raise ValueError("tokens is for populations: files say themselves how many a sequence has.")
    shape = next(iter(files.values()), None)
    if shape is not None:
        dim, tokens = dim or shape.dim, tokens or shape.tokens
    learned, cared = (files.get(name) or _population(name, dim, tokens) for name in (data, domain))
    if learned.dim != cared.dim:
        raise ValueError(
            f"The tokens of {learned.name} have {learned.dim} dimensions and those of {cared.name} {cared.dim}: the "
            "same number is needed."
        )
    moments = {"data": learned.moment(), "domain": cared.moment()}
    spectra = {name: np.linalg.eigvalsh(moment)[::-1] for name, moment in moments.items()}
    certificate = certify(moments["data"], moments["domain"])
    return LinearCertified(learned, cared, certificate, spectra)


def _population(name: str, dim: int | None, tokens: int | None) -> TokenSource:
    if dim is None:
        raise ValueError(f"{name} tokens have no dimension of their own: give dim a number.")
    dim = count("dim", dim, least=token_dimension(name, 1))  # type: ignore[arg-type]
    return TokenSource(name, dim, tokens or _USUAL_TOKENS)


def _file_of_tokens(name: str) -> TokenSource:
    path = Path(name)
    if path.suffix not in (".npy", ".safetensors"):
        raise ValueError(
            f"{name!r} is no population and no file of tokens: one of {', '.join(POPULATIONS)}, or an .npy or "
            "safetensors file is needed."
        )
    arrays = read_arrays(path)
    x: Any = arrays.get("x", next(iter(arrays.values()))) if arrays else np.zeros(0)
    try:
        require_array("The array", x, ("N", "n", "d"))
    except ValueError as error:
        raise FileFormatError(f"{path}: {error}") from None
    return TokenSource(str(path), x.shape[2], x.shape[1], np.asarray(x, dtype=float))
