"""Targets and what learns them in `arena`, called with what a user may give by mistake."""

import contextlib

import numpy as np
import pytest
from arena_given import FILES, INPUTS, NAME, OPTIONAL, SEED, TARGET, file, nice, prepare, subject, told
from fuzzing import (
    Argument,
    Given,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    real,
    whole,
)
from hypothesis import strategies as st

import arena
import arena.studies
from attention import make_nice_layer
from sq import ParityFamily
from upper import KnownPart


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Files of targets, and of none, in the folder where the functions are called."""
    folder = tmp_path_factory.mktemp("targets")
    prepare(folder)
    with contextlib.chdir(folder):
        yield


def target_is_right(result, given):
    assert result.record.heads == result.layer.heads
    assert_finite((result.layer.theta, result.layer.w))
    x = result.inputs.sample(2, rng=0)
    assert np.isfinite(result.layer(x)).all()


def is_saved(result, given):
    """What is loaded again is what was saved, to the last bit."""
    found, target = arena.load_target(given["path"]), given["target"]
    for one, other in ((found.layer.theta, target.layer.theta), (found.layer.w, target.layer.w)):
        assert np.array_equal(one, other)
    assert (found.record.heads, found.inputs, found.made) == (target.record.heads, target.inputs, target.made)


SUBJECTS = [
    # targets
    subject(
        "arena.nice_target",
        arena.nice_target,
        target_is_right,
        heads=whole(1, 2),
        tokens=whole(1, 3),
        dim=whole(2, 4),
        sigma=real(),
        inputs=INPUTS,
        seed=SEED,
        name=NAME,
        words=("rng",),
    ),
    subject(
        "arena.parity_target",
        arena.parity_target,
        target_is_right,
        dim=whole(5, 7),
        heads=OPTIONAL,
        bits=Argument(st.sampled_from([fixed(None), fixed(2)]), whole().hostile),
        construction=choice("B", "C", "D"),
        beta=Argument(st.just(fixed(None)), real().hostile),
        seed=SEED,
        name=NAME,
        words=("rng",),
    ),
    subject(
        "arena.lwr_target",
        arena.lwr_target,
        target_is_right,
        secret_dim=whole(2, 3),
        modulus=choice(4, 8),
        levels=choice(2, 4),
        gadget=choice(False),
        matrix=choice("binary", "ternary"),
        secret=choice("uniform", "ternary"),
        noise=choice("zero"),
        seed=SEED,
        name=NAME,
        words=("rng", "law"),
        share=0.5,
    ),
    subject(
        "arena.family_target",
        arena.family_target,
        target_is_right,
        family=made(lambda: ParityFamily(dim=5, bits=2, construction="B"), "<family>"),
        number=Argument(st.sampled_from([fixed(None), fixed(1)]), whole().hostile),
        seed=SEED,
        name=NAME,
        words=("rng",),
    ),
    subject(
        "arena.layer_target",
        arena.layer_target,
        target_is_right,
        layer=made(lambda: make_nice_layer(heads=1, dim=3, rng=0), "<layer>"),
        tokens=whole(1, 3),
        inputs=INPUTS,
        name=NAME,
        made=Argument(st.just(fixed(None)), anything(None).hostile),
    ),
    subject(
        "arena.instance_target",
        arena.instance_target,
        target_is_right,
        name=NAME,
        instance=made(lambda: ParityFamily(dim=5, bits=2, construction="B").instance(1), "<instance>"),
        made=anything({}),
    ),
    subject(
        "arena.preset_targets",
        arena.preset_targets,
        told,
        seed=Argument(st.just(fixed(0)), SEED.hostile),
        share=0.1,
        words=("rng",),
        repeatable=False,
    ),
    subject(
        "arena.load_target",
        arena.load_target,
        target_is_right,
        path=file("nice.safetensors"),
        tokens=Argument(st.sampled_from([fixed(None), fixed(3)]), whole().hostile),
        inputs=Argument(st.just(fixed(None)), INPUTS.hostile),
        words=("file", "target", "there is no such file", "k", "d"),
    ),
    subject(
        "arena.save_target",
        arena.save_target,
        is_saved,
        path=Argument(
            st.just(Given("new", lambda: FILES["folder"] / "new.safetensors")), anything(None).hostile
        ),
        target=TARGET,
        also=(OSError,),
    ),
    subject(
        "arena.checkpoint_target",
        arena.checkpoint_target,
        target_is_right,
        path=file("nice.safetensors"),
        layer=whole(0, 1),
        tokens=whole(),
        refuses=True,
        words=("folder", "file", "checkpoint", "there is no such file"),
    ),
    subject(
        "arena.inspect",
        arena.inspect,
        told,
        target=TARGET,
        tokens=OPTIONAL,
        verify=choice(False),
        thresholds=Argument(
            st.just(fixed(None)),
            st.sampled_from([fixed({"theta_trace": 0.5}), fixed({"no": 1})]) | anything(None).hostile,
        ),
        share=0.5,
        words=("threshold",),
    ),
    # students and attacks
    subject(
        "arena.choose_students",
        arena.choose_students,
        told,
        names=choice(None, "newton", "all"),
        words=("learner",),
    ),
    subject(
        "arena.as_students",
        arena.as_students,
        told,
        learners=Argument(
            st.sampled_from([fixed(None), fixed("newton"), fixed([KnownPart(), "adam"])]),
            anything(None).hostile,
        ),
        words=("learner",),
    ),
    subject(
        "arena.choose_attacks",
        arena.choose_attacks,
        told,
        names=choice(None, "exhaustive"),
        words=("attack",),
    ),
    subject(
        "arena.run_cell",
        arena.run_cell,
        told,
        target=TARGET,
        student=made(lambda: arena.choose_students("known-part")[0], "<student>"),
        seed=SEED,
        effort=made(lambda: arena.PRESETS["quick"], "<effort>"),
        share=0.3,
        repeatable=False,
    ),
    subject(
        "arena.learn",
        arena.learn,
        told,
        target=TARGET,
        learner=choice("known-part"),
        seed=SEED,
        preset=choice("quick"),
        examples=OPTIONAL,
        noise=Argument(st.just(fixed(0.0)), real().hostile),
        share=0.4,
        words=("learner", "budget"),
        repeatable=False,
    ),
    subject(
        "arena.compare",
        arena.compare,
        told,
        targets=made(lambda: [nice()], "<targets>"),
        learners=choice("known-part"),
        preset=choice("quick"),
        seeds=whole(1, 1),
        isolated=choice(False),
        timeout=Argument(st.just(fixed(None)), real().hostile),
        share=0.3,
        seconds=60.0,  # left out, the learners are all of them
        words=("target", "learner"),
        repeatable=False,
    ),
    subject(
        "arena.PoolOracle",
        arena.PoolOracle,
        told,
        x=array((6, 2, 3), torch=False),
        y=array((6, 2, 3), torch=False),
        slack=real(1.0, 2.0),
    ),
]


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)
