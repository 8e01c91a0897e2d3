"""Mutation testing: change one operator, comparison or number of the code, and run the tests that reach it.

It needs a system that forks and two packages: ``pip install cosmic-ray coverage``, then
``python -m benchmarks.mutants``. The project is copied and the copy is changed. A run that was stopped goes on, if
``--folder`` is the same.
"""

import argparse
import ast
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

TESTS = {
    "attention": ["attention", "tests/attention"],
    "upper/six_phase": ["upper/six_phase", "tests/upper/six_phase"],
    "sq": ["sq", "tests/sq"],
    "lwe": ["lwe", "tests/lwe"],
}
SECONDS = 25  # of tests for one mutant at most, the shortest first
PYTEST = ["-o", "addopts=", "--doctest-modules", "--import-mode=importlib", "-q", "-p", "no:cacheprovider"]
# small numbers and short texts are one object each, so that no test tells `is` from `==`
UNUSED = ("_Is", "RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "VariableInserter")


class Contexts:
    """Tells coverage which test runs, and keeps the seconds of each."""

    def __init__(self, measured):
        self.measured, self.seconds = measured, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Note the test and its time."""
        self.measured.switch_context(item.nodeid)
        started = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - started
        self.measured.switch_context("")
        return result


def forked(function, *arguments, seconds=None):
    """The exit status of a function in a process of its own; None if it took longer."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join(seconds)
    status = process.exitcode
    if status is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return status


def enter(copy):
    os.setsid()
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))


def measure(copy, package, out):
    """Write which tests run each line of a package, and how long each test takes."""
    enter(copy)
    measured = coverage.Coverage(source=[str(copy / package)], data_file=None)
    plugin = Contexts(measured)
    measured.start()
    pytest.main([*PYTEST, *TESTS[package]], plugins=[plugin])
    measured.stop()
    data, lines = measured.get_data(), {}
    for file in data.measured_files():
        contexts = data.contexts_by_lineno(file)
        lines[os.path.relpath(file, copy)] = {line: [c for c in of if c] for line, of in contexts.items()}
    out.write_text(json.dumps({"seconds": plugin.seconds, "lines": lines}))


def run_tests(copy, tests, log):
    enter(copy)
    sys.dont_write_bytecode = True
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os._exit(pytest.main([*PYTEST, "-x", "--hypothesis-seed=0", *tests]))


def places(copy, file):
    """Where the functions of a file can be changed: the statement's lines, and the operators with their occurrences.

    Annotations, decorators, defaults, error texts and how things print are left as they are.
    """
    code = (copy / file).read_text()
    tree, nodes, found, skipped = ast.parse(code), list(ast_nodes(get_ast(code))), defaultdict(list), []
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        parts += [getattr(node, "args", None)] if isinstance(node, ast.FunctionDef) else []
        parts += getattr(node, "decorator_list", [])
        if isinstance(node, ast.Raise | ast.JoinedStr) or getattr(node, "name", "") in (
            "__repr__",
            "__str__",
        ):
            parts.append(node)
        for part in parts:
            inner = ast.walk(part) if isinstance(part, ast.arguments) else [part]
            skipped += [one for one in inner if hasattr(one, "lineno")]
    inside = [one for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for one in node.body]
    statements = [one for top in inside for one in ast.walk(top) if isinstance(one, ast.stmt)]
    for name in sorted(operator_names()):
        operator, occurrence = get_operator(name), 0
        for node in nodes if not any(one in name for one in UNUSED) else ():
            for start, _ in operator().mutation_positions(node):
                if not any(_holds(one, start) for one in skipped):
                    around = [one for one in statements if _holds(one, start)]
                    if around:
                        found[
                            start, _lines(max(around, key=lambda one: (one.lineno, one.col_offset)))
                        ].append((name, occurrence))
                occurrence += 1
    return [(file, where, lines, changes) for (where, lines), changes in sorted(found.items())]


def _holds(node, place):
    return (node.lineno, node.col_offset) <= tuple(place) < (node.end_lineno, node.end_col_offset)


def _lines(statement):
    body = getattr(statement, "body", None)
    return statement.lineno, max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--each", type=int, default=65, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--folder", type=Path, default=Path("build/mutants"), help="where it works")
    given = parser.parse_args()
    folder = given.folder.resolve()
    copy, results = folder / "copy", folder / "results.jsonl"
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    if not copy.exists():
        for file in filter(os.path.isfile, files):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy / file)
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for package in TESTS:
        reached = folder / f"{package.replace('/', '-')}.json"
        if not reached.exists():
            forked(measure, copy, package, reached)
        known = json.loads(reached.read_text())
        mine = [f for f in files if f.startswith(f"{package}/") and f.endswith(".py")]
        all_places = [place for file in mine for place in places(copy, file)]
        draw = random.Random(f"{given.seed} {package}")
        for file, where, (first, last), changes in draw.sample(all_places, given.each):
            operator, occurrence = draw.choice(changes)
            key = {"file": file, "where": list(where), "operator": operator, "occurrence": occurrence}
            if any(one["mutant"] == key for one in done):
                continue
            lines = known["lines"].get(file, {})
            tests = {test for line in range(first, last + 1) for test in lines.get(str(line), [])}
            chosen, total = [], 0.0
            for test in sorted(tests, key=known["seconds"].__getitem__):
                total += known["seconds"][test]
                if chosen and total > SECONDS:
                    break
                chosen.append(test)
            kept, original = (copy / file).stat(), (copy / file).read_text()
            mutated = mutate_code(original, get_operator(operator)(), occurrence)
            started = time.monotonic()
            try:
                (copy / file).write_text(mutated)
                status = (
                    forked(run_tests, copy, chosen, folder / "log", seconds=60 + 3 * total) if tests else 0
                )
            finally:
                (copy / file).write_text(original)
                os.utime(copy / file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
            outcome = {0: "survived" if tests else "not reached", 1: "caught", None: "timed out"}.get(
                status, "caught"
            )
            changed = [
                (a.strip(), b.strip())
                for a, b in zip(original.split("\n"), mutated.split("\n"), strict=False)
                if a != b
            ]
            took = round(time.monotonic() - started, 1)
            one = {
                "package": package,
                "mutant": key,
                "outcome": outcome,
                "status": status,
                "change": changed[:1],
            }
            one |= {"tests": len(chosen), "of": len(tests), "seconds": took}
            done.append(one)
            with results.open("a") as out:
                out.write(json.dumps(one) + "\n")
            print(
                f"{outcome:12} {took:6} s {len(chosen)}/{len(tests)} {file}:{where[0]} {changed[:1]}",
                flush=True,
            )
    for package in TESTS:
        print(package, dict(Counter(one["outcome"] for one in done if one["package"] == package)))


if __name__ == "__main__":
    main()
