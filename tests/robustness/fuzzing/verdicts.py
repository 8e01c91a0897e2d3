"""One call: an answer, a refusal in a sentence, or a violation."""

import gc
import re
import traceback
import types
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from attention.errors import FileFormatError
from fuzzing.arguments import Given
from fuzzing.comparing import as_bytes, same
from fuzzing.fence import TookTooLong, fence
from fuzzing.subjects import Subject

__all__ = ["Verdict", "sentence_complaint", "try_case"]

_ROOT = Path(__file__).parents[3]


class Verdict(Enum):
    """What a case came to."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    VIOLATION = "violation"


def try_case(
    subject: Subject, drawn: Mapping[str, Given], hostile: tuple[str, ...] = ()
) -> tuple[Verdict, str]:
    """Make one call and say what it was, and, of a violation, why."""
    values = {name: one.make() for name, one in drawn.items()}
    before = {name: as_bytes(value) for name, value in values.items()}
    try:
        with fence(subject.seconds):
            result = subject.call(**values)
            # what is made while it is asked for is a result, too
            result = list(result) if isinstance(result, types.GeneratorType) else result
            subject.right(result, values)
            changed = [name for name in values if before[name] != as_bytes(values[name])]
            if changed:
                return Verdict.VIOLATION, f"it changed its argument {changed[0]}"
            plain = {name: drawn[name].plain for name in hostile}
            if hostile and subject.repeatable and all(plain.values()):
                again = {
                    name: plain[name]() if name in plain else one.make()  # type: ignore[misc]
                    for name, one in drawn.items()
                }
                if difference := same(result, subject.call(**again)):
                    return Verdict.VIOLATION, f"plain copies of the arrays give another result: {difference}"
        return Verdict.ANSWER, ""
    except TookTooLong:
        gc.collect()
        return Verdict.VIOLATION, f"it took more than {subject.seconds:g} seconds"
    except Exception as error:
        return _of_error(subject, drawn, values, hostile, error)


def _of_error(
    subject: Subject,
    drawn: Mapping[str, Given],
    values: Mapping[str, Any],
    hostile: tuple[str, ...],
    error: Exception,
) -> tuple[Verdict, str]:
    where = _place(error)
    if isinstance(error, AssertionError):
        return Verdict.VIOLATION, f"wrong: {' '.join(str(error).split())[:200]} [{where}]"
    own_protocol = isinstance(error, TypeError) and _depth(error) == 1
    if own_protocol or (
        subject.also and isinstance(error, subject.also) and not isinstance(error, ValueError)
    ):
        return Verdict.REFUSAL, ""
    if not isinstance(error, ValueError) or isinstance(error, UnicodeError):
        return Verdict.VIOLATION, f"{type(error).__name__}: {str(error)[:200]} [{where}]"
    of_file = isinstance(error, FileFormatError)
    if complaint := sentence_complaint(str(error), drawn, values, subject.words, of_file=of_file):
        return Verdict.VIOLATION, f"{type(error).__name__} {complaint}: {str(error)[:200]!r} [{where}]"
    if not hostile and not subject.refuses:
        return Verdict.VIOLATION, f"sane arguments are refused: {str(error)[:200]!r} [{where}]"
    return Verdict.REFUSAL, ""


_ALLOWED = re.compile(
    r"\b(needed|needs?|allowed|allows?|must|give|take|takes|use|only|at least|at most|choose|instead|known|lower"
    r"|have|raise|first|expected|can|cannot|has to|keep|compare|load|read|fewer|larger|smaller|more|less|for example"
    r"|scale|it ends|ends|draw|has no meaning|may be)\b",
    re.IGNORECASE,
)


def sentence_complaint(
    text: str,
    drawn: Mapping[str, Given],
    values: Mapping[str, Any],
    words: tuple[str, ...] = (),
    *,
    of_file: bool = False,
) -> str:
    """What is wrong with a refusal's text; empty where it is a sentence that helps."""
    if not text.endswith("."):
        return "ends without a full stop"
    if len(text) > 900:
        return f"is {len(text)} characters long"
    if len(text.split()) < 5:
        return "is too short to help"
    # what is wrong with a file is said of the file
    if not of_file and not _ALLOWED.search(text):
        return "does not say what is allowed"
    lowered = text.lower()
    names = [
        *drawn,
        *words,
        *(name.rstrip("s") for name in drawn),
        *(name.replace("_", " ") for name in drawn),
    ]
    if any(re.search(rf"(?<![a-z]){re.escape(name.lower())}(?![a-z])", lowered) for name in names):
        return ""
    for value in values.values():
        # libraries are named by the arrays that came from them
        shapes = [type(value).__module__.partition(".")[0]] if "arrays of" in lowered else []
        shapes += (
            [str(tuple(value.shape)), str(value.dtype)]
            if hasattr(value, "shape") and hasattr(value, "dtype")
            else []
        )
        for shown in (*shapes, type(value).__name__, _short(repr, value), _short(str, value)):
            if shown and shown.lower() in lowered:
                return ""
    return "names neither the argument nor the value"


def _short(show: Callable[[Any], str], value: Any) -> str:
    try:
        return show(value)[:60]
    except Exception:
        return ""


def _depth(error: BaseException) -> int:
    # frames below the one in which the case is tried
    depth, trace = 0, error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    return depth


def _place(error: BaseException) -> str:
    ours = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if str(_ROOT) in frame.filename and str(_ROOT / "tests") not in frame.filename
    ]
    return f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno}" if ours else "in the test"
