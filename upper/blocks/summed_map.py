"""What a post-norm block answers to a sum y of token and attention, but for the last norm: the direction of w(n(y))."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

from attention.norm import Norm
from upper.blocks.kinks import Ask
from upper.blocks.row_newton import newton_rows
from upper.blocks.token_map import TokenMap

# eps lies among these powers of 10; a few directions and lengths tell which, and more show b beside it.
_POWERS = np.arange(-17.0, 1.0, 0.25)
_DIRECTIONS, _MORE = 4, 24


@dataclass(frozen=True)
class SummedMap:
    """|y| times the direction of w(n(y)) for y of mean 0, in D = d - 1 coordinates: a map that can be inverted."""

    eps: float  #: of the norm n(y) = y / sqrt(|y|^2 / d + eps)
    network: TokenMap  #: w

    @property
    def _norm(self) -> Norm:
        return Norm.plain(self.network.u.shape[1], self.eps * self._share, centred=False)

    @property
    def _share(self) -> float:
        """The ratio d / D: means are over d coordinates, of which only D are here."""
        return 1 + 1 / self.network.u.shape[1]

    def between(self, y: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        """w(n(y))."""
        return self.network(np.sqrt(self._share) * self._norm(y))

    def __call__(self, y: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
        """|y| times the direction of w(n(y))."""
        w = self.between(y)
        return w * (np.linalg.norm(y, axis=1) / np.linalg.norm(w, axis=1))[:, None]

    def slopes(self, y: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D D"]:
        """The derivative, rows by y."""
        n, root = self._norm(y), np.sqrt(self._share)
        w = self.network(root * n)
        size, length = (np.linalg.norm(v, axis=1)[:, None, None] for v in (w, y))
        unit = w / size[:, :, 0]
        identity = np.broadcast_to(np.eye(y.shape[1]), (*y.shape, y.shape[1]))
        slopes = root * self._norm.derivative(y, identity) @ self.network.jacobian(root * n)
        slopes = (slopes - (slopes @ unit[:, :, None]) * unit[:, None]) * length / size
        return slopes + (y / length[:, :, 0])[:, :, None] * unit[:, None]

    def inverse(
        self,
        directions: Float[np.ndarray, "n D"],
        lengths: Float[np.ndarray, " n"],
        start: Float[np.ndarray, "n D"],
    ) -> Float[np.ndarray, "n D"]:
        """The y of these lengths whose w(n(y)) have these directions, near `start`; NaN where none is found."""
        target = directions * (lengths / np.linalg.norm(directions, axis=1))[:, None]
        return newton_rows(self, self.slopes, target, start, lengths)


def fit_short(
    g: SummedMap,
    ask: Ask,
    linear: Float[np.ndarray, "d D"],
    bias: Float[np.ndarray, " D"],
    rng: np.random.Generator,
) -> tuple[SummedMap, Float[np.ndarray, " D"], float]:
    """The eps of the first norm, and a better b, from tokens with |y|^2 about d eps; and the error of directions.

    `ask` gives n2(w). There n(y) is inside the ball, as far as eps says, and b is not small beside y.
    """
    d = linear.shape[0]
    back = np.linalg.pinv(linear)
    directions = rng.standard_normal((_DIRECTIONS, d - 1))
    y = (np.sqrt(10.0**_POWERS)[:, None, None] * directions).reshape(-1, d - 1)
    answers = _unit(ask((y - bias) @ back))
    sizes = 10.0 ** np.repeat(_POWERS, _DIRECTIONS)
    misfits = []
    for eps in 10.0**_POWERS:
        near = (sizes > 0.1 * eps) & (sizes < 10 * eps)
        misfits.append(
            np.linalg.norm(_unit(replace(g, eps=eps).between(y[near])) - answers[near]) / np.sqrt(near.sum())
        )
    eps = 10.0 ** _POWERS[int(np.argmin(misfits))]
    entries = np.sqrt(eps) * 2.0 ** rng.uniform(-2, 2, (_MORE, 1)) * rng.standard_normal((_MORE, d - 1))
    x = (entries - bias) @ back
    answers = _unit(ask(x))

    def rest(parameters: np.ndarray) -> np.ndarray:
        moved = replace(g, eps=eps * float(np.exp(parameters[-1])))
        return (_unit(moved.between(x @ linear + bias + np.sqrt(eps) * parameters[:-1])) - answers).ravel()

    fit = least_squares(rest, np.zeros(d), "3-point", xtol=1e-14, ftol=None, gtol=None)
    *moved, power = fit.x
    g = replace(g, eps=eps * float(np.exp(power)))
    return g, bias + np.sqrt(eps) * np.array(moved), float(np.sqrt(2 * fit.cost) / np.linalg.norm(answers))


def _unit(v: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    return v / np.linalg.norm(v, axis=1, keepdims=True)
