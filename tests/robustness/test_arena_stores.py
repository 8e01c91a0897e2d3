"""Stores, figures and curves of `arena`, called with what a user may give by mistake."""

import contextlib

import pytest
from arena_given import FILES, file, prepare, subject, told
from fuzzing import Argument, Given, anything, fixed, made
from hypothesis import strategies as st

import arena
import arena.studies
from sq import curve_cells


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Files of targets, and of none, in the folder where the functions are called."""
    folder = tmp_path_factory.mktemp("targets")
    prepare(folder)
    with contextlib.chdir(folder):
        yield


CELLS = made(lambda: list(curve_cells([5], [1], [0.3], learners=["scan"])), "<cells>")
POINTS = made(
    lambda: list(arena.run_curves(curve_cells([5], [1], [0.3], learners=["scan"]), isolated=False)),
    "<points>",
)


def lwr_points():
    cell = arena.LWRCell("exhaustive", 4, 8, 2)
    return [arena.LWRPoint(cell, "BROKEN", "It was found.", 1.0, 0.1)]


def drawn(result, given):
    assert result.svg.startswith("<?xml") or "<svg" in result.svg


SUBJECTS = [
    # stores, figures and curves
    subject(
        "arena.RunStore",
        lambda path: arena.RunStore(path, read_only=True).close(),
        told,
        path=file("nice.safetensors"),
        refuses=True,
        words=("file", "store"),
        share=0.5,
    ),
    subject(
        "arena.CurveStore",
        lambda path: arena.CurveStore(path).close(),
        told,
        path=Argument(
            st.just(Given("new", lambda: FILES["folder"] / "new.sqlite")),
            st.sampled_from([Given(one, lambda one=one: FILES[one]) for one in ("x.npy", "folder")])
            | anything(None).hostile,
        ),
        words=("file", "store"),
        also=(OSError,),
        share=0.5,
    ),
    subject(
        "arena.export_cells",
        arena.export_cells,
        told,
        path=Argument(
            st.just(Given("new", lambda: FILES["folder"] / "new.csv")),
            st.sampled_from([fixed("x.txt"), fixed("")]) | anything(None).hostile,
        ),
        cells=anything([]),
        also=(OSError,),
        share=0.5,
    ),
    subject(
        "arena.learner_side",
        arena.learner_side,
        told,
        dims=anything((8, 16)),
        heads=anything((2,)),
        words=("dim", "d is"),
    ),
    subject(
        "arena.draw_curves",
        arena.draw_curves,
        drawn,
        points=POINTS,
        share=0.1,
        words=("point",),
        repeatable=False,
    ),
    subject(
        "arena.draw_lwr_curve",
        arena.draw_lwr_curve,
        drawn,
        points=made(lwr_points, "<points>"),
        share=0.1,
        words=("point",),
        repeatable=False,
    ),
    subject(
        "arena.lwr_curve_text",
        arena.lwr_curve_text,
        told,
        points=made(lwr_points, "<points>"),
        words=("point",),
        share=0.5,
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
