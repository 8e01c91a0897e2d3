"""The true answers to a query on every candidate of a family, and the candidates that replies leave."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attention import BooleanInputs
from lower import HardInstance, all_sign_matrices
from sq.family import TargetFamily
from sq.labels import labels_of_hidden
from sq.models import QueryModel
from sq.queries import GroupQuery, norm_above_one, require_norm, statistical_mean

_MOST_BITS = 16
_MOST_CACHED = 1 << 24
_MOST_CANDIDATES = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Answers:
    """The true answer to one query on every candidate."""

    numbers: Int[np.ndarray, " s"]  #: the candidates listed, distinct
    values: Float[np.ndarray, " s"]  #: their answers
    others: float = 0.0  #: the answer on every candidate that is not listed
    #: s if the listed answers are exactly 1/sqrt(s) or -1/sqrt(s), up to float64, and the others 0; None otherwise
    group: int | None = None

    def on(self, number: int) -> float:
        """The answer on one candidate."""
        listed = self.values[self.numbers == number]
        return float(listed[0]) if len(listed) else self.others


class TrueAnswers:
    """The true answer of each candidate of a family: in closed form for groups, over all 2^(k d) inputs otherwise.

    Notes
    -----
    A group query takes O(s) for orthonormal hidden parts, O(s N) otherwise; the N x N Gram matrix is never formed. If
    rounding makes a norm larger than 1, the query is divided by it, so it rules out no more than a query of norm 1. A
    correlational function takes O(N k 2^(k d)). A statistical query takes one evaluation per candidate in question. k d
    is 16 at most.
    """

    def __init__(self, family: TargetFamily) -> None:
        self._family, self._size = family, family.secrets.size
        self._orthonormal = family.orthonormal

    def to_group(self, query: GroupQuery) -> Answers:
        """E sum_a h(X)_a f_T(X)_a for every T; a target that does not exist and a norm above 1 + 1e-9 are refused."""
        largest = query.numbers.max()
        if largest >= self._size:
            raise ValueError(f"The {query.name} names target {largest}: there are {self._size}, from 0 on.")
        if self._orthonormal:
            size = len(query.weights)
            even = np.count_nonzero(np.abs(query.weights) == 1 / math.sqrt(size)) == size
            values = query.weights / norm_above_one(query.weights @ query.weights, name=f"The {query.name}")
            return Answers(query.numbers, values, group=size if even else None)
        values = np.zeros(self._size)
        for number, weight in zip(query.numbers, query.weights, strict=True):
            values += weight * self._family.correlations(int(number))
        square = float(query.weights @ values[query.numbers])
        values /= norm_above_one(square, name=f"The {query.name}")
        return Answers(np.arange(self._size), values)

    def to_correlational(self, query: Any, numbers: Int[np.ndarray, " s"]) -> Answers:
        """E sum_a h(X)_a f_T(X)_a on the candidates `numbers`."""
        h = query(self.x)
        h = h / require_norm(h, name=query.name, sampled=False)
        values = [self._hidden(int(number)).ravel() @ h.ravel() / len(self.x) for number in numbers]
        return Answers(numbers, np.array(values))

    def to_statistical(self, query: Any, numbers: Int[np.ndarray, " s"]) -> Answers:
        """E q(X, F_T(X)) on the candidates `numbers`."""
        return Answers(numbers, np.array([self._mean(query, self._hidden(int(one))) for one in numbers]))

    def reference(self, query: Any) -> float:
        """The answer where the hidden part of target 0 has a sign drawn anew for each input.

        For parities |f_S| is the same for all S, and on the gate the sign is uniform. So all targets are equally near
        to these labels.
        """
        return float(np.mean([self._mean(query, sign * self._hidden(0)) for sign in (1.0, -1.0)]))

    def _mean(self, query: Any, hidden: np.ndarray) -> float:
        return statistical_mean(query, self.x, labels_of_hidden(self.instance, self.x, hidden))

    @cached_property
    def x(self) -> Float[np.ndarray, "n k d"]:
        """All inputs; refused if the family's tokens are no signs, or k d is above 16."""
        inputs = self._family.inputs
        if not isinstance(inputs, BooleanInputs) or inputs.tokens * inputs.dim > _MOST_BITS:
            raise ValueError(
                f"The inputs are {type(inputs).__name__} of {inputs.tokens} x {inputs.dim} entries: queries that are "
                f"plain functions are answered by going through all inputs, for signs in at most {_MOST_BITS} entries. "
                "Ask a GroupQuery, or take an honest oracle."
            )
        return all_sign_matrices(inputs.tokens, inputs.dim)

    @cached_property
    def instance(self) -> HardInstance:
        """One target: what is public about it is the same for all."""
        return self._family.instance(0)

    @cached_property
    def _table(self) -> np.ndarray | None:
        if self._size * self.x[..., 0].size > _MOST_CACHED:
            return None
        return np.stack([self._family.hidden(number, self.x) for number in range(self._size)])

    def _hidden(self, number: int) -> Float[np.ndarray, "n k"]:
        return self._family.hidden(number, self.x) if self._table is None else self._table[number]


class Candidates:
    """The numbers 0, ..., N - 1 of the candidates that no reply has ruled out.

    Parameters
    ----------
    size : int
        N, at most a billion. The candidates take N bytes.
    model : QueryModel
        Which replies are valid.

    Notes
    -----
    A reply to a query that lists s candidates takes O(s), unless it rules out the candidates that are not listed.
    """

    def __init__(self, size: int, model: QueryModel) -> None:
        if size > _MOST_CANDIDATES:
            raise ValueError(
                f"There are {size} candidates: at most {_MOST_CANDIDATES} are kept track of; take fewer bits or "
                "coordinates."
            )
        self._model = model
        self._left = np.ones(size, dtype=bool)
        self._count = size
        self._start = 0  # all candidates below this number are ruled out

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: int) -> bool:
        return bool(self._left[number])

    @property
    def numbers(self) -> Int[np.ndarray, " left"]:
        """The candidates left, in increasing order."""
        return self._start + np.flatnonzero(self._left[self._start :])

    def first(self, most: int) -> Int[np.ndarray, " some"]:
        """The first `most` of them."""
        width = 2 * most + 16
        while True:
            found = np.flatnonzero(self._left[self._start : self._start + width])
            if len(found) >= most or self._start + width >= len(self._left):
                break
            width *= 4
        start = self._start
        if len(found):
            self._start += int(found[0])
        return start + found[:most]

    def listed(self, answers: Answers) -> tuple[np.ndarray, np.ndarray, int]:
        """The listed candidates that are left, their answers, and how many others are left."""
        left = self._left[answers.numbers]
        numbers, values = answers.numbers[left], answers.values[left]
        return numbers, values, self._count - len(numbers)

    def update(self, answers: Answers, reply: float) -> int:
        """Rule out every candidate for which the reply is not valid; return how many these were."""
        before = self._count
        numbers, values, others = self.listed(answers)
        allowed = self._model.allows(values, reply, answers.group)
        if others == 0 or self._model.allows(np.array([answers.others]), reply, answers.group)[0]:
            out = numbers[~allowed]
            self._left[out] = False
            self._count -= len(out)
        else:
            kept = numbers[allowed]
            self._left[self._start :] = False
            self._left[kept] = True
            self._count = len(kept)
        return before - self._count
