"""What makes a cell this cell and no other: the hash under which a run store keeps it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from arena._description import described, like_nothing_else
from arena.made_with import toolkit_code
from arena.students import Effort, Student
from arena.targets import Target
from attention.inputs import inputs_to_json

__all__ = ["cell_key", "learner_identity", "target_identity", "target_stream"]


def cell_key(target: Any, learner: Any, seed: int, versions: Mapping[str, str]) -> str:
    """The SHA-256, in hexadecimal, of the canonical JSON of target, learner, seed and versions.

    Parameters
    ----------
    target, learner : JSON values
        What `target_identity` and `learner_identity` give.
    seed : int
        The seed of the fit.
    versions : mapping of str to str
        Versions of what the numbers depend on, as `arena.versions` gives them.

    Notes
    -----
    The code of this toolkit itself counts by its text and not by its version alone: a cell computed before a change
    of a learner is not taken for one computed after it.

    Examples
    --------
    >>> cell_key("toy", "newton", 0, {"numpy": "2.0"}) == cell_key("toy", "newton", 0, {"numpy": "2.0"})
    True
    >>> cell_key("toy", "newton", 0, {"numpy": "2.0"}) == cell_key("toy", "newton", 1, {"numpy": "2.0"})
    False
    """
    content = {
        "target": target,
        "learner": learner,
        "seed": seed,
        "versions": dict(versions),
        "code": toolkit_code(),
    }
    return hashlib.sha256(_canonical(content)).hexdigest()


def target_identity(target: Target) -> Any:
    """What a fit on a target depends on: its numbers, inputs and known part; names and titles do not count."""
    known = None if target.instance is None else target.instance.known
    parts = {"layer": target.layer, "inputs": inputs_to_json(target.inputs), "known": known}
    return {name: described(value) for name, value in parts.items()}


def target_stream(target: Target) -> int:
    """A number below 2^64 that names the random streams of a target, made of what `target_identity` says of it."""
    return int.from_bytes(hashlib.sha256(_canonical(target_identity(target))).digest()[:8], "big")


def learner_identity(student: Student, target: Target, effort: Effort) -> Any:
    """What a fit depends on at the learner's side: the learner as set up for the target, and its code.

    Notes
    -----
    Code outside this toolkit counts by what it does: the methods of the learner's class and of its bases, and all
    that these reach by the name of a global, in whatever module of one's own that lies: functions, also behind
    decorators, caches and partials; classes with their attributes; constants of any kind, containers and objects
    with what they hold. What functions close over, their defaults and their attributes count too.

    These do not count, and after a change there the cells must be computed afresh by hand: what is used through a
    module (``module.function``) or imported within a function; what is looked up by a text (``getattr``,
    ``globals()``); what compiled code keeps to itself; files and the environment. A function of an installed package
    counts by its own code alone, and a class by its text, without what these use in turn: the versions of the
    packages that numbers depend on are part of the key.

    Of what nothing is known but its kind (locks, open files, sockets, generators, objects of a package that hold one
    of these) the kind counts where code uses it. Where the learner itself holds such a thing in a field, no two
    learners are the same: it is always computed. So it is where more than 100 000 functions, classes and objects are
    reached.

    An engine or a device that is asked for is a field of the learner and counts, because bits and seconds differ;
    errors agree to rounding. What an engine "auto" comes to is no field: it follows from the size of the target, which
    counts, from whether torch is installed, which the versions say, and from the hardware, which does not count. The
    cell names what computed it.

    Described is the state at the time of asking: a global that fits change, such as a random generator, makes
    another learner of it. What ``functools.cache`` remembers does not count, nor do the generators of ``random`` and
    ``numpy.random`` that all of a process share. The cost is linear in what is reached.
    """
    parts: dict[str, Any]
    try:
        parts = {"learner": student.build(target, effort)}
    except Exception:  # the cell will say why; what it says depends on this
        parts = {"build": student.build, "effort": effort}
    try:
        return {"name": student.name, **{name: described(value) for name, value in parts.items()}}
    except Exception:  # too deep, or it refuses to be looked at
        return {"name": student.name, "learner": like_nothing_else()}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
