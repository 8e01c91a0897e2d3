"""What regression in cubic features gives: coefficients, and linear attention in its tensor."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from attention._arrays import namespace
from upper.linear_attention.features import blocks, cubic_features, floating, require_no_overflow

__all__ = ["CubicRegression", "FeatureRegression"]


@dataclass(frozen=True, eq=False)
class FeatureRegression:
    """Least squares on features.

    Attributes
    ----------
    coefficients : array (D, p)
        One column an output; of least norm where several are best.
    rank : int
        Of the features on the examples: singular values above 1e-10 of the largest count, tokens of very unequal
        coordinates brought to equal units first; above 3e-7 where there are moments or a kernel only.
    condition : float
        Largest over smallest of those singular values; an estimate where normal equations were solved.
    residual : float
        Root of the summed squared errors on the examples over that of the labels.
    examples : int
        Rows.
    method : str
        How it was solved: cholesky, svd, kernel, moments; or "another" for a minimiser that is another's neighbour.
    """

    coefficients: Float[np.ndarray, "D p"]
    rank: int
    condition: float
    residual: float
    examples: int
    method: str

    @property
    def unique(self) -> bool:
        """Whether no other coefficients do as well on the examples."""
        return self.rank == len(self.coefficients)

    def __str__(self) -> str:
        others = "the only best" if self.unique else "of least norm among the best"
        others = "one of many that are best" if self.method == "another" else others
        return (
            f"{self.examples} examples, rank {self.rank} of {len(self.coefficients)} features: {others}, "
            f"relative residual {self.residual:.1e} (by {self.method})"
        )


@dataclass(frozen=True, eq=False)
class CubicRegression(FeatureRegression):
    """Linear attention as learned by regression, in its tensor; see `fit_heads` for its heads.

    Attributes
    ----------
    tensor : array (p, d, d, d)
        M_abce, symmetric in b and c.
    average : bool
        Whether G is the mean over the tokens.
    """

    tensor: Float[np.ndarray, "p d d d"]
    average: bool = False

    @property
    def dim(self) -> int:
        """Dimension d of the tokens."""
        return int(self.tensor.shape[-1])

    def __call__(self, x: Shaped[Any, "*batch n d"]) -> Shaped[Any, "*batch p"]:
        """The outputs at the last token, in the array type of `x`."""
        xp = namespace(x)
        x = floating(x)
        if x.ndim < 2 or x.shape[-1] != self.dim:
            raise ValueError(f"The tokens have shape {tuple(x.shape)}: (..., n, {self.dim}) is needed.")
        lead, n = x.shape[:-2], x.shape[-2]
        flat = xp.reshape(x, (-1, n, self.dim))
        coefficients = xp.asarray(self.coefficients, dtype=x.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            parts = [
                xp.matmul(cubic_features(flat[part, ...], average=self.average), coefficients)
                for part in blocks(flat.shape[0], len(self.coefficients))
            ]
        outputs = self.tensor.shape[0]
        together = xp.concat(parts) if parts else xp.zeros((0, outputs), dtype=x.dtype)
        require_no_overflow(together, xp)
        return xp.reshape(together, (*lead, outputs))
