"""Run the commands of README.md: ``python docs/readme.py`` writes their outputs into it, ``--check`` compares.

A block of kind ``console`` holds commands after ``$`` and, below each, what it prints. Blocks marked ``<!-- slow -->``
run only with ``--slow``.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import safetensors.numpy

__all__ = ["README", "main"]

README = Path(__file__).parent.parent / "README.md"
_BLOCK = re.compile(r"(?P<mark><!-- slow -->\n)?```console\n(?P<body>.*?)```\n", re.DOTALL)
# other machines round differently and run at other speeds; what must agree is everything but the numbers
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")
_TIME = re.compile(r"<?# ?(ms|s|min)\b")


def main(arguments: list[str] | None = None) -> int:
    """Refresh or check; the exit status is 1 when a block no longer prints what the page says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing, numbers aside")
    parser.add_argument("--slow", action="store_true", help="run the slow blocks too")
    given = parser.parse_args(arguments)
    before = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        _write_checkpoint(Path(folder) / "bert")
        after = _BLOCK.sub(lambda found: _rerun(found, Path(folder), slow=given.slow), before)
    if not given.check:
        README.write_text(after, encoding="utf-8")
        return 0
    differing = [pair for pair in zip(_lines(before), _lines(after), strict=False) if pair[0] != pair[1]]
    for old, new in differing[:5]:
        print(f"README.md says {old!r}, the command prints {new!r}.", file=sys.stderr)
    return 1 if differing or len(_lines(before)) != len(_lines(after)) else 0


def _rerun(found: re.Match[str], folder: Path, *, slow: bool) -> str:
    if found["mark"] and not slow:
        return found[0]
    lines = []
    for command in re.findall(r"^\$ (.*)$", found["body"], re.MULTILINE):
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True)
        lines += [f"$ {command}", *done.stdout.rstrip().splitlines()]
    return "\n".join([f"{found['mark'] or ''}```console", *lines, "```\n"])


def _write_checkpoint(folder: Path, *, layers: int = 2, dim: int = 32, heads: int = 4) -> None:
    """A random model with the names of BERT, as the page says it is."""
    rng, tensors = np.random.default_rng(0), {}
    names = ("self.query", "self.key", "self.value", "output.dense")
    for name in (f"bert.encoder.layer.{n}.attention.{part}" for n in range(layers) for part in names):
        tensors[f"{name}.weight"] = rng.standard_normal((dim, dim), dtype=np.float32) / np.float32(dim) ** 0.5
        tensors[f"{name}.bias"] = 0.02 * rng.standard_normal(dim, dtype=np.float32)
    folder.mkdir()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "bert", "hidden_size": dim, "num_attention_heads": heads}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _lines(text: str) -> list[str]:
    return [" ".join(_TIME.sub("#", _NUMBER.sub("#", line)).split()) for line in text.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
