"""Mutation testing: change one operator, comparison or number of the code, and run the tests that reach it.

It needs a system that forks and two packages: ``pip install cosmic-ray coverage``, then
``python .ci/mutants.py``. The project is copied and the copy is changed. A stopped run continues if
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

PACKAGES = ("attention", "runs", "upper", "lower", "sq", "lwe", "paper_checks", "studies", "arena")
SECONDS = 25  # of tests for one mutant at most; the shortest tests run first
PYTEST = ["-o", "addopts=", "--doctest-modules", "--import-mode=importlib", "-q", "-p", "no:cacheprovider"]
# equal small numbers and short texts are the same object, so no test can distinguish `is` from `==`
UNUSED = ("_Is", "RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "VariableInserter")


class Contexts:
    """Tell coverage which test runs, and record the seconds of each test."""

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


def measure(copy, package, out):
    """Write which tests run each line of a package, and how long each test takes; runs in a separate process."""
    os.chdir(copy)
    os.environ["PYTHONPATH"] = str(copy)
    sys.path.insert(0, str(copy))
    measured = coverage.Coverage(source=[str(copy / package)], data_file=None)
    plugin = Contexts(measured)
    measured.start()
    pytest.main([*PYTEST, package, f"tests/{package}"], plugins=[plugin])
    measured.stop()
    data, lines = measured.get_data(), {}
    for file in data.measured_files():
        lines[os.path.relpath(file, copy)] = data.contexts_by_lineno(file)
    out.write_text(json.dumps({"seconds": plugin.seconds, "lines": lines}))


def places(code):
    """The possible changes in functions: place, lines of the statement, operators and their occurrences.

    Annotations, decorators, defaults, error texts and the printing of objects are not changed.
    """

    def holds(node, place):
        return (node.lineno, node.col_offset) <= tuple(place) < (node.end_lineno, node.end_col_offset)

    tree, found, skipped, statements = ast.parse(code), defaultdict(list), [], []
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), *getattr(node, "decorator_list", [])]
        if isinstance(node, ast.FunctionDef):
            parts += [node.returns, *ast.walk(node.args)]
            statements += [one for part in node.body for one in ast.walk(part) if isinstance(one, ast.stmt)]
        if isinstance(node, ast.Raise | ast.JoinedStr) or getattr(node, "name", "") in (
            "__repr__",
            "__str__",
        ):
            parts.append(node)
        skipped += [one for one in parts if hasattr(one, "lineno")]
    nodes = list(ast_nodes(get_ast(code)))
    for name in sorted(one for one in operator_names() if not any(part in one for part in UNUSED)):
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            around = [one for one in statements if holds(one, start)]
            if around and not any(holds(one, start) for one in skipped):
                inner = max(around, key=lambda one: (one.lineno, one.col_offset))
                body = getattr(inner, "body", None)
                last = max(inner.lineno, body[0].lineno - 1) if body else inner.end_lineno
                found[start, (inner.lineno, last)].append((name, occurrence))
    return sorted(found.items())


def try_mutant(copy, file, change, tests, seconds, log):
    """The outcome of the tests on a change, and the first line that it changes."""
    path, original = copy / file, (copy / file).read_text()
    kept, mutated = path.stat(), mutate_code(original, get_operator(change[0])(), change[1])
    command = [sys.executable, "-m", "pytest", *PYTEST, "-x", "--hypothesis-seed=0", *tests]
    env = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        path.write_text(mutated)
        with open(log, "w") as out:
            process = subprocess.Popen(command, cwd=copy, env=env, stdout=out, start_new_session=True)
        outcome = "survived" if process.wait(60 + 3 * seconds) == 0 else "caught"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        outcome = "timed out"
    finally:
        path.write_text(original)
        os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    lines = zip(original.split("\n"), mutated.split("\n"), strict=False)
    return outcome, next((f"{a.strip()}  =>  {b.strip()}" for a, b in lines if a != b), "")


def main():
    """Sample mutants, run the tests that reach them, and print what no test notices."""
    parser = argparse.ArgumentParser(prog="python .ci/mutants.py", description=__doc__)
    parser.add_argument("--each", type=int, default=65, help="mutants of each package")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="folders, upper/newton for example")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--folder", type=Path, default=Path("build/mutants"), help="where it works")
    given = parser.parse_args()
    folder = given.folder.resolve()
    copy, results = folder / "copy", folder / "results.json"
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for file in [one for one in files if os.path.isfile(one)] if not copy.exists() else []:
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy / file)
    done = json.loads(results.read_text()) if results.exists() else {}
    for package in given.packages:
        reached = folder / f"{package.replace('/', '-')}.json"
        if not reached.exists():
            process = multiprocessing.get_context("fork").Process(
                target=measure, args=(copy, package, reached)
            )
            process.start()
            process.join()
        known, draw = json.loads(reached.read_text()), random.Random(f"{given.seed} {package}")
        mine = [one for one in files if one.startswith(f"{package}/") and one.endswith(".py")]
        found = [(file, *place) for file in mine for place in places((copy / file).read_text())]
        for file, ((row, column), (first, last)), changes in draw.sample(found, given.each):
            change, lines = draw.choice(changes), known["lines"].get(file, {})
            tests = {one for line in range(first, last + 1) for one in lines.get(str(line), []) if one}
            chosen, seconds = [], 0.0
            for test in sorted(tests, key=known["seconds"].__getitem__):
                seconds += known["seconds"][test]
                chosen += [test] if not chosen or seconds <= SECONDS else []
            name = f"{file}:{row}:{column} {change[0]}"
            if chosen and name not in done:
                done[name] = try_mutant(copy, file, change, chosen, min(seconds, SECONDS), folder / "log")
                results.write_text(json.dumps(done, indent=1))
                print(f"{done[name][0]:11} {file}:{row}  {done[name][1]}", flush=True)
    for package in given.packages:
        print(package, dict(Counter(one[0] for name, one in done.items() if name.startswith(f"{package}/"))))


if __name__ == "__main__":
    main()
