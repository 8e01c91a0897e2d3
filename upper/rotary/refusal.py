"""Why a layer with rotary positions is not read."""

from enum import Enum


class Refusal(Enum):
    """Why there is no layer; the details of a fit that ends without one."""

    NO_POSITIONS = "Equal tokens get the same weights at all distances: no position shows; take ByQueries."
    MANY_HEADS = "There are more heads than two movable tokens can show: at most 0.45 times the coordinates."
    NO_PENCIL = "Heads are not told apart at any token that was tried: two are equal, or weights are saturated."
    PROJECTIONS = "The projections do not fit their answers: the function is no layer with rotary positions."
    SATURATED = "Weights of movable tokens are too small to be read, however short the tokens are."
    MANY_COORDINATES = "Queries and keys show no limited rank: the scores are no products of queries and keys."
    FREQUENCIES = "The frequencies of the layer are not the given ones: leave them out, and they are found."

    @property
    def explanation(self) -> str:
        """The sentence, for a `Fit` whose details this is."""
        return str(self.value)
