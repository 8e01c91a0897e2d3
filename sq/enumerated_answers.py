"""True answers of any query on every candidate, by going through all inputs."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from lower import all_sign_matrices
from sq.hidden_part import HiddenPart
from sq.queries import BoundedQuery, CorrelationalQueries, CorrelationalQuery
from sq.query_checks import require_norms, statistical_means
from sq.target_family import TargetFamily

__all__ = ["EnumeratedAnswers"]

_MOST_BITS = 16
_MOST_CACHED = 1 << 24


class EnumeratedAnswers:
    """The answers on a family's candidates over all 2^(k d) inputs, each equally likely.

    Parameters
    ----------
    family : TargetFamily
        The candidates; labels are K + scale f w^T by the family's definition.

    Raises
    ------
    ValueError
        If k d is above 16.

    Notes
    -----
    O(N k 2^(k d)) for a correlational query; as many evaluations of the query as there are candidates in question
    otherwise.
    """

    def __init__(self, family: TargetFamily) -> None:
        k, d = family.tokens, family.dim
        if k * d > _MOST_BITS:
            raise ValueError(
                f"The inputs have {k} x {d} = {k * d} entries: queries that are plain functions are answered by going "
                f"through all inputs, for at most {_MOST_BITS} entries. Ask a GroupQuery, or take an honest oracle."
            )
        self._family = family
        self.x = all_sign_matrices(k, d)

    @cached_property
    def part(self) -> HiddenPart:
        """What all targets of the family share."""
        return HiddenPart.of(self._family.instance(0))

    @cached_property
    def _table(self) -> np.ndarray | None:
        size = self._family.secrets.size
        if size * self.x.shape[0] * self.x.shape[1] > _MOST_CACHED:
            return None
        return np.stack([self._family.hidden(number, self.x) for number in range(size)])

    def hidden(self, number: int) -> Float[np.ndarray, "n k"]:
        """The hidden part of one candidate on all inputs."""
        return self._family.hidden(number, self.x) if self._table is None else self._table[number]

    def correlational(
        self, query: CorrelationalQuery | CorrelationalQueries, numbers: Int[np.ndarray, " s"]
    ) -> Float[np.ndarray, "s q"]:
        """E sum_a h(X)_a f_T(X)_a for each function h of the query on the candidates `numbers`.

        Raises
        ------
        ValueError
            If a function has norm above 1.
        """
        h = np.asarray(query(self.x), dtype=np.float64)
        h = require_norms(h, self.x, name=query.name, sampled=False).reshape(self.x[..., 0].size, -1)
        answers = [self.hidden(int(number)).ravel() @ h for number in numbers]
        return np.array(answers).reshape(len(numbers), -1) / len(self.x)

    def statistical(
        self, queries: Sequence[BoundedQuery], numbers: Int[np.ndarray, " s"]
    ) -> Float[np.ndarray, "s q"]:
        """E q(X, F_T(X)) for each query on the candidates `numbers`.

        Raises
        ------
        ValueError
            If a value leaves its declared range.
        """
        answers = [
            statistical_means(queries, self.x, self.part.labels(self.x, self.hidden(int(number))))
            for number in numbers
        ]
        return np.array(answers).reshape(len(numbers), len(queries))

    def reference(self, queries: Sequence[BoundedQuery]) -> Float[np.ndarray, " q"]:
        """The answers where the hidden part of target 0 has a sign drawn anew for each input.

        For parities, whose |f_S| is the same for all S, no target is nearer to these labels than another: on the
        gate the sign is uniform.
        """
        both = [self.part.labels(self.x, sign * self.hidden(0)) for sign in (1.0, -1.0)]
        return np.mean([statistical_means(queries, self.x, y) for y in both], axis=0)
