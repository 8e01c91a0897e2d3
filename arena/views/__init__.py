"""Views of results: the table in the terminal, figures, and pages. Views import results, never the other way round."""
