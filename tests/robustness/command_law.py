"""What the command line owes: an answer, or one sentence and a status of 1 or 2; and no file touched but its own."""

import contextlib
import hashlib
import inspect
import io
import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

from command_calls import COMMANDS, calls
from command_files import put_files
from fuzzing.fence import TookTooLong, fence
from hypothesis import HealthCheck, Phase, given, settings

from arena.cli.main import run

SECONDS = 6.0  # of CPU, for one command
MESSAGE = 2000  # characters that a message may have


def _contents(folder: Path) -> dict[str, str]:
    """What lies in a folder: a hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "-"
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.is_dir()
    }


def complaint_of(words: list[str], written: list[str], folder: Path) -> tuple[str, str]:
    """Run one command in a folder: whether it answered or refused, and what is wrong with that."""
    here, above = _contents(folder), sorted(folder.parent.iterdir())
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    status: int | None = None
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            fence(SECONDS),
        ):
            status = run(words)
    except TookTooLong:
        return "", f"it took more than {SECONDS:g} seconds"
    except BaseException as error:
        where = [
            frame for frame in inspect.getinnerframes(error.__traceback__) if "/arena/" in frame.filename
        ]
        place = f" [{where[-1].filename.rpartition('/arena/')[2]}:{where[-1].lineno}]" if where else ""
        return "", f"it raised {type(error).__name__}: {str(error)[:300]}{place}"
    told, said = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    if status not in (0, 1, 2):
        return "", f"its exit status is {status!r}"
    if status == 0 and said:
        return "", f"it worked and says on standard error {said[:300]!r}"
    if status and (complaint := _complaint_of_message(said)):
        return "", f"{complaint}: {said[:300]!r}"
    if "--json" in words and "--help" not in words and told:
        try:
            json.loads(told)
        except ValueError:
            if "--json" not in _values(words):
                return "", f"--json is not alone on standard output: {told[:200]!r}"
    elif status == 2 and told:
        return "", f"it refuses and prints {told[:200]!r}"
    allowed = {os.path.realpath(folder / place) for place in written if len(place) < 255}
    for name, content in _contents(folder).items():
        path = folder / name
        ours = any(str(path.resolve()).startswith(one) for one in allowed)
        if (name in here and here[name] != content and not ours) or name.endswith((".tmp", ".probe")):
            return "", f"it changed or left behind {name}"
    gone = [name for name in here if not (folder / name).exists()]
    if gone:
        return "", f"it removed {gone[0]}"
    if sorted(folder.parent.iterdir()) != above:
        return "", "it wrote outside of its folder"
    return ("answer" if status == 0 else "refusal"), ""


def _values(words: list[str]) -> list[str]:
    """The words that follow an option, where one that begins with a dash is the option's value."""
    return [word for before, word in pairwise(words) if before.startswith("-")]


def _complaint_of_message(said: str) -> str:
    if not said.startswith("attention-bounds: ") or said.count("\n") != 1:
        return "its message is not one line"
    if not said.endswith(".\n"):
        return "its message does not end with a full stop"
    if not said[:-1].isprintable():
        return "its message holds control characters"
    if len(said) > MESSAGE:
        return f"its message has {len(said)} characters"
    if (
        "Unable to allocate" in said
        or "MemoryError" in said
        or "Error:" in said.removeprefix("attention-bounds: ")[:25]
    ):
        return "its message is that of another program"
    return ""


def vary(name: str, files: Path, folder: Path, cases: int) -> tuple[Counter, dict[str, str]]:
    """Try every option of a command: what came of the calls, and the violations by what was wrong."""
    counts: Counter = Counter()
    violations: dict[str, str] = {}
    for parameter in COMMANDS[name]:

        @settings(
            max_examples=min(cases, 4) if parameter.flag else cases,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(calls(name, parameter))
        def check(call: tuple[list[str], list[str]]) -> None:
            words, written = call
            put_files(files, folder)
            verdict, complaint = complaint_of(words, written, folder)
            counts[verdict or "violation"] += 1
            if complaint:
                shown = " ".join(ascii(word) if len(word) < 99 else f"'{word[:9]}...'" for word in words)
                violations.setdefault(complaint[-90:], f"{shown}: {complaint}")

        check()
    return counts, violations
