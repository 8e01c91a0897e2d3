"""Why a layer with rotary positions is not read."""

from enum import Enum


class Refusal(Enum):
    """Why there is no layer; the details of a fit that ends without one."""

    NO_POSITIONS = "Tokens that change places change nothing: there are no positions; take ByQueries."
    MANY_HEADS = "There are too many heads: fewer than half the coordinates can be read."
    NO_PENCIL = "Heads are not told apart: their projections are dependent, or their weights are saturated."
    PROJECTIONS = "The projections do not fit their answers: the function is no layer with rotary positions."
    SATURATED = "Weights of movable tokens are not read: some are too small, or a projection has rank one."
    FREQUENCIES = "The frequencies of the layer are not the given ones: leave them out, and they are found."

    @property
    def explanation(self) -> str:
        """The sentence, for a `Fit` whose details this is."""
        return str(self.value)
