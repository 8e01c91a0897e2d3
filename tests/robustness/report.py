"""Counts of the cases of all robustness tests, gathered from every process and printed at the end of the session."""

from collections import Counter

import pytest

__all__ = ["COUNTS", "CountsPlugin"]

COUNTS: pytest.StashKey[dict[str, Counter]] = pytest.StashKey()


class CountsPlugin:
    """Sums up what processes counted; registered once a process."""

    def pytest_configure(self, config):
        config.stash[COUNTS] = {}

    def pytest_sessionfinish(self, session):
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["robustness"] = {
                name: dict(counts) for name, counts in session.config.stash[COUNTS].items()
            }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        for name, counts in getattr(node, "workeroutput", {}).get("robustness", {}).items():
            node.config.stash[COUNTS].setdefault(name, Counter()).update(counts)

    def pytest_terminal_summary(self, terminalreporter, config):
        tried = config.stash[COUNTS]
        if not tried:
            return
        total = sum(tried.values(), Counter())

        def number(of: int) -> str:
            return f"{of:,}".replace(",", " ")

        terminalreporter.write_line(
            f"robustness: {number(len(tried))} constructors and functions, {number(total.total())} cases: "
            f"{number(total['answer'])} right answers, {number(total['refusal'])} refusals in a sentence, "
            f"{number(total['violation'])} violations"
        )
