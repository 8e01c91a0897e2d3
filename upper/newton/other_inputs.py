"""Do the outputs of a layer on some inputs settle those on other inputs, made of the same tokens?"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from attention import AttentionLayer
from attention.layer import read_tokens
from upper.newton.derivative import AT_ONCE, Derivative, Rounding, moved, null_moves, output_size, stacked
from upper.newton.whitening import Whitening, whitening_of


@dataclass(frozen=True)
class OtherInputs:
    """How far to look for inputs that contradict a fit: more moves and steps see more, and take longer."""

    few: int = 8  #: if fewer examples tell about an entry of Theta, there may be others that none tells about
    #: the most entries of Theta and c among which a null space is looked for: a second or two
    searched: int = 1024
    recombined: int = 1000  #: at least so many inputs of recombined tokens
    folds: int = 4
    seen: float = 1e6  #: other inputs see a direction if their outputs change by this many times as much
    steps: tuple[float, ...] = (*0.5 ** np.arange(20), *0.1 ** np.arange(7, 13))  #: relative to the layer


_RULES = OtherInputs()


def determines_other_inputs(
    layer: AttentionLayer,
    x: Float[np.ndarray, "n k d"],
    *,
    rank: int | None = None,
    rng: np.random.Generator,
) -> bool:
    """Whether the outputs of a layer on the tokens `x` settle those on other inputs, made of the same tokens.

    It is False if the layer can move without a change of its outputs on `x`, to a millionth of the change on recombined
    inputs, whose tokens each stand at their place in some input of `x`. It moves along random directions of the null
    space, by small and by large steps. Recombined inputs may not be of the distribution, as where a token determines
    another. So a quarter of `x` must also show a move that the rest does not, along directions that all of `x` or the
    rest leaves open. Directions that no input sees do no harm.

    Notes
    -----
    A null space that only few inputs see is not looked for where at least eight examples tell about every entry of
    Theta_i. Their number is the participation ratio of x_u^2 Var(x_v), with the variance under the pattern. With more
    than 1024 entries of Theta and c, random directions of single heads stand for the null space, as they are one if a
    head is saturated.
    """
    few = _shown_by_few(layer, x, _RULES.few)
    if not few.any():
        return True
    whitening, order = whitening_of(x, centred=layer.biased), rng.permutation(len(x))
    search = _Search(layer, whitening, few, rank, rng)
    times = range(-(-_RULES.recombined // len(x)))
    recombined = [np.stack([rng.permutation(x[:, a]) for a in range(x.shape[1])], axis=1) for _ in times]
    pairs = [(x, np.concatenate(recombined), 1.0), (x, x, 1 - 1 / _RULES.folds)]
    for fold in np.array_split(order, min(_RULES.folds, len(x) // 2)):
        pairs.append((np.delete(x, fold, axis=0), x[fold], 1.0))
    seen = (search.shows_more(*pair) for pair in pairs)
    return not (next(seen) and any(seen))


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for inputs that show a move of the layer; `few` marks heads of which few examples tell."""

    layer: AttentionLayer
    whitening: Whitening
    few: Bool[np.ndarray, " m"]
    rank: int | None
    rng: np.random.Generator

    def shows_more(
        self, x: Float[np.ndarray, "n k d"], others: Float[np.ndarray, "p k d"], share: float
    ) -> bool:
        """Whether other inputs show a move of the layer that this share of the tokens `x` does not."""
        here = self.whitening.into(self.layer)
        z, others = self.whitening(x), self.whitening(others)
        rounding = Rounding().outputs * Rounding().eps * output_size(here, z)
        for move in self._moves(x, here):
            for step in _RULES.steps:
                both = [moved(here, move, sign * step) for sign in (1, -1)]
                with np.errstate(over="ignore", invalid="ignore"):
                    changes, elsewhere = (
                        np.abs(both[0](tokens) - both[1](tokens)).max(axis=(1, 2)) for tokens in (z, others)
                    )
                least = max(np.quantile(changes, share, method="higher"), rounding)
                if elsewhere.max() > _RULES.seen * least:
                    return True
        return False

    def _moves(self, x: np.ndarray, here: AttentionLayer) -> list[tuple[np.ndarray, np.ndarray]]:
        """Changes of [Theta_i; c_i] and of the W_i and b, in whitened coordinates, that the outputs may not show."""
        m, r, d, biased = here.heads, self.whitening.rank, here.dim, self.layer.biased
        if m * (r + biased) * r <= _RULES.searched:
            return null_moves(Derivative.of(self.layer, x, self.rank, self.whitening), self.rng)
        rows, moves = stacked(here, r), []
        for i in np.flatnonzero(self.few):
            change = np.zeros_like(rows)
            change[i] = np.linalg.norm(rows[i]) / r * self.rng.standard_normal(rows[i].shape)
            moves.append((change, np.zeros((m * r + biased, d))))
        return moves


def _shown_by_few(
    layer: AttentionLayer, x: Float[np.ndarray, "n k d"], fewest: int
) -> Bool[np.ndarray, " m"]:
    """Whether few examples tell about some entry of Theta_i or c_i, for each head."""
    (n, k, d), m = x.shape, layer.heads
    total, squares, uniform = np.zeros((d + 1, m, d)), np.zeros((d + 1, m, d)), np.zeros((d + 1, 1, d))
    for first in range(0, n, AT_ONCE):
        tokens = x[first : first + AT_ONCE]
        pattern, reads = read_tokens(tokens, layer.theta, layer.key_bias, causal=layer.causal)
        square = tokens * tokens
        spread = (pattern.reshape(-1, k * m, k) @ square).reshape(reads.shape) - reads * reads
        least = 1e-12 * square.max(axis=(0, 1))
        spread = np.where(spread > np.tile(least, m), spread, 0.0).reshape(-1, k, m * d)
        left = np.concatenate([square, np.full((*square.shape[:2], 1), float(layer.biased))], axis=2)
        left = left.transpose(0, 2, 1)
        shown = (left @ spread).reshape(-1, d + 1, m, d)
        total += shown.sum(axis=0)
        squares += np.einsum("nemd,nemd->emd", shown, shown)
        uniform[:, 0] += np.einsum("nek,nd->ed", left, tokens.var(axis=1))
    return np.any((uniform > 0) & (total**2 <= fewest * squares), axis=(0, 2))
