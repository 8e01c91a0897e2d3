"""Run the code on the pages: ``python docs/pages.py [PAGES]`` writes what their commands print.

The pages are README.md, CONTRIBUTING.md and the pages of this folder that people write. Sybil finds the blocks of a
page and runs them in order, in one namespace and one folder:

* ``python``: an exception is a failure; ``>>>`` lines are run by doctest.
* ``console``: commands after ``$`` and, below each, what it prints. Machines round differently and differ in speed:
  everything but the numbers must agree.
* ``sh``: commands that install or take long. They are not run.

``skip: next if(not slow, reason="takes minutes")`` in a comment before a block leaves it out. The names `slow`,
`refresh` and `missing("module")` can be used there. The folder is empty, but for a small random model in ``bert``.
"""

import argparse
import contextlib
import difflib
import doctest
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import SkipTest

__all__ = ["ROOT", "difference", "main", "pages", "parse_page", "run_console", "run_page"]

ROOT = Path(__file__).parent.parent
_MADE = (
    "_build",
    "_templates",
    "api",
    "claims",
    "gallery",
    "studies",
    "tutorials",
)  # by commands that check them themselves
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")
_TIME = re.compile(r"<?# ?(ms|s|min)\b")


def pages() -> list[Path]:
    """The pages whose code is run, README.md and CONTRIBUTING.md first."""
    docs = ROOT / "docs"
    found = sorted(path for path in docs.rglob("*.rst") if path.relative_to(docs).parts[0] not in _MADE)
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def parse_page(path: Path, console: Callable[[Any], str | None]) -> Any:
    """The page as Sybil's document; `console` evaluates its console blocks."""
    from sybil import Sybil
    from sybil.parsers import markdown, rest
    from sybil.parsers.abstract.codeblock import PythonDocTestOrCodeBlockParser

    language = markdown if path.suffix == ".md" else rest

    class Python(PythonDocTestOrCodeBlockParser):
        codeblock_parser_class = language.CodeBlockParser

    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    parsers = [
        Python(doctest_optionflags=flags),
        language.CodeBlockParser("console", console),
        language.SkipParser(),
    ]
    return Sybil(parsers).parse(path)


def run_page(path: Path, *, slow: bool = False, refresh: bool = False) -> str:
    """Run a page's blocks in a folder of their own, and return its text.

    Parameters
    ----------
    path : Path
        The page.
    slow : bool
        Whether blocks that take minutes are run.
    refresh : bool
        Whether the text returned holds what commands print now; otherwise a difference is an error.

    Raises
    ------
    sybil.example.SybilFailure
        If a block prints something else than the page says.
    """
    text = path.read_text(encoding="utf-8")

    def console(example: Any) -> str | None:
        nonlocal text
        printed = run_console(example.parsed)
        if not refresh:
            return difference(example.parsed, printed)
        raw = example.document.text[example.start : example.end]
        margin = re.search(r"^( *)\$ ", raw, re.MULTILINE)[1]
        old, new = (
            "".join(f"{margin}{line}".rstrip() + "\n" for line in block.rstrip().splitlines())
            for block in (example.parsed, printed)
        )
        text = text.replace(old, new, 1)
        return None

    document = parse_page(path, console)
    document.namespace.update(
        __name__="page",  # no module: processes of their own get its classes by value
        slow=slow or refresh,
        refresh=refresh,
        missing=lambda name: importlib.util.find_spec(name) is None,
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _write_checkpoint(Path("bert"))
        for example in document.examples():
            with contextlib.suppress(SkipTest), contextlib.redirect_stdout(io.StringIO()):
                example.evaluate()
    return text


def run_console(block: str) -> str:
    """Each command of a console block, and below it what it prints now.

    Raises
    ------
    AssertionError
        If a command fails.
    """
    # one thread: a search that ends in one of many minima ends in the same one whatever the machine's cores
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = {  # this environment's commands, and the code beside the pages
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    shown = []
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE):
        done = subprocess.run(
            command, shell=True, env=os.environ | threads | paths, capture_output=True, text=True, check=False
        )
        assert not done.returncode, f"{command}: status {done.returncode}: {done.stderr.strip()[-2000:]}"
        shown += [f"$ {command}", *(line.rstrip() for line in done.stdout.rstrip().splitlines())]
    return "\n".join(shown)


def difference(said: str, printed: str) -> str | None:
    """Where a page and a command differ, numbers and spaces aside; None if nowhere.

    Rounding, which machines do differently, decides whether a fit ends exact or at the precision floor.
    """

    def compared(text: str) -> list[str]:
        plain = _TIME.sub("#", _NUMBER.sub("#", text.rstrip())).replace("precision floor", "exact")
        return [" ".join(line.split()) for line in plain.splitlines()]

    old, new = compared(said), compared(printed)
    return "\n".join(difflib.unified_diff(old, new, "the page", "the command", lineterm="", n=1)) or None


def main() -> None:
    """Write what the commands of the pages print now."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="the pages; by default all of them")
    sys.path.insert(0, str(ROOT))  # the code beside the pages, not an installed one
    for path in parser.parse_args().pages or pages():
        path.write_text(run_page(path.resolve(), refresh=True), encoding="utf-8")


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
    main()
