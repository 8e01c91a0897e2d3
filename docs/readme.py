"""Run the commands of README.md: ``python docs/readme.py`` writes their outputs into it, ``--check`` compares.

A block of kind ``console`` holds commands after ``$`` and, below each, what it prints. Blocks marked ``<!-- slow -->``
run only with ``--slow``.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
_BLOCK = re.compile(r"(?P<mark><!-- slow -->\n)?```console\n(?P<body>.*?)```\n", re.DOTALL)
# other machines round differently and run at other speeds; what must agree is everything but the numbers
_NUMBER = re.compile(r"-?\d[\d.,]*(e[-+]?\d+)?")


def main(arguments: list[str] | None = None) -> int:
    """Refresh or check; the exit status is 1 when a block no longer prints what the page says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing, numbers aside")
    parser.add_argument("--slow", action="store_true", help="run the slow blocks too")
    given = parser.parse_args(arguments)
    before = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
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
        lines.append(f"$ {command}\n{done.stdout.rstrip()}\n")
    return f"{found['mark'] or ''}```console\n{''.join(lines)}```\n"


def _lines(text: str) -> list[str]:
    return [" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
