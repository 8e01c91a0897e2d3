"""Files of instances with one thing changed: none is accepted, in the format of today or in that of f6c6ba7."""

import copy
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from attention import FileFormatError
from attention.files import read_tensors, write_tensors
from lower import Key, Status, Word, load_instance, save_instance, verify_instance
from lower.instance_files import unknown_entries
from tests.lower.honest import ALIKE, HONEST, honest

pytestmark = pytest.mark.bad_input
OLD = zipfile.ZipFile(Path(__file__).parent / "files_of_f6c6ba7.zip")
MOST = 250  # changes of a file; there are about a thousand
CLOSED = {"key": Key, "status": Status, "value": Word}


def old_file(kind, folder):
    path = folder / f"{kind}.safetensors"
    path.write_bytes(OLD.read(path.name))
    return path


def other_values(name, value, fact):
    """Values in place of one of a file: of its type, then of other types."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, float(value) + 0.5)
    elif isinstance(value, float):
        yield from (value * 1.001 + 1e-6, -value - 1.0, value / 2 + 1e-3, 7)
        if fact is not None and fact["status"] != "computed":  # the same on every machine, to the last digit
            yield from (math.nextafter(value, side) for side in (-math.inf, math.inf))
    elif isinstance(value, str) and fact is not None and name in CLOSED:
        yield from (one.value for one in CLOSED[name] if one.value != value)
    elif isinstance(value, str):
        yield from (f"{value}s", "sq-parity" if value != "sq-parity" else "lwr", "")
    elif value is None:
        yield from (2, 0.1)
    yield {"what": "is this"}


def changed_entries(data, place, fact=None):
    """Every way to change, leave out or add one entry: its place, and what is done to the container that has it."""
    names = range(len(data)) if isinstance(data, list) else list(data)
    for name in names:
        value, where = data[name], (*place, name)
        own = value if place[-1:] == ("facts",) else fact
        if isinstance(value, dict | list) and value:
            yield from changed_entries(value, where, own)
        else:
            for other in other_values(name, value, own):
                yield where, lambda box, name=name, other=other: box.__setitem__(name, other)
        yield where, lambda box, name=name: box.pop(name)
        if isinstance(data, list):
            yield where, lambda box, name=name: box.insert(name, copy.deepcopy(box[name]))
        else:
            yield where, lambda box, name=name: box.__setitem__(f"{name} 2", box.pop(name))
    if isinstance(data, dict):
        yield (*place, "security"), lambda box: box.__setitem__("security", 128)


def forged_metadata(metadata, old):
    for (*place, name), change in changed_entries(metadata, ()):
        if "made" in (*place, name):  # nothing vouches for it
            continue
        if old and ({"certificate", "statements", "realisation_error"} & {*place, name}):
            continue  # computed anew
        forged = copy.deepcopy(metadata)
        box = forged
        for step in place:
            box = box[step]
        change(box)
        yield f"{'/'.join(map(str, place))}/{name}", forged


def forged_tensors(tensors):
    rng = np.random.default_rng(0)
    for name, array in tensors.items():
        zeros, held = np.argwhere(array == 0), np.argwhere(array != 0)
        for places in (zeros, held):
            for place in map(tuple, rng.permutation(places)[:6]):
                value = array[place]
                changes = (value + 1, value - 1, -value - 1) if array.dtype.kind == "i" else (
                    np.nextafter(value, np.inf) if value else 1e-9, value + 1e-6, -value - 1.0
                )  # fmt: skip
                for change in changes:
                    forged = array.copy()
                    forged[place] = change
                    yield f"tensor {name}", {**tensors, name: forged}
        yield f"no tensor {name}", {key: one for key, one in tensors.items() if key != name}
        yield f"tensor {name} twice", {**tensors, f"{name}_2": array}
        yield f"tensor {name} grown", {**tensors, name: np.concatenate([array, array[:1]])}
    for name in ("theta", "w"):
        order = [1, 0, *range(2, len(tensors[name]))][: len(tensors[name])]
        if len(order) > 1 and not np.array_equal(tensors[name][order], tensors[name]):
            yield f"heads of {name} exchanged", {**tensors, name: tensors[name][order]}


def accepted(path):
    """What `inspect --verify` decides by."""
    try:
        instance = load_instance(path)
    except FileFormatError:
        return False
    return verify_instance(instance).holds and not unknown_entries(path, instance)


def is_true(path, honest_certificate):
    """Whether an accepted file states only a bound on a weight that the honest one proves too.

    Or whether it is another honest file: its layer and its facts are those that its own parameters make.
    """
    instance = load_instance(path)
    made = instance.family.realise(instance.family.read_secret(instance.secret), instance.direction)
    arrays = [(one.layer.theta, one.layer.w) for one in (made, instance)]
    if all(map(np.array_equal, *arrays)) and made.certificate == instance.certificate:
        return made.realisation_error == instance.realisation_error
    given = {fact.name: fact for fact in instance.certificate}
    differing = [fact for fact in honest_certificate if given.get(fact.name) != fact]
    return all(fact.key is Key.WEIGHT_BOUND for fact in differing)


def count_of_refused(path, old):
    stored, certificate = read_tensors(path), load_instance(path).certificate
    assert accepted(path)
    forgeries = [
        *((what, stored.tensors, one) for what, one in forged_metadata(stored.metadata, old)),
        *((what, one, stored.metadata) for what, one in forged_tensors(stored.tensors)),
    ]
    forgeries = [forgeries[place] for place in np.random.default_rng(1).permutation(len(forgeries))[:MOST]]
    taken = []
    for what, tensors, metadata in forgeries:
        write_tensors(path, "instance", tensors, metadata)
        if accepted(path) and not is_true(path, certificate):
            taken.append(what)
    assert taken == []
    return len(forgeries)


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.slow if one != "pair" else ()) for one in HONEST]
)
def test_no_changed_file_is_accepted(kind, tmp_path):
    path = tmp_path / "it.safetensors"
    save_instance(path, honest(kind), made={"generator": kind, "seed": 1})
    assert count_of_refused(path, old=False) == MOST


@pytest.mark.slow
@pytest.mark.parametrize("kind", [one for one in HONEST if one not in ALIKE])
def test_no_changed_file_of_f6c6ba7_is_accepted(kind, tmp_path):
    assert count_of_refused(old_file(kind, tmp_path), old=True) > 100


@pytest.mark.parametrize("kind", HONEST)
def test_files_of_f6c6ba7_are_verified_with_the_facts_of_today(kind, tmp_path):
    instance = load_instance(old_file(kind, tmp_path))
    assert verify_instance(instance).reasons == ()
    assert instance.certificate == honest(kind).certificate
    save_instance(tmp_path / "new.safetensors", instance)
    assert accepted(tmp_path / "new.safetensors")


def test_facts_of_f6c6ba7_are_computed_anew(tmp_path):
    path = old_file("bump", tmp_path)
    stored = read_tensors(path)
    metadata = copy.deepcopy(stored.metadata)
    metadata["certificate"]["statements"][0] |= {"meaning": "tolerance 0.2", "value": 7}
    write_tensors(path, "instance", stored.tensors, metadata | {"realisation_error": 1.0})
    assert load_instance(path).certificate == honest("bump").certificate
    assert load_instance(path).realisation_error == honest("bump").realisation_error


def test_a_file_of_a_family_that_went_says_what_reads_it(tmp_path):
    with pytest.raises(FileFormatError, match="sq-hermite-staircase is gone; commit f6c6ba7"):
        load_instance(old_file("hermite-staircase", tmp_path))
