"""Run the code on the pages: ``python docs/blocks.py [PAGES]`` writes what commands print, ``--check`` compares.

The pages are README.md, CONTRIBUTING.md and those of this folder. The blocks of a page run in order, in one namespace
and one folder, which is empty at first, but for a small random model in ``bert`` where a block speaks of it:

* ``python``: run; what it prints is not looked at, an exception is a failure.
* ``>>>`` lines, in a block or as a paragraph: run by doctest.
* ``console``: commands after ``$`` and, below each, what it prints. Other machines round differently and run at other
  speeds: everything but the numbers must agree.
* ``sh``: commands that set up, which are not run.

Blocks are those of Markdown, between fences, and those of reStructuredText, by ``code-block``. A comment before a
block, ``<!-- slow -->`` or ``.. slow``, keeps it for ``--slow``; ``<!-- needs: fpylll -->`` or ``.. needs: fpylll``
leaves it out, with a word about it, where that module is not installed.
"""

import argparse
import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

__all__ = [
    "DATA",
    "ROOT",
    "RUN",
    "Block",
    "Report",
    "differences",
    "find_blocks",
    "main",
    "pages",
    "run_page",
    "search_path",
]

ROOT = Path(__file__).parent.parent
RUN = ("python", "doctest", "console")
"""The kinds that are run; `sh` is not."""
DATA = ("", "text", "none", "mermaid", "toml", "yaml", "json", "bibtex")
"""The kinds that are no code."""

_NOT_OURS = (
    "_build",
    "claims",
    "gallery",
    "studies",
    "tutorials",
)  # made by commands that check them themselves
_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>```+)(?P<kind>[\w+-]*)\s*")
_DIRECTIVE = re.compile(
    r"(?P<indent> *)\.\. (?:code-block|code|sourcecode|(?P<doctest>doctest))::(?P<kind>.*)"
)
_MARK = re.compile(r"\s*(?:<!-- (?P<markdown>.*) -->|\.\. (?P<rst>slow|needs: .*))\s*")
# what must agree is everything but the numbers
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")
_TIME = re.compile(r"<?# ?(ms|s|min)\b")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes
    ----------
    kind : str
        Its language as the page has it; "doctest" for ``>>>`` lines.
    lines : tuple of str
        Its lines, without the indentation that all have.
    start, stop : int
        The lines of the page that it is, from 0 on.
    indent : str
        What stands before each line on the page.
    slow : bool
        Whether it runs with ``--slow`` only.
    needs : tuple of str
        Modules without which it is left out.
    """

    kind: str
    lines: tuple[str, ...]
    start: int
    stop: int
    indent: str = ""
    slow: bool = False
    needs: tuple[str, ...] = ()

    @property
    def commands(self) -> list[str]:
        """What stands after ``$``; a line that ends in a backslash goes on below."""
        return [command for command, _ in self._entries()]

    @property
    def missing(self) -> list[str]:
        """The modules it needs that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def _entries(self) -> list[tuple[str, list[str]]]:
        entries: list[tuple[str, list[str]]] = []
        for line in self.lines:
            if line.startswith("$ "):
                entries.append((line[2:], []))
            elif entries and not entries[-1][1] and entries[-1][0].endswith("\\"):
                entries[-1] = (f"{entries[-1][0]}\n{line}", [])
            elif entries:
                entries[-1][1].append(line)
        return entries


@dataclass
class Report:
    """What running a page gave.

    Attributes
    ----------
    text : str
        The page with what its commands print now.
    broken : str
        Which block broke down, and how; empty if none did.
    differences : list of str
        Where a command prints something else than the page says.
    left_out : list of str
        Blocks that were not run, and why.
    ran : int
        How many blocks were run.
    """

    text: str
    broken: str = ""
    differences: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    ran: int = 0


def pages() -> list[Path]:
    """The pages whose code is run, README.md and CONTRIBUTING.md first."""
    docs = ROOT / "docs"
    found = sorted(path for path in docs.rglob("*.rst") if path.relative_to(docs).parts[0] not in _NOT_OURS)
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def find_blocks(path: Path) -> list[Block]:
    """The blocks of a page, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list((_markdown if path.suffix == ".md" else _restructured)(lines))


def search_path() -> str:
    """Where commands are looked for: those of this environment come first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def run_page(path: Path, *, slow: bool = False) -> Report:
    """Run a page's blocks; the first that breaks down is the last that is run, as others build on it."""
    page = path.read_text(encoding="utf-8")
    lines, report = page.splitlines(), Report(page)
    name = _shown(path)
    replaced: list[tuple[Block, list[str]]] = []
    namespace: dict[str, Any] = {
        "__name__": "page"
    }  # no module: processes of their own get its classes by value
    with tempfile.TemporaryDirectory() as folder:
        blocks = [block for block in find_blocks(path) if block.kind in RUN]
        if any(re.search(r"\bbert\b", line) for block in blocks for line in block.lines):
            _write_checkpoint(Path(folder) / "bert")
        for block in blocks:
            where = f"{name}:{block.start + 1}"
            if block.slow and not slow:
                report.left_out.append(f"{where}: slow")
                continue
            if block.missing:
                report.left_out.append(f"{where}: {' and '.join(block.missing)} is not installed")
                continue
            report.ran += 1
            try:
                if block.kind == "console":
                    new = _run_console(block, folder)
                    report.differences += differences(where, block.lines, new)
                    replaced.append((block, new))
                else:
                    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                        (_run_doctest if block.kind == "doctest" else _run_python)(block, path, namespace)
            except _BlockError as error:
                report.broken = f"{where}: {error}"
                break
    for block, new in reversed(replaced):
        lines[block.start : block.stop] = [(block.indent + line) if line else "" for line in new]
    report.text = "\n".join(lines) + "\n"
    return report


def main(arguments: list[str] | None = None) -> int:
    """Refresh, check or list; the exit status is 1 when a block breaks down or does not print what its page says."""
    parser = argparse.ArgumentParser(
        description="Run the code on the pages, and write what its commands print."
    )
    parser.add_argument("pages", nargs="*", type=Path, help="the pages; by default all of them")
    parser.add_argument("--check", action="store_true", help="compare instead of writing, numbers aside")
    parser.add_argument("--slow", action="store_true", help="run the slow blocks too")
    parser.add_argument("--list", action="store_true", help="only list the blocks")
    given = parser.parse_args(arguments)
    status = 0
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # the code beside the pages, not an installed one
    for path in given.pages or pages():
        if not path.is_file():
            parser.error(f"there is no page {path}")
        if given.list:
            for block in find_blocks(path):
                marks = (" slow" if block.slow else "") + "".join(f" needs {one}" for one in block.needs)
                print(f"{_shown(path)}:{block.start + 1} {block.kind or 'no code'}{marks}")
            continue
        began = time.perf_counter()
        report = run_page(path, slow=given.slow)
        if not (given.check or report.broken) and report.text != path.read_text(encoding="utf-8"):
            path.write_text(report.text, encoding="utf-8")
        wrong = report.differences[:5] if given.check else []
        wrong += [report.broken] if report.broken else []
        for line in [*report.left_out, *wrong]:
            print(line, file=sys.stderr)
        print(f"{_shown(path)}: {report.ran} blocks run in {time.perf_counter() - began:.0f} s.")
        status = max(status, int(bool(wrong)))
    return status


class _BlockError(Exception):
    """A block broke down."""


def _markdown(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        opened = _FENCE.fullmatch(lines[at])
        if not opened:
            at += 1
            continue
        stop = at + 1
        while stop < len(lines) and lines[stop].strip() != opened["ticks"]:
            stop += 1
        yield _block(lines, at, at + 1, stop, opened["kind"], len(opened["indent"]))
        at = stop + 1


def _restructured(lines: Sequence[str]) -> Iterator[Block]:
    at = 0
    while at < len(lines):
        opened = _DIRECTIVE.fullmatch(lines[at].rstrip())
        if opened:
            start = at + 1
            while start < len(lines) and re.match(r"\s+:\S", lines[start]):  # options
                start += 1
            stop = start
            while stop < len(lines) and (
                not lines[stop].strip() or _depth(lines[stop]) > len(opened["indent"])
            ):
                stop += 1
            while start < stop and not lines[start].strip():
                start += 1
            while stop > start and not lines[stop - 1].strip():
                stop -= 1
            if start < stop:
                kind = "doctest" if opened["doctest"] else opened["kind"].strip()
                yield _block(lines, at, start, stop, kind, _depth(lines[start]))
            at = max(stop, at + 1)
        elif lines[at].lstrip().startswith(">>> "):
            stop = at
            while stop < len(lines) and lines[stop].strip():
                stop += 1
            yield _block(lines, at, at, stop, "doctest", _depth(lines[at]))
            at = stop
        else:
            at += 1


def _block(lines: Sequence[str], opened: int, start: int, stop: int, kind: str, depth: int) -> Block:
    body = tuple(line[depth:] for line in lines[start:stop])
    if kind == "python" and body and body[0].startswith(">>> "):
        kind = "doctest"
    slow, needs, above = False, [], opened - 1
    while above >= 0 and (not lines[above].strip() or (mark := _MARK.fullmatch(lines[above]))):
        if lines[above].strip():
            said = mark["markdown"] or mark["rst"]
            slow |= said == "slow"
            needs += said.removeprefix("needs:").split() if said.startswith("needs:") else []
        above -= 1
    return Block(kind, body, start, stop, " " * depth, slow, tuple(needs))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _run_python(block: Block, path: Path, namespace: dict[str, Any]) -> None:
    # as many empty lines before it as the page has, so that a traceback names the page's own lines
    source = "\n" * block.start + "\n".join(block.lines) + "\n"
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), namespace)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = [frame.lineno for frame in frames if frame.filename == str(path) and frame.lineno]
        told = f"line {at[0]}, {block.lines[at[0] - block.start - 1].strip()!r}: " if at else ""
        raise _BlockError(f"{told}{type(error).__name__}: {error}") from error


def _run_doctest(block: Block, path: Path, namespace: dict[str, Any]) -> None:
    source = "\n".join(block.lines) + "\n"
    test = doctest.DocTestParser().get_doctest(source, namespace, path.name, str(path), block.start)
    runner, said = doctest.DocTestRunner(verbose=False, optionflags=_FLAGS), io.StringIO()
    runner.run(test, out=said.write, clear_globs=False)
    namespace.update(test.globs)
    if runner.failures:
        raise _BlockError("\n" + said.getvalue())


def _run_console(block: Block, folder: str) -> list[str]:
    # one thread: a search that ends in one of many minima ends in the same one whatever the machine's cores
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ours = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )  # the code beside the page
    environment = {**os.environ, **threads, "PATH": search_path(), "PYTHONPATH": ours}
    shown: list[str] = []
    for command in block.commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise _BlockError(
                f"{command!r} ended with status {done.returncode}: {done.stderr.strip()[-2000:]}"
            )
        printed = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        shown += [*f"$ {command}".splitlines(), *printed]
    return shown


def differences(where: str, before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Where what a page says and what a command prints part, numbers and spaces aside; nothing if nowhere."""
    old, new = ([_masked(line) for line in lines] for lines in (before, after))
    for at, (said, printed) in enumerate(zip_longest(old, new)):
        if said != printed:
            page = "the page ends" if said is None else f"the page says {before[at]!r}"
            command = "the command ends" if printed is None else f"the command prints {after[at]!r}"
            return [f"{where}: at line {at + 1} of the block {page}, {command}."]
    return []


def _masked(line: str) -> str:
    return " ".join(_TIME.sub("#", _NUMBER.sub("#", line)).split())


def _shown(path: Path) -> str:
    return str(path.resolve().relative_to(ROOT)) if path.resolve().is_relative_to(ROOT) else str(path)


def _write_checkpoint(folder: Path, *, layers: int = 2, dim: int = 32, heads: int = 4) -> None:
    """A random model with the names of BERT, as the pages say it is."""
    import numpy as np
    import safetensors.numpy

    rng, tensors = np.random.default_rng(0), {}
    names = ("self.query", "self.key", "self.value", "output.dense")
    for name in (f"bert.encoder.layer.{n}.attention.{part}" for n in range(layers) for part in names):
        tensors[f"{name}.weight"] = rng.standard_normal((dim, dim), dtype=np.float32) / np.float32(dim) ** 0.5
        tensors[f"{name}.bias"] = 0.02 * rng.standard_normal(dim, dtype=np.float32)
    folder.mkdir()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": dim, "num_attention_heads": heads}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
