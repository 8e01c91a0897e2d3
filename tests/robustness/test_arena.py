"""Every public function of `arena` and `paper_checks`, called with what a user may give it by mistake."""

import numpy as np
import pytest
from fuzzing import (
    Argument,
    Given,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    missing_subjects,
    real,
    whole,
)
from hypothesis import strategies as st

import arena
import arena.studies
import paper_checks
import paper_checks.linear_attention as experiments
from attention import make_nice_layer
from sq import ParityFamily, curve_cells
from upper import KnownPart

# ------------------------------------------------------------------------------------------- what is given

SEED = whole(0, 3)
NAME = Argument(
    st.sampled_from([fixed(""), fixed("mine")]),
    st.sampled_from([fixed(one) for one in ("a\nb", "\x1b[31m", "x" * 10_000, "../up", "/", "\udcff")])
    | anything(None).hostile,
)
INPUTS = choice("boolean", "gaussian", "sphere")
OPTIONAL = Argument(st.just(fixed(None)), whole().hostile)
FILES = {}


def nice():
    return arena.nice_target(heads=1, tokens=2, dim=3)


def lwr():
    return arena.lwr_target(secret_dim=3, modulus=4, levels=2)


def prepare(folder):
    arena.save_target(folder / "nice.safetensors", nice())
    np.save(folder / "x.npy", np.ones(3))
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "random.safetensors").write_bytes(np.random.default_rng(0).bytes(300))
    FILES.update(
        {
            name: folder / name
            for name in ("nice.safetensors", "x.npy", "empty.safetensors", "random.safetensors")
        }
    )
    FILES["folder"] = folder


@pytest.fixture(scope="module", autouse=True)
def files(tmp_path_factory):
    """Files of targets, and of none."""
    prepare(tmp_path_factory.mktemp("targets"))


def file(name):
    return Argument(
        st.just(Given(name, lambda: FILES[name])),
        st.sampled_from(
            [
                Given(one, lambda one=one: FILES[one])
                for one in ("x.npy", "empty.safetensors", "random.safetensors", "folder")
            ]
        )
        | st.sampled_from([fixed(one) for one in ("missing.safetensors", "", "x" * 300, "a\nb", "\x00")])
        | anything(None).hostile,
    )


TARGET = made(nice, "<nice target>")
CELLS = made(lambda: list(curve_cells([5], [1], [0.3], learners=["scan"])), "<cells>")
POINTS = made(
    lambda: list(arena.run_curves(curve_cells([5], [1], [0.3], learners=["scan"]), isolated=False)),
    "<points>",
)


def lwr_points():
    cell = arena.LWRCell("exhaustive", 4, 8, 2)
    return [arena.LWRPoint(cell, "BROKEN", "It was found.", 1.0, 0.1)]


# ------------------------------------------------------------------------------------------- what is right


def told(result, given):
    str(result)


def target_is_right(result, given):
    assert result.record.heads == result.layer.heads
    assert_finite((result.layer.theta, result.layer.w))
    x = result.inputs.sample(2, rng=0)
    assert np.isfinite(result.layer(x)).all()


def interval_is_right(result, given):
    assert result.low <= result.estimate <= result.high


def compared(result, given):
    assert isinstance(result.holds, bool)
    str(result)


def drawn(result, given):
    assert result.svg.startswith("<?xml") or "<svg" in result.svg


VALUES = array((12,), torch=False)
CONFIDENCE = real(0.9, 0.99)
WHAT = Argument(st.just(fixed("a number")), NAME.hostile)
INTERVAL = made(lambda: paper_checks.mean_interval([0.0, 1.0, 2.0, 3.0]), "<interval>")
A_CHECK = paper_checks.Check(
    id="layer/mine",
    claim="One is one.",
    source="Arithmetic",
    kind=paper_checks.Kind.EXACT,
    basis=paper_checks.Basis.PROVED,
    how="By counting.",
    run=lambda constants, scale, rng: [paper_checks.equal("one", constants["one"], 1)],
    constants={"one": 1},
    wrong={"one": 2},
)


def subject(
    name,
    call,
    right,
    /,
    share=1.0,
    words=(),
    refuses=False,
    repeatable=True,
    also=(),
    seconds=3.0,
    **arguments,
):
    return Subject(
        name,
        call,
        arguments,
        right=right,
        share=share,
        words=words,
        refuses=refuses,
        repeatable=repeatable,
        also=also,
        seconds=seconds,
    )


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
        told,
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
        words=("dim",),
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
    # intervals and comparisons
    subject(
        "paper_checks.mean_interval",
        paper_checks.mean_interval,
        interval_is_right,
        values=VALUES,
        confidence=CONFIDENCE,
    ),
    subject(
        "paper_checks.median_interval",
        paper_checks.median_interval,
        interval_is_right,
        values=VALUES,
        confidence=CONFIDENCE,
    ),
    subject(
        "paper_checks.bounded_mean_interval",
        paper_checks.bounded_mean_interval,
        interval_is_right,
        values=VALUES,
        low=real(-9.0, -8.0),
        high=real(8.0, 9.0),
        confidence=CONFIDENCE,
    ),
    subject(
        "paper_checks.proportion_interval",
        paper_checks.proportion_interval,
        interval_is_right,
        successes=whole(0, 3),
        trials=whole(4, 9),
        confidence=CONFIDENCE,
    ),
    subject(
        "paper_checks.slope_interval",
        paper_checks.slope_interval,
        interval_is_right,
        x=VALUES,
        y=array((12,), of=lambda rng, shape: rng.random(shape), torch=False),
        confidence=CONFIDENCE,
        words=("slope",),
    ),
    subject(
        "paper_checks.Interval",
        paper_checks.Interval,
        told,
        low=real(0.1, 0.2),
        estimate=real(0.3, 0.4),
        high=real(0.5, 0.6),
        confidence=CONFIDENCE,
        method=WHAT,
    ),
    subject(
        "paper_checks.equal",
        paper_checks.equal,
        compared,
        what=WHAT,
        measured=anything(1),
        expected=anything(1),
        also=(TypeError,),
    ),
    subject(
        "paper_checks.close",
        paper_checks.close,
        compared,
        what=WHAT,
        measured=real(),
        expected=real(),
        absolute=real(),
        relative=real(),
        words=("a number",),
    ),
    *(
        subject(f"paper_checks.{one.__name__}", one, compared, what=WHAT, measured=real(), bound=real())
        for one in (paper_checks.at_most, paper_checks.at_least)
    ),
    subject(
        "paper_checks.covers",
        paper_checks.covers,
        compared,
        what=WHAT,
        interval=INTERVAL,
        expected=real(),
        margin=real(),
    ),
    *(
        subject(f"paper_checks.{one.__name__}", one, compared, what=WHAT, interval=INTERVAL, bound=real())
        for one in (
            paper_checks.may_be_at_least,
            paper_checks.may_be_at_most,
            paper_checks.surely_above,
            paper_checks.surely_below,
        )
    ),
    # checks
    subject(
        "paper_checks.Check",
        paper_checks.Check,
        told,
        id=choice("layer/mine"),
        claim=WHAT,
        source=WHAT,
        kind=choice(paper_checks.Kind.EXACT),
        basis=choice(paper_checks.Basis.PROVED),
        how=WHAT,
        run=anything(fixed(A_CHECK.run, "<run>")),
        constants=anything({"one": 1}),
        wrong=anything({"one": 2}),
        false_alarm=Argument(st.just(fixed(0.0)), real().hostile),
    ),
    subject(
        "paper_checks.find_checks",
        paper_checks.find_checks,  # the first call imports every claim
        told,
        names=Argument(
            st.sampled_from([fixed([]), fixed(["layer"]), fixed(["layer/*"])]), anything(None).hostile
        ),
        words=("check",),
        seconds=60.0,
    ),
    subject(
        "paper_checks.run_check",
        paper_checks.run_check,
        told,
        check=anything(fixed(A_CHECK, "<check>")),
        scale=choice(paper_checks.Scale.QUICK),
        seed=SEED,
        constants=Argument(st.just(fixed(None)), anything(None).hostile),
        repeatable=False,
    ),
    subject(
        "paper_checks.run_checks",
        lambda **given: list(paper_checks.run_checks(**given)),
        told,
        checks=anything(fixed([A_CHECK], "<checks>")),
        scale=choice(paper_checks.Scale.QUICK),
        seed=SEED,
        jobs=Argument(
            st.just(fixed(1)), st.sampled_from([fixed(one) for one in (0, -1, 2.5, None, "2", True)])
        ),
        inject=choice(False, True),
        repeatable=False,
    ),
    subject(
        "paper_checks.result_from_json",
        paper_checks.result_from_json,
        told,
        data=made(lambda: paper_checks.run_check(A_CHECK).to_json(), "<json>"),
        words=("result",),
    ),
    subject(
        "paper_checks.linear_attention.run_experiment",
        experiments.run_experiment,
        told,
        name=Argument(st.just(fixed("no-such")), choice("no-such").hostile),
        refuses=True,
        words=("experiment",),
    ),
    subject(
        "paper_checks.linear_attention.experiment_from_json",
        experiments.experiment_from_json,
        told,
        data=made(lambda: experiments.Experiment("a", "A", "Why?", (), (), ()).to_json(), "<json>"),
        words=("experiment",),
    ),
]

RECORD = "a record of what was computed"
EXCEPTIONS = {
    **dict.fromkeys(
        [
            f"arena.{one}"
            for one in (
                "Attacked",
                "Cell",
                "Drawing",
                "Inspection",
                "LWRPoint",
                "Learned",
                "LearnedPhases",
                "LearnerRecord",
                "LearnerSide",
                "PaperFigure",
                "QueriedPhases",
                "Results",
                "StoredCell",
                "TargetRecord",
                "TracePoint",
            )
        ],
        RECORD,
    ),
    **dict.fromkeys(
        [
            f"arena.{one}"
            for one in ("DoesNotApplyError", "StoreError", "UnusedSettingError", "WorkersLostError")
        ],
        "an error",
    ),
    **dict.fromkeys([f"arena.{one}" for one in ("ATTACKS", "PRESETS", "STUDENTS")], "a constant"),
    **dict.fromkeys(
        [f"arena.{one}" for one in ("AttackKind", "Effort", "Student", "Target")],
        "put together by the toolkit: choose_attacks, choose_students and the makers of targets are tried",
    ),
    **dict.fromkeys(
        [f"arena.{one}" for one in ("attack", "attack_samples", "lwr_curve", "LWRCell", "queried_phases")],
        "minutes of work: their options are tried by test_command_line",
    ),
    "arena.learn_phases": "seconds of work: the options of explain and learn are tried by test_command_line",
    "arena.cluster": "needs a scheduler: --dask is tried by test_command_line",
    "arena.draw_learner_side": "draws what learner_side and queried_phases give, which takes minutes",
    **dict.fromkeys(
        [f"arena.{one}" for one in ("samples_of", "run_curves", "largest_broken")],
        "between the commands and the workers: reached through the command line, whose options are tried",
    ),
    "arena.versions": "takes no arguments",
    **dict.fromkeys(
        [f"paper_checks.{one}" for one in ("Basis", "Kind", "Scale", "Verdict")], "an enumeration"
    ),
    **dict.fromkeys([f"paper_checks.{one}" for one in ("Constants", "Run")], "the name of a type"),
    **dict.fromkeys([f"paper_checks.{one}" for one in ("CheckResult", "Comparison")], RECORD),
    "paper_checks.GROUPS": "a constant",
    "paper_checks.all_checks": "takes no arguments",
    "paper_checks.check": "a decorator that makes a Check, which is tried",
    **dict.fromkeys(
        [f"paper_checks.linear_attention.{one}" for one in ("Cell", "Report")], "the name of a type"
    ),
    **dict.fromkeys(
        [
            f"paper_checks.linear_attention.{one}"
            for one in ("Curve", "Experiment", "HeldFigure", "Plot", "Table")
        ],
        RECORD,
    ),
    "paper_checks.linear_attention.EXPERIMENTS": "a constant",
}


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "subject", [one for one in SUBJECTS if not one.name.endswith("run_experiment")], ids=repr
)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "name", ["no-such", "", None, 3, ["random"], "x" * 10_000], ids=lambda one: repr(one)[:12]
)
def test_an_experiment_of_no_name_is_refused(name):
    with pytest.raises(ValueError, match=r"needed\.$"):
        experiments.run_experiment(name)


def test_every_public_name_is_tried_or_excepted():
    packages = {"arena": arena, "paper_checks": paper_checks, "paper_checks.linear_attention": experiments}
    missing, idle = missing_subjects(packages, SUBJECTS, EXCEPTIONS)
    assert not missing
    assert not idle
