"""Every public function of `paper_checks`, called with what a user may give by mistake."""

import json

import pytest
from arena_given import NAME, SEED, subject, told
from fuzzing import Argument, anything, array, choice, fixed, made, real, whole
from hypothesis import strategies as st

import paper_checks
import paper_checks.linear_attention as experiments

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


def interval_is_right(result, given):
    assert result.low <= result.estimate <= result.high


def compared(result, given):
    assert isinstance(result.holds, bool)
    str(result)


def reads_back(result, given):
    """A record that is written again is the one that was read."""
    assert json.loads(json.dumps(result.to_json())) == json.loads(json.dumps(given["data"]))


SUBJECTS = [
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
        "paper_checks.Fault",
        paper_checks.Fault,
        told,
        target=choice("attention.layer:attention_pattern"),
        by=anything(fixed(paper_checks.given(abs), "<by>")),
        says=WHAT,
    ),
    *(
        subject(f"paper_checks.{one.__name__}", one, told, change=anything(fixed(abs, "<change>")))
        for one in (paper_checks.given, paper_checks.returned)
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
        inject=choice(False, True),
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
        reads_back,
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
        reads_back,
        data=made(lambda: experiments.Experiment("a", "A", "Why?", (), (), ()).to_json(), "<json>"),
        words=("experiment",),
    ),
]


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
