"""Transformer blocks: an attention layer, then a two-layer network, with residuals or without, and with norms."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from attention._arrays import to_numpy
from attention.conversion import convert_torch_module, require_same
from attention.errors import ParameterErrors, parameter_errors
from attention.feed_forward import Activation, FeedForward
from attention.generators import make_nice_layer
from attention.inputs import Rng
from attention.layer import AttentionLayer
from attention.memory import require_memory
from attention.norm import Norm
from attention.validation import PositiveInt, checked, random_generator


@dataclass(frozen=True, eq=False)
@checked
class Block:
    """A transformer block, X -> N(Z) row by row with Z = X + F(X), perhaps with norms.

    Pre-norm, as in GPT-2: Z + N(n2(Z)) with Z = X + F(n1(X)). Post-norm, as in BERT: n2(N(Z)) with Z = n1(X + F(X)).

    Parameters
    ----------
    layer : AttentionLayer
        The attention F.
    network : FeedForward
        The network N, on every row.
    residual : bool
        Whether X is added to F(X).
    norms : pair of Norm, optional
        The norms n1 and n2.
    norm_first : bool
        Whether norms stand before the attention and the network, inside the residuals, or behind the sums.

    Notes
    -----
    A ValueError if dimensions differ, or a block with norms lacks a residual.
    Where both residuals are there, a shift of the layer's bias by e is undone by b1 - e W1 and b2 - e: all such blocks
    are one function. The symmetries with norms are those of `centred`. The costs are those of layer and network.

    Examples
    --------
    >>> import numpy as np
    >>> block = make_nice_block(heads=2, dim=8, width=16, rng=0)
    >>> block(np.ones((3, 4, 8))).shape
    (3, 4, 8)
    """

    layer: AttentionLayer
    network: FeedForward
    residual: bool = True
    norms: tuple[Norm, ...] | None = None
    norm_first: bool = True

    def __post_init__(self) -> None:
        if self.layer.dim != self.network.dim:
            raise ValueError(
                f"The layer has {self.layer.dim} coordinates and the network {self.network.dim}: the same are needed."
            )
        if self.norms is None:
            return
        if len(self.norms) != 2:
            raise ValueError(f"norms has {len(self.norms)} norms: 2 are needed, n1 and n2.")
        if any(norm.dim != self.layer.dim for norm in self.norms):
            dims = " and ".join(str(norm.dim) for norm in self.norms)
            raise ValueError(
                f"The norms have {dims} coordinates and the layer {self.layer.dim}: the same are needed."
            )
        if not (self.residual and self.network.residual):
            raise ValueError(
                "A block with norms has both residuals: set residual=True of the block and its network."
            )

    @classmethod
    def from_torch(cls, module: Any) -> "Block":
        """The block of a ``torch.nn.TransformerEncoderLayer``, perhaps with ``torch.nn.Identity()`` for its norms.

        The parameters become float64, and dropout is left out. A ValueError if the module is of another class, or
        computes something else on random tokens.
        """
        torch = sys.modules.get("torch")  # a caller with such a module has imported torch
        if torch is None or type(module) is not torch.nn.TransformerEncoderLayer:
            raise ValueError(f"module is a {type(module).__qualname__}: a TransformerEncoderLayer is needed.")
        norms = None
        if any(type(norm) is not torch.nn.Identity for norm in (module.norm1, module.norm2)):
            norms = Norm.from_torch(module.norm1), Norm.from_torch(module.norm2)
        attended = module.self_attn
        parts = [module.linear1, module.activation, module.linear2]
        network = FeedForward.from_torch(parts, residual=True)
        block = cls(
            convert_torch_module(attended).layer, network, norms=norms, norm_first=bool(module.norm_first)
        )

        def answer(copy: Any, x: Any) -> Any:
            order = (0, 1, 2) if attended.batch_first else (1, 0, 2)
            for part in copy.modules():  # the fast path of evaluation mode needs norms
                part.training = True
                if isinstance(part, torch.nn.Dropout):
                    part.p = 0.0
            copy.self_attn.dropout = 0.0
            return copy(x.permute(order)).permute(order)

        require_same(module, block, answer)
        return block

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return self.layer.dim

    @property
    def heads(self) -> int:
        """The number m of heads."""
        return self.layer.heads

    @property
    def biased(self) -> bool:
        """Whether the attention has biases."""
        return self.layer.biased

    @property
    def causal(self) -> bool:
        """Whether the attention has a causal mask."""
        return self.layer.causal

    def __call__(self, x: Shaped[Any, "*batch k d"]) -> Shaped[Any, "*batch k d"]:
        """The outputs on the token matrices `x`, in the array type of `x`."""
        if self.norms is not None:
            first, second = self.norms
            if not self.norm_first:
                return second(self.network(first(x + self.layer(x))))
            z = x + self.layer(first(x))
            return z + replace(self.network, residual=False)(second(z))
        attended = self.layer(x)
        return self.network(x + attended if self.residual else attended)

    @checked
    def map(self, convert: Callable[[Any], Any]) -> "Block":
        """The same block with `convert` applied to its parameters, for example ``torch.from_numpy``."""
        norms = None if self.norms is None else (self.norms[0].map(convert), self.norms[1].map(convert))
        return replace(self, layer=self.layer.map(convert), network=self.network.map(convert), norms=norms)

    def centred(self) -> "Block":
        """The same function in a normal form: with no bias b of the layer, which goes to b1, and to b2 by a residual.

        Of a pre-norm block, gains and offsets go into the next matrices. A LayerNorm takes means off, so matrices lose
        theirs on the side of tokens, and b its own, which goes to b2.

        Of a post-norm block, the first offset goes into b1 and b2. A LayerNorm takes means off, so outputs of the heads
        and of the network lose theirs, and W1 what it does to the means of norms. The first gain, W2, b2 and the root
        of the second eps have one free factor, which W1 takes back, and the second gain its sign: here the mean square
        of the first gain is 1, and its sum is not negative. Before an RMSNorm each of its entries has a free sign.
        """
        layer, network = self.layer, self.network
        if self.norms is not None:
            return (self._without_gains if self.norm_first else self._in_units_of_gains)(*self.norms)
        if layer.bias is None:
            return self
        b2 = network.b2 + layer.bias if network.residual else network.b2
        moved = replace(network, b1=network.b1 + layer.bias @ network.w1, b2=b2)
        bare = AttentionLayer(layer.theta, layer.w, layer.key_bias, causal=layer.causal)
        return Block(bare, moved, self.residual)

    def _without_gains(self, first: Norm, second: Norm) -> "Block":
        layer, network, d = self.layer, self.network, self.dim
        mean = np.ones((d, d)) / d if first.centred else np.zeros((d, d))
        into, onto = ((np.eye(d) - mean) * norm.gain for norm in (first, second))
        key_bias = first.offset @ layer.theta + (0.0 if layer.key_bias is None else layer.key_bias)
        bias = first.offset @ layer.w.sum(axis=0) + (0.0 if layer.bias is None else layer.bias)
        layer = AttentionLayer(
            into @ layer.theta @ into.T,
            into @ layer.w,
            key_bias @ into.T,
            bias - bias @ mean,
            causal=layer.causal,
        )
        network = replace(
            network,
            w1=onto @ network.w1,
            b1=network.b1 + second.offset @ network.w1,
            b2=network.b2 + bias @ mean,
        )
        plain = (
            Norm.plain(d, first.eps, centred=first.centred),
            Norm.plain(d, second.eps, centred=second.centred),
        )
        return replace(self, layer=layer, network=network, norms=plain)

    def _in_units_of_gains(self, first: Norm, second: Norm) -> "Block":
        layer, network, d = self.layer, self.network, self.dim
        into, onto = (np.eye(d) - norm.centred / d for norm in (first, second))
        gain = np.asarray(first.gain)
        factor = (-1.0 if gain.sum() < 0 else 1.0) / (np.sqrt(np.mean(gain**2)) or 1.0) * np.ones(d)
        if not second.centred:
            factor = np.where(gain < 0, -1.0, 1.0) * np.abs(factor)
        w1 = network.w1 / factor[:, None]
        if np.all(gain != 0):  # where an entry is 0, the others are determined, but not what it meets
            w1 = into @ (gain[:, None] * network.w1) / (gain * factor)[:, None]
        else:
            w1 = np.where(gain[:, None] != 0, w1, 0.0)
        size = float(np.abs(factor[0]))
        return replace(
            self,
            layer=AttentionLayer(
                layer.theta,
                layer.w @ into,
                layer.key_bias,
                None if layer.bias is None else layer.bias @ into,
                causal=layer.causal,
            ),
            network=replace(
                network,
                w1=w1,
                b1=network.b1 + first.offset @ network.w1,
                w2=network.w2 @ onto * factor,
                b2=(network.b2 + first.offset) @ onto * factor,
            ),
            norms=(
                replace(first, gain=gain * factor, offset=np.zeros(d)),
                replace(second, gain=second.gain * np.sign(factor), eps=second.eps * size**2),
            ),
        )


@checked
def make_nice_network(
    *, dim: PositiveInt, width: PositiveInt, activation: Activation = "gelu", rng: Rng = None
) -> FeedForward:
    """Draw a network: W1 entries N(0, 1/d), W2 entries N(0, 1/(4 h)), offsets and biases N(0, 1/4).

    Examples
    --------
    >>> make_nice_network(dim=8, width=32, rng=0)
    FeedForward(dim=8, width=32, activation='gelu')
    """
    require_memory(f"A network of {width} neurons", 32 * dim * width, advice="take fewer neurons")
    rng = random_generator(rng)
    return FeedForward(
        w1=rng.standard_normal((dim, width)) / np.sqrt(dim),
        b1=rng.standard_normal(width) / 2,
        w2=rng.standard_normal((width, dim)) / (2 * np.sqrt(width)),
        b2=rng.standard_normal(dim) / 2,
        activation=activation,
    )


@checked
def make_nice_block(
    *,
    heads: PositiveInt,
    dim: PositiveInt,
    width: PositiveInt,
    activation: Activation = "gelu",
    rng: Rng = None,
) -> Block:
    """Draw a block: a nice layer with biases c_i ~ N(0, 1/d) and b ~ N(0, 1/4), and a nice network; both residuals.

    Examples
    --------
    >>> make_nice_block(heads=2, dim=8, width=32, rng=0).network
    FeedForward(dim=8, width=32, activation='gelu')
    """
    rng = random_generator(rng)
    nice = make_nice_layer(heads=heads, dim=dim, rng=rng)
    layer = AttentionLayer(
        nice.theta,
        nice.w,
        key_bias=rng.standard_normal((heads, dim)) / np.sqrt(dim),
        bias=rng.standard_normal(dim) / 2,
    )
    return Block(layer, make_nice_network(dim=dim, width=width, activation=activation, rng=rng))


@dataclass(frozen=True)
class NetworkErrors:
    """Relative errors of matched neurons, up to the symmetries of the activation."""

    w1: Float[np.ndarray, " h"]  #: of the columns of W1, in the order of the true neurons
    w2: Float[np.ndarray, " h"]  #: of the rows of W2
    b1: Float[np.ndarray, " h"]  #: of the offsets, relative to the norm of the neuron's column of W1
    b2: float  #: of b2
    matching: Int[np.ndarray, " h"]  #: which fitted neuron was matched to each true one


@checked
def network_errors(fitted: FeedForward, truth: FeedForward) -> NetworkErrors:
    """Match the neurons of two networks of one shape and give each one's relative errors.

    Neurons are determined up to order, for ReLU up to a positive factor that W2 takes back, and for tanh up to sign.
    O(d h^2 + h^3).
    """
    from scipy.optimize import linear_sum_assignment

    kinds = [(net.dim, net.width, net.activation, net.residual) for net in (fitted, truth)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"The networks are {fitted!r} and {truth!r}: two of one shape and kind are needed.")
    parts = [_normal_form(net) for net in (fitted, truth)]
    (u, a, v, size), (true_u, true_a, true_v, true_size) = parts
    alike = (true_u @ u.T) / np.outer(true_size, size) * (true_v @ v.T)
    alike /= np.outer(np.linalg.norm(true_v, axis=1), np.linalg.norm(v, axis=1)) + 1e-300
    _, match = linear_sum_assignment(-np.abs(alike) if truth.activation == "tanh" else -alike)
    sign = np.ones(len(u))
    if truth.activation == "tanh":
        sign = np.sign(np.sum(true_u * u[match], axis=1))
    u, a, v = u[match] * sign[:, None], a[match] * sign, v[match] * sign[:, None]
    b2 = float(np.linalg.norm(to_numpy(fitted.b2) - to_numpy(truth.b2)))
    return NetworkErrors(
        w1=np.linalg.norm(u - true_u, axis=1) / true_size,
        w2=np.linalg.norm(v - true_v, axis=1) / np.linalg.norm(true_v, axis=1),
        b1=np.abs(a - true_a) / true_size,
        b2=b2 / (float(np.linalg.norm(to_numpy(truth.b2))) or 1.0),
        matching=match,
    )


def _normal_form(net: FeedForward) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """u_j, a_j, v_j and |u_j|; of ReLU those with |u_j| = 1."""
    u, a, v = to_numpy(net.w1).T, to_numpy(net.b1), to_numpy(net.w2)
    size = np.maximum(np.linalg.norm(u, axis=1), np.finfo(float).tiny)
    if net.activation == "relu":
        return u / size[:, None], a / size, v * size[:, None], np.ones_like(size)
    return u, a, v, size


@dataclass(frozen=True)
class BlockErrors:
    """Relative errors of the parameters of a block, both blocks centred."""

    layer: ParameterErrors
    network: NetworkErrors
    norms: Float[
        np.ndarray, " n"
    ]  #: of gain and offset of each norm, relative to the gain; none without norms

    @property
    def worst(self) -> float:
        """The largest of all."""
        layer, network = self.layer, self.network
        errors = (layer.theta, layer.w, layer.key_bias, network.w1, network.w2, network.b1, network.b2)
        errors += tuple(self.norms)
        return max(float(np.max(error)) for error in errors)


@checked
def block_errors(fitted: Block, truth: Block) -> BlockErrors:
    """Match heads and neurons of two blocks with both residuals and give their errors.

    The blocks are compared as `Block.centred`. The other symmetries are those of `parameter_errors` and
    `network_errors`. A ValueError if their norms stand in different places.
    """
    fitted, truth = fitted.centred(), truth.centred()
    kinds = [
        None if block.norms is None else (block.norm_first, [norm.centred for norm in block.norms])
        for block in (fitted, truth)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"The blocks have norms {kinds[0]} and {kinds[1]}, (norm_first, [centred, centred]): the same are "
            "needed."
        )
    norms = [
        np.linalg.norm([norm.gain - true.gain, norm.offset - true.offset]) / np.linalg.norm(true.gain)
        for norm, true in zip(fitted.norms or (), truth.norms or (), strict=True)
    ]
    return BlockErrors(
        parameter_errors(fitted.layer, truth.layer),
        network_errors(fitted.network, truth.network),
        np.array(norms),
    )
