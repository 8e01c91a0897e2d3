"""Learning from value queries, F(X) at an X of one's choice: the access model in which hardness disappears."""

from upper.value_queries.learner import ByQueries

__all__ = ["ByQueries"]
