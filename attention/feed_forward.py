"""Two-layer networks on tokens, x -> x + act(x W1 + b1) W2 + b2: the other half of a transformer block."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Shaped

from attention._arrays import as_floating, namespace
from attention.conversion import require_same
from attention.layer import own_arrays, require_no_overflow, writeable
from attention.validation import checked

Activation = Literal["relu", "gelu", "gelu_tanh", "tanh"]
"""ReLU, max(t, 0); GELU, t Phi(t) with Phi the normal distribution function, and its form by tanh; tanh."""


@dataclass(frozen=True, eq=False)
@checked
class FeedForward:
    """A network of one hidden layer that acts on every token alone, x -> x + act(x W1 + b1) W2 + b2.

    Parameters
    ----------
    w1 : array (d, h)
        Column j is the weight of neuron j on the d coordinates of a token.
    b1 : array (h,)
        The offsets of the neurons.
    w2 : array (h, d)
        Row j is the output of neuron j.
    b2 : array (d,)
        What is added to every output.
    activation : "relu", "gelu", "gelu_tanh" or "tanh"
        GELU is the exact one, by the error function; the third is that of GPT-2.
    residual : bool
        Whether the token itself is added, as in transformers.

    Notes
    -----
    A ValueError if the entries are not real and finite, or the arrays come from different libraries. One token costs
    O(d h). NumPy parameters are copied and made read-only.

    Examples
    --------
    >>> import numpy as np
    >>> network = FeedForward(w1=np.eye(2), b1=np.zeros(2), w2=-np.eye(2), b2=np.ones(2), activation="relu")
    >>> network(np.array([[2.0, -3.0]]))  # x - max(x, 0) + 1
    array([[ 1., -2.]])
    """

    w1: Shaped[Any, "d h"]
    b1: Shaped[Any, " h"]
    w2: Shaped[Any, "h d"]
    b2: Shaped[Any, " d"]
    activation: Activation = "gelu"
    residual: bool = True

    def __post_init__(self) -> None:
        for name, array in own_arrays(self.parameters).items():
            object.__setattr__(self, name, array)

    @classmethod
    def from_torch(cls, modules: Any, *, residual: bool) -> "FeedForward":
        """The network of three torch modules: two ``torch.nn.Linear``, and an activation in between.

        Parameters
        ----------
        modules : torch.nn.Sequential, or another sequence
            For example ``Sequential(Linear(d, h), GELU(), Linear(h, d))``. The activation is any function that is ReLU,
            GELU, its form by tanh, or tanh.
        residual : bool
            Whether the token is added to the output; the modules do not say it.

        Notes
        -----
        The parameters become float64. A ValueError if the modules compute something else on random tokens.
        """
        torch = sys.modules.get("torch")  # a caller with such modules has imported torch
        parts = list(modules)
        if torch is None or len(parts) != 3 or any(type(part) is not torch.nn.Linear for part in parts[::2]):
            raise ValueError(
                "modules are no network: a Linear, an activation and a Linear of torch.nn are needed."
            )
        first, act, second = parts
        t = torch.linspace(-4, 4, 33, dtype=torch.float64)
        values = act(t).detach().numpy()
        names = [
            name
            for name in get_args(Activation)
            if np.allclose(values, activation(name, t.numpy()), atol=1e-7)
        ]
        if not names:
            raise ValueError("The activation is none of ReLU, GELU (also by tanh), and tanh.")

        def arrays(part: Any) -> tuple[np.ndarray, np.ndarray]:
            weight = part.weight.detach().cpu().double()
            bias = weight.new_zeros(len(weight)) if part.bias is None else part.bias.detach().cpu().double()
            return weight.numpy().T, bias.numpy()

        network = cls(*arrays(first), *arrays(second), names[0], residual)
        require_same(
            torch.nn.ModuleList([first, second]),
            network,
            lambda copy, x: copy[1](act(copy[0](x))) + (x if residual else 0),
        )
        return network

    @property
    def dim(self) -> int:
        """The number d of coordinates of a token."""
        return int(self.w1.shape[0])

    @property
    def width(self) -> int:
        """The number h of neurons."""
        return int(self.w1.shape[1])

    @property
    def parameters(self) -> dict[str, Any]:
        """The four arrays by name."""
        return {name: getattr(self, name) for name in ("w1", "b1", "w2", "b2")}

    def __repr__(self) -> str:
        residual = "" if self.residual else ", no residual"
        return f"FeedForward(dim={self.dim}, width={self.width}, activation={self.activation!r}{residual})"

    def __call__(self, x: Shaped[Any, "*batch d"]) -> Shaped[Any, "*batch d"]:
        """The outputs on the tokens `x`, in the array type of `x`; a ValueError if they overflow."""
        xp = namespace(x, self.w1)
        if x.ndim < 1 or x.shape[-1] != self.dim:
            raise ValueError(f"x has shape {tuple(x.shape)}: (..., {self.dim}) is needed, that of tokens.")
        x = as_floating(x, self.w1.dtype, xp)
        w1, b1, w2, b2 = (xp.astype(array, x.dtype) for array in self.parameters.values())
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is found by the check
            output = xp.matmul(activation(self.activation, xp.matmul(x, w1) + b1), w2) + b2
            output = x + output if self.residual else output
        require_no_overflow("output", output, xp)
        return output

    @checked
    def map(self, convert: Callable[[Any], Any]) -> "FeedForward":
        """The same network with `convert` applied to its parameters, for example ``torch.from_numpy``."""
        return replace(self, **{name: convert(writeable(array)) for name, array in self.parameters.items()})


def activation(name: Activation, t: Shaped[Any, "*n"], *, derivative: bool = False) -> Shaped[Any, "*n"]:
    """The activation of this name at `t`, or its first derivative (of NumPy arrays alone). At the kink of ReLU it is 0.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.array([-1.5, 2.0])
    >>> bool(np.allclose(activation("gelu", t) - activation("gelu", -t), t))  # act(t) = t + act(-t)
    True
    """
    xp = namespace(t)
    if name == "relu":
        step = xp.astype(t > 0, t.dtype)
        return step if derivative else step * t
    if name == "tanh":
        value = xp.tanh(t)
        return 1 - value**2 if derivative else value
    if name == "gelu_tanh":
        root, cubic = (2 / np.pi) ** 0.5, 0.044715
        share = (1 + xp.tanh(root * (t + cubic * t**3))) / 2
        return (
            share + t * 2 * share * (1 - share) * root * (1 + 3 * cubic * t**2) if derivative else t * share
        )
    if isinstance(t, np.ndarray):
        from scipy.special import ndtr  # exact for negative t, where 1 + erf cancels

        phi = ndtr(t).astype(t.dtype)
    else:
        phi = (1 + xp.erf(t / 2**0.5)) / 2
    return phi + t * xp.exp(-(t**2) / 2) / (2 * np.pi) ** 0.5 if derivative else t * phi
