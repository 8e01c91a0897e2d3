"""The candidates of a family that are consistent with all replies, kept without a table of the whole family."""

import numpy as np
from jaxtyping import Int

from sq.group_answers import Answers
from sq.models import QueryModel

__all__ = ["Candidates"]

_MOST = 1_000_000_000


class Candidates:
    """The numbers 0, ..., N - 1 of the candidates not yet ruled out.

    Parameters
    ----------
    size : int
        N.
    model : QueryModel
        Which replies are valid.

    Raises
    ------
    ValueError
        If there are more than a billion.

    Notes
    -----
    N bytes. A reply takes O(s) for a query that lists s candidates as long as it leaves the others in.

    Examples
    --------
    >>> import numpy as np
    >>> from sq.group_answers import Answers
    >>> from sq.models import CSQ
    >>> left = Candidates(5, CSQ(0.5))
    >>> left.update(Answers(np.array([1, 2]), np.array([0.6, -0.6])), 0.0)
    2
    >>> left.numbers.tolist(), len(left)
    ([0, 3, 4], 3)
    """

    def __init__(self, size: int, model: QueryModel) -> None:
        if size > _MOST:
            raise ValueError(
                f"There are {size} candidates: at most {_MOST} are kept track of; take fewer bits or coordinates."
            )
        self._model = model
        self._left = np.ones(size, dtype=bool)
        self._count = size
        self._start = 0  # none is left below

    def __len__(self) -> int:
        return self._count

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

    def holds(self, number: int) -> bool:
        """Whether a candidate is left."""
        return bool(self._left[number])

    def answers_left(self, answers: Answers) -> tuple[np.ndarray, np.ndarray, int]:
        """The listed candidates that are left, their answers, and how many others are left."""
        if answers.numbers is None:
            numbers = self.numbers
            return numbers, answers.values[numbers], 0
        left = self._left[answers.numbers]
        numbers, values = answers.numbers[left], answers.values[left]
        return numbers, values, self._count - len(numbers)

    def update(self, answers: Answers, reply: float) -> int:
        """Rule out every candidate for which the reply is not valid; how many that were."""
        before = self._count
        numbers, values, others = self.answers_left(answers)
        allowed = answers.allowed(self._model, values, reply)
        stay = others == 0 or bool(answers.allowed(self._model, np.array([answers.others]), reply)[0])
        if stay:
            out = numbers[~allowed]
            self._left[out] = False
            self._count -= len(out)
        else:
            kept = numbers[allowed]
            self._left[self._start :] = False
            self._left[kept] = True
            self._count = len(kept)
        return before - self._count
