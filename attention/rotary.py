"""Attention whose queries and keys are rotated by position and shared by groups of heads, as in today's decoders."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Complex, Float, Int, Shaped

from attention._arrays import to_numpy
from attention.errors import pairwise_relative
from attention.inputs import Rng
from attention.layer import Layer
from attention.memory import require_memory
from attention.validation import PositiveFloat, PositiveInt, Whole, checked, random_generator


@dataclass(frozen=True, eq=False)
@checked
class RotaryLayer(Layer):
    """A multi-head attention layer with rotary positions: the logit of two tokens depends on their distance too.

    Parameters
    ----------
    queries : array (m, d, p)
        The query map Q_i of each head, with the factor 1 / sqrt(p) of the logits in it.
    keys : array (g, d, p)
        The key maps K; head i uses that of number i // (m / g).
    w : array (m, d, d)
        The projections W_i, products of value and output map.
    frequencies : array (p / 2,)
        Radians per position, from 0 (not rotated) to below pi. Coordinates f and f + p / 2 turn by `frequencies[f]`.
    query_bias : array (m, p), optional
        The biases q_i of the queries, with the factor 1 / sqrt(p).
    key_bias : array (g, p), optional
        The biases kappa of the keys.
    bias : array (d,), optional
        What is added to every output.
    causal : bool
        Whether row s attends to the tokens up to s only.

    Notes
    -----
    Row s of the output is b + sum_i sum_t softmax_t((x_s Q_i + q_i) R_s R_t^T (x_t K + kappa)^T) x_t W_i, where R_s
    turns the plane of coordinates f and f + p / 2 by s omega_f.

    With x~ = (x, 1) and j = s - t the logit is Re sum_f e^(i j omega_f) x~_s M_f x~_t^T, where M_f = alpha_f beta_f^*
    has rank one. The first d entries of alpha_f are Q_i[:, f] + i Q_i[:, f + p / 2], the last is the same of q_i;
    beta_f has those of K and kappa. The function is the same for c alpha_f, beta_f / conj(c) with any complex c that is
    not 0, for each frequency and key head. Maps of equal frequencies count by their sum. Where the frequency is 0, only
    the real part counts, and not its last column, which adds the same to all logits of a row.

    A ValueError if the entries are not real and finite, p is odd, the key heads do not divide the heads, or the arrays
    come from different libraries. One call costs O(n k d m (p + d) + n k^2 m (p + d)). NumPy parameters are copied and
    made read-only.

    References
    ----------
    Su et al., arXiv 2104.09864, Section 3.2; shared keys: Ainslie et al., arXiv 2305.13245. The form by M_f is derived
    here.

    Examples
    --------
    >>> layer = make_nice_rotary_layer(4, 16, 8, key_heads=2, rng=0)
    >>> layer
    RotaryLayer(heads=4, key_heads=2, dim=16, head_dim=8, dtype=float64, causal)
    >>> layer(np.ones((3, 5, 16))).shape
    (3, 5, 16)
    """

    queries: Shaped[Any, "m d p"]
    keys: Shaped[Any, "g d p"]
    w: Shaped[Any, "m d d"]
    frequencies: Shaped[Any, " f"]
    query_bias: Shaped[Any, "m p"] | None = None
    key_bias: Shaped[Any, "g p"] | None = None
    bias: Shaped[Any, " d"] | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        if self.head_dim != 2 * self.frequencies.shape[0]:
            raise ValueError(
                f"There are {self.frequencies.shape[0]} frequencies for heads of dimension {self.head_dim}: half as "
                "many are needed, one for two coordinates."
            )
        if self.heads % self.key_heads:
            raise ValueError(
                f"There are {self.key_heads} key heads for {self.heads} heads: a divisor is needed."
            )
        super().__post_init__()
        omega = to_numpy(self.frequencies)
        if not ((omega >= 0) & (omega < np.pi)).all():
            raise ValueError(
                f"The frequencies are from {omega.min():.4g} to {omega.max():.4g}: radians a position of at least 0 "
                "and below pi are needed."
            )

    @property
    def key_heads(self) -> int:
        """The number g of key maps."""
        return int(self.keys.shape[0])

    @property
    def head_dim(self) -> int:
        """The dimension p of queries and keys."""
        return int(self.queries.shape[2])

    @property
    def score_maps(self) -> Complex[np.ndarray, "m f e e"]:
        """The complex maps M_f of each head, of rank one and e = d + 1, of all frequencies in their order."""
        require_memory(
            f"The maps of {self.heads} heads of dimension {self.head_dim}",
            32 * self.heads * self.head_dim * (self.dim + 1) ** 2,
            advice="compare the functions instead",
        )
        alpha = _complex(self.queries, self.query_bias)
        beta = np.repeat(_complex(self.keys, self.key_bias), self.heads // self.key_heads, axis=0)
        return np.einsum("maf,mbf->mfab", alpha, beta.conj())

    def __repr__(self) -> str:
        more = (", biased" if self.biased else "") + (", causal" if self.causal else "")
        shape = f"heads={self.heads}, key_heads={self.key_heads}, dim={self.dim}, head_dim={self.head_dim}"
        return f"RotaryLayer({shape}, dtype={self.w.dtype}{more})"

    def _logits(self, x: Any, xp: Any) -> Any:
        *batch, k, _ = x.shape
        m, g, p = self.heads, self.key_heads, self.head_dim
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the checks
            cos, sin = self._turns(x, xp)
            queries = _turned(_projected(x, self.queries, self.query_bias, xp), cos, sin, xp)
            keys = _turned(_projected(x, self.keys, self.key_bias, xp), cos, sin, xp)
            rows = xp.moveaxis(xp.reshape(queries, (*batch, k, g, m // g, p)), -3, -4)
            rows = xp.reshape(rows, (*batch, g, k * (m // g), p))
            logits = xp.matmul(rows, xp.matrix_transpose(xp.moveaxis(keys, -2, -3)))
            logits = xp.moveaxis(xp.reshape(logits, (*batch, g, k, m // g, k)), -4, -3)
            return xp.reshape(logits, (*batch, k, m, k))

    def _turns(self, x: Any, xp: Any) -> tuple[Any, Any]:
        """Cosines and sines of the angle of each position and frequency, (k, 1, p / 2)."""
        wide = xp.float32 if xp.finfo(x.dtype).bits < 32 else x.dtype  # holds every position
        ones = xp.astype(xp.ones_like(xp.reshape(x, (-1,))[:1]), wide)
        positions = xp.cumulative_sum(xp.broadcast_to(ones, (x.shape[-2],))) - 1
        angles = positions[:, None] * xp.astype(self.frequencies, wide)[None, :]
        cos, sin = (xp.astype(part, x.dtype) for part in (xp.cos(angles), xp.sin(angles)))
        return cos[:, None, :], sin[:, None, :]


@checked
def rotary_frequencies(rotated: Annotated[int, Whole(2)], base: PositiveFloat) -> Float[np.ndarray, " f"]:
    """The usual frequencies of so many rotated coordinates of a head, base^(-2 f / rotated).

    Examples
    --------
    >>> rotary_frequencies(4, 10000.0).round(12).tolist()
    [1.0, 0.01]
    """
    return base ** (-np.arange(0, rotated, 2) / rotated)


@checked
def make_nice_rotary_layer(
    heads: PositiveInt,
    dim: PositiveInt,
    head_dim: PositiveInt,
    *,
    key_heads: PositiveInt | None = None,
    causal: bool = True,
    biases: bool = False,
    base: PositiveFloat = 10000.0,
    rng: Rng = None,
) -> RotaryLayer:
    """Draw a layer with rotary positions whose logits and outputs on Gaussian tokens are of order 1.

    Parameters
    ----------
    heads, dim, head_dim : int
        The numbers m of heads, d of coordinates, and p, which is even, of coordinates of a query.
    key_heads : int, optional
        The number of key and of value maps, each for a group of heads; by default every head has its own.
    causal : bool
        Whether the layer has a causal mask.
    biases : bool
        Whether queries, keys and outputs have biases, N(0, 1/4).
    base : float
        The frequencies are base^(-2 f / p).
    rng : optional
        Anything `numpy.random.default_rng` accepts.

    Notes
    -----
    Q sqrt(p), K and V have entries N(0, 1/d), and W_i = V O_i, with entries N(0, 1/p) of O_i.
    """
    groups = heads if key_heads is None else key_heads
    if head_dim % 2 or heads % groups:
        raise ValueError(
            f"head_dim is {head_dim} and key_heads {groups}: an even number and a divisor of {heads} are needed."
        )
    require_memory(
        f"A layer of {heads} heads in {dim} dimensions",
        32 * heads * dim * (dim + head_dim),
        advice="take fewer heads or fewer dimensions",
    )
    rng = random_generator(rng)
    queries = rng.standard_normal((heads, dim, head_dim)) / np.sqrt(dim * head_dim)
    keys, values = rng.standard_normal((2, groups, dim, head_dim)) / np.sqrt(dim)
    outputs = rng.standard_normal((heads, head_dim, dim)) / np.sqrt(head_dim)
    given = {}
    if biases:
        given = {
            "query_bias": rng.standard_normal((heads, head_dim)) / (2 * np.sqrt(head_dim)),
            "key_bias": rng.standard_normal((groups, head_dim)) / 2,
            "bias": rng.standard_normal(dim) / 2,
        }
    return RotaryLayer(
        queries,
        keys,
        np.repeat(values, heads // groups, axis=0) @ outputs,
        rotary_frequencies(head_dim, base),
        causal=causal,
        **given,
    )


@dataclass(frozen=True)
class RotaryErrors:
    """Relative errors of two layers with rotary positions, of matched heads, up to the symmetries."""

    w: Float[np.ndarray, " m"]  #: |W^_i - W_i| / |W_i|, in the order of the true heads
    #: the same for the maps of each frequency, ascending; those of equal ones are added
    score_maps: Float[np.ndarray, "m f"]
    bias: float  #: of b; zero if neither layer has one
    frequencies: float  #: the worst of the frequencies that are not 0
    matching: Int[np.ndarray, " m"]  #: which fitted head was matched to each true one


@checked
def rotary_errors(fitted: RotaryLayer, truth: RotaryLayer) -> RotaryErrors:
    """Match the heads of two layers of one shape and give each head's relative errors, up to the symmetries.

    The dimensions of the heads may differ where the distinct frequencies are as many. For a zero map the error is
    absolute. O(m^2 p d^2 + m^3).
    """
    from scipy.optimize import linear_sum_assignment

    omega, found = distinct_frequencies(truth), distinct_frequencies(fitted)
    if (fitted.heads, fitted.dim, *(found == 0)) != (truth.heads, truth.dim, *(omega == 0)):
        raise ValueError(
            f"The layers are {fitted!r} and {truth!r}, with {len(found)} and {len(omega)} distinct frequencies: "
            "parameters compare only when heads, dim and these agree; compare the functions instead."
        )
    maps, true = _determined(fitted), _determined(truth)
    w = pairwise_relative(to_numpy(fitted.w), to_numpy(truth.w))
    scores = pairwise_relative(*(_as_matrices(part) for part in (maps, true)))
    _, matching = linear_sum_assignment(w + scores)
    heads = np.arange(truth.heads)
    sizes = np.linalg.norm(true, axis=(2, 3))
    gaps = np.linalg.norm(maps[matching] - true, axis=(2, 3))
    bias, true_bias = (
        np.zeros(truth.dim) if layer.bias is None else to_numpy(layer.bias) for layer in (fitted, truth)
    )
    return RotaryErrors(
        w=w[heads, matching],
        score_maps=gaps / np.where(sizes > 0, sizes, 1.0),
        bias=float(pairwise_relative(bias[None, None], true_bias[None, None])[0, 0]),
        frequencies=float(np.max(np.abs(found - omega) / np.where(omega > 0, omega, 1.0))),
        matching=matching,
    )


def distinct_frequencies(layer: RotaryLayer) -> Float[np.ndarray, " f"]:
    """The different frequencies of a layer, ascending: of so many score maps the function tells."""
    return np.unique(to_numpy(layer.frequencies))


def _complex(maps: Any, bias: Any) -> Complex[np.ndarray, "m e f"]:
    """The two coordinates of each frequency as real and imaginary part, with the bias as last row."""
    maps = np.asarray(to_numpy(maps), dtype=np.float64)
    last = np.zeros_like(maps[:, 0]) if bias is None else to_numpy(bias)
    first, second = np.split(np.concatenate([maps, last[:, None]], axis=1), 2, axis=2)
    return first + 1j * second


def _determined(layer: RotaryLayer) -> Complex[np.ndarray, "m f e e"]:
    """What the function determines of the maps of each distinct frequency, ascending."""
    omega, place = np.unique(to_numpy(layer.frequencies), return_inverse=True)
    given = layer.score_maps
    maps = np.stack([given[:, place == f].sum(axis=1) for f in range(len(omega))], axis=1)
    if omega[0] == 0:
        maps[:, 0] = maps[:, 0].real
        maps[:, 0, :, -1] = 0.0
    return maps


def _as_matrices(maps: Complex[np.ndarray, "m f e e"]) -> Float[np.ndarray, "m a b"]:
    return maps.reshape(len(maps), -1, maps.shape[3]).view(np.float64)


def _projected(x: Any, maps: Any, bias: Any, xp: Any) -> Shaped[Any, "*batch k m p"]:
    """x_a A_i + b_i of every map."""
    m, d, p = maps.shape
    side_by_side = xp.reshape(xp.permute_dims(xp.astype(maps, x.dtype), (1, 0, 2)), (d, m * p))
    product = xp.reshape(xp.matmul(x, side_by_side), (*x.shape[:-1], m, p))
    return product if bias is None else product + xp.astype(bias, x.dtype)


def _turned(x: Shaped[Any, "*batch k m p"], cos: Any, sin: Any, xp: Any) -> Shaped[Any, "*batch k m p"]:
    """Coordinates f and f + p / 2, as a plane, turned."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return xp.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)
