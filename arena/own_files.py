"""Objects in files of the caller: learners and functions, each file executed alone."""

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle


def object_of_file(place: str, what: str) -> Any:
    """The object in FILE.py:NAME; None if the file has no such name.

    The file is executed alone, as a module whose name holds a hash of it: it replaces no module, and modules of its
    folder cannot be imported. `what` says in messages what is looked for, such as "a learner of your own".

    ValueError if the file is missing or does not run.
    """
    path, _, name = place.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"There is no file {path}: {what} is FILE.py:NAME.")
    source = Path(path).read_bytes()
    module = ModuleType(f"_own_{hashlib.sha256(source).hexdigest()}")
    module.__file__ = str(Path(path).absolute())
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    except (Exception, GeneratorExit, SystemExit) as error:
        alone = " The file is imported alone: put its helpers into it, or install them."
        raise ValueError(
            f"{path} does not run: {type(error).__name__}: {error}.{alone if isinstance(error, ImportError) else ''}"
        ) from None
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    return getattr(module, name, None)
