"""The sums of products of features and labels that normal equations are made of, gathered block by block."""

import numpy as np
from jaxtyping import Float, Shaped
from scipy.linalg.blas import dgemm, dsyrk

from attention._arrays import shown
from attention.memory import memory_text
from attention.memory import require_memory as require_bytes
from attention.validation import count, require_array, require_shape
from upper.linear_attention.features import blocks, cubic_features, feature_count, prefix_features

__all__ = ["MEMORY", "FeatureMoments", "require_memory"]

MEMORY = 2 << 30
"""The memory in bytes that a matrix of features by features may take, with what works on it: 2 GiB."""

_WORKING = 3 << 26  # two blocks of features and their solver's own, bytes
_COLUMNS = 256  # mirrored at a time


def require_memory(features: int) -> None:
    """Refuse what does not fit before any work: a matrix of features by features, and working space, in 2 GiB.

    Raises
    ------
    ValueError
        If D x D numbers and the working space take more.
    """
    features = count("features", features)
    needed = 8 * features**2 + _WORKING
    number = shown(features)
    if needed > MEMORY:
        raise ValueError(
            f"There are {number} features: a matrix of {number} x {number} and its working space take "
            f"{memory_text(needed)}, and {memory_text(MEMORY)} are allowed. Take tokens of fewer dimensions, or, for "
            "few examples, use the kernel."
        )
    require_bytes(f"A matrix of {number} x {number}", needed, advice="take tokens of fewer dimensions")


class FeatureMoments:
    """Sums of phi phi^T and of phi y^T over examples, added block by block: all that normal equations need.

    The outputs share one matrix: it does not grow with their number.

    Parameters
    ----------
    features : int
        D; `feature_count` of d for cubic features.
    outputs : int
        p.

    Attributes
    ----------
    count : int
        Rows added.
    cross : array (D, p)
        The sum of phi y^T.
    squares : float
        The sum of |y|^2.
    dim : int or None
        Dimension of the tokens, where all rows are cubic features of tokens.
    average : bool
        Whether G is their mean there.

    Raises
    ------
    ValueError
        If the matrix does not fit 2 GiB, before any work.

    Notes
    -----
    D^2 numbers; n rows cost O(n D^2), by the symmetric product of BLAS.

    References
    ----------
    Yau et al., arXiv 2410.10101, Algorithm 1; one matrix for all outputs and symmetric features are derived here.

    Examples
    --------
    >>> moments = FeatureMoments(features=feature_count(2), outputs=1)
    >>> moments.add(np.ones((3, 4, 2)), np.ones((3, 1)))
    >>> moments.count, moments.gram().shape
    (3, (6, 6))
    """

    def __init__(self, features: int, outputs: int) -> None:
        self.features, self.outputs = count("features", features), count("outputs", outputs)
        require_memory(self.features)
        require_bytes(f"A matrix of {self.features} features by outputs", 8 * self.features * self.outputs)
        # by columns, as BLAS adds to it in place; sums go to the lower half only
        self._lower = np.zeros((self.features, self.features), order="F")
        self.cross = np.zeros((self.features, self.outputs), order="F")
        self.squares = 0.0
        self.count = 0
        self.dim: int | None = None
        self.average = False
        self._others = False

    def add(
        self, x: Shaped[np.ndarray, "N n d"], y: Shaped[np.ndarray, "N p"], *, average: bool = False
    ) -> None:
        """Add examples: sequences of n tokens whose last one is the query, and a label each.

        Raises
        ------
        ValueError
            If the shapes do not fit together, or an entry is not finite.
        """
        require_array("x", x, ("N", "n", "d"))
        require_shape("y", y, (len(x), self.outputs))
        self._of_tokens(x, average)
        for part in blocks(len(x), self.features):
            self._add(cubic_features(np.asarray(x[part], float), average=average), y[part])

    def add_sequences(
        self, x: Shaped[np.ndarray, "N n d"], y: Shaped[np.ndarray, "N n p"], *, average: bool = False
    ) -> None:
        """Add sequences with a label at every position: that of the prefix which ends there, and a row each.

        Raises
        ------
        ValueError
            If the shapes do not fit together, or an entry is not finite.
        """
        require_array("x", x, ("N", "n", "d"))
        n = x.shape[1]
        require_shape("y", y, (len(x), n, self.outputs))
        self._of_tokens(x, average)
        for part in blocks(len(x), self.features * n):
            phi = prefix_features(np.asarray(x[part], float), average=average)
            self._add(phi.reshape(-1, self.features), y[part].reshape(-1, self.outputs))

    def add_features(self, phi: Shaped[np.ndarray, "rows D"], y: Shaped[np.ndarray, "rows p"]) -> None:
        """Add rows of features and their labels.

        Raises
        ------
        ValueError
            If the shapes do not fit together, or an entry is not finite.
        """
        self._others, self.dim = True, None
        self._add(phi, y)

    def gram(self) -> Float[np.ndarray, "D D"]:
        """The sum of phi phi^T, not a copy: what is added later changes it."""
        lower = self._lower
        for start in range(0, self.features, _COLUMNS):
            stop = start + _COLUMNS
            corner = np.tril(lower[start:stop, start:stop])
            lower[start:stop, start:stop] = corner + np.tril(corner, -1).T
            lower[start:stop, stop:] = lower[stop:, start:stop].T
        return lower

    def __repr__(self) -> str:
        return f"<FeatureMoments: {self.count} rows of {self.features} features, {self.outputs} outputs>"

    def _add(self, phi: np.ndarray, y: np.ndarray) -> None:
        require_array("The features", phi, ("rows", self.features))
        require_array("The labels", y, (len(phi), self.outputs))
        phi, y = np.ascontiguousarray(phi, dtype=float), np.ascontiguousarray(y, dtype=float)
        self._lower = dsyrk(1.0, phi.T, beta=1.0, c=self._lower, lower=1, overwrite_c=1)
        self.cross = dgemm(1.0, phi.T, y.T, trans_b=1, beta=1.0, c=self.cross, overwrite_c=1)
        self.squares += float(np.vdot(y, y))
        self.count += len(phi)

    def _of_tokens(self, x: np.ndarray, average: bool) -> None:
        d = x.shape[-1]
        if feature_count(d) != self.features:
            raise ValueError(
                f"The tokens have {d} dimensions, hence {feature_count(d)} features: {self.features} are gathered here."
            )
        if self.count and not self._others and average != self.average:
            raise ValueError("Sums and means over the tokens are mixed: give all rows the same average.")
        self.average = average
        self.dim = None if self._others else int(d)
