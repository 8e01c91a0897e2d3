"""The engine finds what it is there to find: each kind of violation, in functions that are wrong on purpose."""

import time
import warnings

import numpy as np
import pytest
from fuzzing import (
    Given,
    Subject,
    array,
    choice,
    fixed,
    real,
    run,
    seed,
    whole,
)
from fuzzing.verdicts import Verdict, sentence_complaint, try_case

SENTENCE = "n is 0: at least 1 is needed."


def verdict_of(call, right=lambda result, given: None, **values):
    subject = Subject("wrong", call, {}, right=right, seconds=0.3)
    drawn = {name: value if isinstance(value, Given) else fixed(value) for name, value in values.items()}
    return try_case(subject, drawn, tuple(values))


def refuse(error):
    def call(n):
        raise error

    return call


def wait(n):
    began = time.process_time()
    while time.process_time() - began < 5:
        pass


def complain(n):
    warnings.warn("this is beside the point", stacklevel=1)


def overwrite(n):
    n[:] = 0


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (refuse(ValueError("bad")), "full stop"),
        (refuse(ValueError("This is not at all what is needed.")), "names neither"),
        (refuse(ValueError("The n that was given is 0 and so it goes.")), "what is allowed"),
        (refuse(ValueError(SENTENCE[:-1] + " " + "0" * 1000 + ".")), "characters long"),
        (refuse(TypeError(SENTENCE)), "TypeError"),
        (refuse(MemoryError(SENTENCE)), "MemoryError"),
        (refuse(IndexError(SENTENCE)), "IndexError"),
        (wait, "seconds"),
        (complain, "UserWarning"),
        (lambda n: np.empty(4 << 30, np.uint8), "MemoryError"),
    ],
    ids=["stop", "name", "allowed", "long", "type", "memory", "index", "hang", "warning", "allocation"],
)
def test_every_kind_of_violation_is_found(call, why):
    verdict, found = verdict_of(call, n=0)
    assert verdict is Verdict.VIOLATION
    assert why in found


def test_a_sentence_is_a_refusal_and_what_is_right_an_answer():
    assert verdict_of(refuse(ValueError(SENTENCE)), n=0) == (Verdict.REFUSAL, "")
    assert verdict_of(lambda n: n, n=0) == (Verdict.ANSWER, "")
    assert verdict_of(lambda n: n, given=0)[0] is Verdict.REFUSAL  # an unknown keyword is Python's own affair


def test_a_wrong_answer_a_changed_argument_and_a_dress_that_matters_are_violations():
    def right(result, given):
        assert result == 2, "one and one"

    assert "one and one" in verdict_of(lambda n: 3, right, n=1)[1]
    changed = Given("an array", lambda: np.ones(3))
    assert "changed its argument" in verdict_of(overwrite, n=changed)[1]
    dressed = Given("by columns", lambda: np.asfortranarray(np.ones((2, 2))), lambda: np.ones((2, 2)))
    assert "another result" in verdict_of(lambda n: float(n.flags.c_contiguous), n=dressed)[1]


def test_a_refusal_of_sane_arguments_is_a_violation():
    subject = Subject("wrong", refuse(ValueError(SENTENCE)), {})
    assert "sane arguments are refused" in try_case(subject, {"n": fixed(3)})[1]


def test_cases_are_the_same_in_every_run():
    seen = []

    def call(**given):
        seen.append(repr(sorted(given.items(), key=str)))
        return 1.0

    subject = Subject(
        "fine", call, lambda size: {"n": whole(), "x": array((size.n,)), "rng": seed(), "a": real()}
    )
    first = run(subject, 20).counts, seen.copy()
    seen.clear()
    assert (run(subject, 20).counts, seen) == first or len(seen) == len(first[1])


def test_choices_are_tried_with_what_is_none_of_them():
    tried = set()

    def call(kind):
        tried.add(str(kind))
        if kind not in ("a", "b"):
            raise ValueError(f"kind is {type(kind).__name__} {str(kind)[:20]}: a or b is needed.")
        return 1.0

    run(Subject("fine", call, {"kind": choice("a", "b")}), 60)
    assert {"a", "b"} < tried


def test_what_counts_as_naming():
    drawn = {"heads": fixed(0)}
    assert not sentence_complaint("heads is 0: at least 1 is needed.", drawn, {"heads": 0})
    assert not sentence_complaint("There are (3, 4) entries: more are needed.", {}, {"x": np.ones((3, 4))})
    assert sentence_complaint("Something is off here: more of them are needed.", drawn, {"heads": -17})
