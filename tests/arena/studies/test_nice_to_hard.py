"""The path from a nice layer to a parity: its ends, what is known without the secret, and the study made of it."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from arena.studies._path_rows import main_family, median_error, reach, shown_error
from arena.studies._path_to_parity import STEEPEST, ParityPath, draw_path
from arena.studies.nice_to_hard import _QUICK_STEPS, STUDY
from attention import AttentionLayer, BooleanInputs
from paper_checks import Scale
from sq import make_parity_instance

_X = BooleanInputs(k=2, d=7).sample(200, rng=1)


@pytest.fixture(scope="module", name="path")
def _path() -> ParityPath:
    return draw_path(dim=7, bits=3, rng=np.random.default_rng(2))


def test_path_begins_at_the_nice_layer(path: ParityPath) -> None:
    layer = path.point(0.0).layer
    np.testing.assert_allclose(layer.theta, path.nice.theta, rtol=1e-14)
    np.testing.assert_allclose(layer.w, path.nice.w, rtol=1e-14)


def test_steepest_nice_end_is_the_nice_layer_with_steeper_slopes(path: ParityPath) -> None:
    layer = path.point(0.0, 1.0).layer
    np.testing.assert_allclose(layer.theta, STEEPEST * path.nice.theta, rtol=1e-14)
    np.testing.assert_allclose(layer.w, path.nice.w, rtol=1e-14)


@pytest.mark.parametrize("slope", [0.0, 0.4, 1.0])
def test_path_ends_at_the_minimal_parity_at_every_slope(path: ParityPath, slope: float) -> None:
    slopes = (STEEPEST**slope * path.parity.slopes).tolist()
    hard = make_parity_instance(dim=7, secret=path.secret, slopes=slopes).layer
    layer = path.point(1.0, slope).layer
    np.testing.assert_allclose(layer.theta, hard.theta, rtol=1e-14, atol=0)
    np.testing.assert_allclose(layer.w, hard.w, rtol=1e-14, atol=0)


def test_two_shares_move_attention_and_projections_apart(path: ParityPath) -> None:
    point = path.point(1.0, projections=0.0).layer
    np.testing.assert_allclose(point.theta, path.point(1.0).layer.theta, rtol=1e-14)
    np.testing.assert_allclose(point.w, path.nice.w, rtol=1e-14)


def test_secret_enters_by_the_number_of_differing_coordinates_only(path: ParityPath) -> None:
    point = path.point(0.6, 0.3, projections=0.8)
    number = (_X[:, 0, path.secret] != _X[:, 1, path.secret]).sum(axis=1)
    chosen = point.by_count(_X)[number, np.arange(len(_X))]
    np.testing.assert_allclose(chosen, point.layer(_X), atol=1e-12)


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_known_part_is_the_mean_over_all_secrets(bits: int) -> None:
    path = draw_path(dim=7, bits=bits, rng=np.random.default_rng(3))
    secrets = [np.array(one) for one in combinations(range(1, 7), bits)]
    layers = [replace(path, secret=one).point(0.7, 0.2).layer(_X) for one in secrets]
    np.testing.assert_allclose(path.point(0.7, 0.2).known(_X), np.mean(layers, axis=0), atol=1e-12)


def test_known_part_at_the_end_is_that_of_the_parity_and_the_mean_of_parities(path: ParityPath) -> None:
    instance = make_parity_instance(dim=7, secret=path.secret)
    differ = _X[:, 0, 1:] * _X[:, 1, 1:]
    parities = [differ[:, list(one)].prod(axis=1) for one in combinations(range(6), 3)]
    signal = np.mean(parities, axis=0) * (_X[:, 0, 0] - _X[:, 1, 0]) / 2
    mean = np.zeros_like(_X)
    mean[:, 0, 0], mean[:, 1, 0] = signal, -signal
    np.testing.assert_allclose(path.point(1.0).known(_X), instance.known(_X) + mean, atol=1e-11)


def test_known_part_of_random_attention_is_the_mean_over_nice_layers(path: ParityPath) -> None:
    # Theta and W of a nice layer are as likely as -Theta and -W: the mean over the four signs is already the mean
    signs = [(one, other) for one in (-1, 1) for other in (-1, 1)]
    ends = [AttentionLayer(theta=one * path.nice.theta, w=other * path.nice.w) for one, other in signs]
    outputs = [replace(path, nice=nice).point(0.0, projections=0.5).layer(_X) for nice in ends]
    np.testing.assert_allclose(
        np.mean(outputs, axis=0), path.point(0.0, projections=0.5).known(_X), atol=1e-12
    )


def test_visible_share_falls_from_nearly_linear_heads_to_the_parity(path: ParityPath) -> None:
    early, late, end = (path.point(t).visible_share(_X) for t in (0.1, 0.95, 1.0))
    assert early is not None
    assert late is not None
    assert end is not None
    assert early > 0.98 > late > end > 0
    assert path.point(0.0).visible_share(_X) is None


def test_visible_share_is_all_for_one_bit() -> None:
    # with one bit N is 0 or 1, and everything is linear in it
    path = draw_path(dim=7, bits=1, rng=np.random.default_rng(5))
    assert path.point(1.0).visible_share(_X) == pytest.approx(1.0)


def test_numbers_out_of_the_square_are_refused(path: ParityPath) -> None:
    with pytest.raises(ValueError, match=r"slope is 1\.5: a number from 0 to 1"):
        path.point(0.5, 1.5)


def test_low_rank_end_has_the_ranks_of_the_parity() -> None:
    nice = draw_path(dim=7, bits=3, low_rank=True, rng=np.random.default_rng(6)).nice
    assert np.linalg.matrix_rank(nice.theta).tolist() == [4, 4]
    assert np.linalg.matrix_rank(nice.w).tolist() == [1, 1]


def _measured(learner: str, shape: float, **others: float) -> dict[str, object]:
    cell = {"learner": learner, "dim": 7, "bits": 3, "ends": "generic", "slope": 0.0, "shape": shape}
    cell |= {"projections": shape, "work": 400, "draw": 0, **others}
    return {**cell, **STUDY.measure(rng=np.random.default_rng([7, 8]), **cell)}


def _error(row: dict[str, object]) -> float:
    error = row["error"]
    assert isinstance(error, float)
    return error


@pytest.fixture(scope="module", name="rows")
def _rows() -> list[dict[str, object]]:
    return [
        _measured("newton", 0.0),
        _measured("newton", 1.0),
        _measured("newton", 1.0, projections=0.0),
        _measured("linear", 1.0),
        _measured("elimination", 0.5),
        _measured("elimination", 1.0),
        _measured("elimination", 1.0, slope=1.0),
    ]


def test_newton_is_exact_at_the_nice_end_and_with_the_parity_attention_alone(
    rows: list[dict[str, object]],
) -> None:
    nice, hard, attention_alone = (_error(row) for row in rows[:3])
    assert max(nice, attention_alone) < 1e-9
    assert hard > 0.3


def test_elimination_is_exact_at_the_hard_end_only(rows: list[dict[str, object]]) -> None:
    before, *ends = (_error(row) for row in rows[4:])
    assert before > 0.3
    assert max(ends) < 1e-9


def test_a_linear_predictor_finds_nothing_of_a_parity(rows: list[dict[str, object]]) -> None:
    # beyond the known part of the parity, which is linear, only the mean of all 20 parities is known
    assert _error(rows[3]) > 0.95


def _least(rows: list[dict[str, object]]) -> str:
    title, error = min((("Newton", _error(rows[1])), ("Linear", _error(rows[3]))), key=lambda one: one[1])
    return f"{shown_error(error)}, {title}"


def test_sentence_tells_where_each_learner_works(rows: list[dict[str, object]]) -> None:
    assert STUDY.found(rows) == (
        f"No learner of layers comes below 0.3 on the parity of 3 bits (least {_least(rows)}), and exact recovery ends "
        "between t = 0 and 1; with d = 7, 3 bits and the parity's own slopes these come below 0.3 in the secret's part "
        "in half of the draws or more: Newton only at t = 0, Linear nowhere, Elimination only at t = 1; how far they "
        "reach depends on that threshold: below 0.25 instead it is the same for all, below 0.35 instead it is the same "
        "for all; Newton learns all of it exactly in 1 of 1 at t = 0; of the ingredients Newton learns the parity's "
        "attention with random projections in 1 of 1 draws, both together in 0 of 1 draws."
    )


def _row(error: float, shape: float, *, learner: str = "newton", **others: object) -> dict[str, object]:
    place = {"dim": 9, "bits": 3, "ends": "generic", "slope": 0.0, "shape": shape, "projections": shape}
    return {"learner": learner, **place, "error": error, **others}


def _along(*, nice: float = 1e-14, hard: float = 1.1, apart: float = 1e-14) -> list[dict[str, object]]:
    """Newton on a path whose middle is learned, not exactly; each ingredient alone, and other slopes."""
    return [
        _row(nice, 0.0),
        _row(0.27, 0.5),
        _row(hard, 1.0),
        _row(0.01, 0.5, slope=1.0),
        _row(nice, 0.0, slope=1.0),
        _row(hard, 1.0, slope=1.0),
        _row(nice, 0.0, ends="low rank"),
        _row(apart, 1.0, projections=0.0),
        _row(1e-14, 0.0, projections=1.0),
        _row(1e-14, 1.0, learner="elimination"),
    ]


def _headline(rows: list[dict[str, object]]) -> str:
    return STUDY.found(rows).partition("; ")[0]


def test_headline_says_what_stops_newton_and_where_it_is_exact() -> None:
    assert _headline(_along()) == (
        "No learner of layers comes below 0.3 on the parity of 3 bits (least 1.1, Newton), exact recovery ends between "
        "t = 0 and 0.5, and neither steep slopes, the parity's ranks, its projections nor its attention alone stops "
        "Newton, the last two together do"
    )
    assert _headline(_along(apart=0.9)).endswith("and Newton is stopped by its attention alone")
    learned = _headline(_along(hard=0.02))
    assert learned.startswith(
        "With 3 hidden bits learners of layers learn the parity in 2 of 2 runs, exact recovery"
    )
    assert learned.endswith("alone stops Newton")
    partly = _headline([*_along(), _row(0.46, 1.0, learner="adam", slope=1.0)])
    assert "below 0.3 on the parity of 3 bits (least .46, Adam (8 heads) at 8 times the slopes)" in partly


def test_headline_claims_no_parity_of_a_path_that_does_not_reach_it() -> None:
    assert "on the parity" not in _headline([row for row in _along() if row["shape"] != 1])


def test_figures_tell_other_thresholds_slopes_and_sizes() -> None:
    found = STUDY.found([*_along(), _row(1e-14, 1.0, bits=1), _row(1.0, 1.0, bits=2)])
    assert "below 0.25 instead it is Newton only at t = 0, below 0.35 instead it is the same for all" in found
    assert "draws learned at 8 times the slopes and t = 0, 0.5: Newton 1, 1 of 1;" in found
    assert (
        "Newton learns the parity of 1 bit at d = 9 in 1 of 1 draws, 2 bits at d = 9 in 0 of 1 draws" in found
    )


def test_figures_tell_that_steep_slopes_do_not_stop_newton_against_what_was_expected() -> None:
    words = "though slopes of sigma 16 were expected to stop it"
    assert words in STUDY.found(_along())
    assert f"1 of 1 draws with 28 counting floors of examples, {words}" in STUDY.found(
        [{**row, "examples": 14 * 9**2} for row in _along()]
    )
    assert words not in STUDY.found(_along(nice=0.5))


def test_slopes_are_told_at_every_share_even_where_success_comes_back() -> None:
    back = [_row(error, t, slope=1.0) for t, error in ((0.8, 1e-14), (0.9, 0.5), (0.95, 1e-14), (1.0, 1.1))]
    linear = [_row(2.0, t, slope=1.0, learner="linear") for t in (0.8, 0.9, 0.95)]
    words = "draws learned at 8 times the slopes and t = 0.8, 0.9, 0.95: Newton 1, 0, 1 of 1, Linear none"
    assert words in STUDY.found([*back, *linear])


def test_a_nice_layer_that_the_six_phases_miss_is_put_down_to_their_budget() -> None:
    words = "leave .21 of a nice layer at 8 times the slopes, from at most 39,611 examples"
    missed = _row(0.21, 0.0, slope=1.0, learner="six-phase", examples=39_611)
    assert words in STUDY.found([*_along(), missed])
    assert "of a nice layer at 8 times the slopes, from" not in STUDY.found(
        [*_along(), {**missed, "error": 1e-14}]
    )


def test_figures_tell_the_one_ingredient_with_part_of_the_other() -> None:
    rows = [*_along(), _row(1.0, 0.8, projections=1.0), _row(0.01, 1.0, projections=0.8)]
    assert STUDY.found(rows).endswith(
        "Newton learns with the parity's own projections and attention at a = 0.8 0 of 1 draws, and with its own "
        "attention and projections at b = 0.8 1 of 1 draws."
    )


@pytest.mark.parametrize("place", range(7))
def test_study_does_with_one_row(rows: list[dict[str, object]], place: int) -> None:
    assert STUDY.found(rows[place : place + 1]).endswith(".")
    table = STUDY.table(rows[place : place + 1])
    assert len(table.rows) <= 1


@pytest.mark.slow
def test_study_draws_all_rows_and_one(rows: list[dict[str, object]]) -> None:
    assert "Elimination" in STUDY.draw(rows).svg
    lost = {**rows[0], "error": None}
    assert "&gt;9" in STUDY.draw([lost]).svg


@pytest.mark.parametrize("scale", Scale)
def test_cells_are_distinct_and_fit_the_table(scale: Scale) -> None:
    cells = STUDY.cells(scale)
    assert len({json.dumps(cell) for cell in cells}) == len(cells)
    quick = scale is Scale.QUICK
    assert {cell["work"] for cell in cells if cell["learner"] == "adam"} == {_QUICK_STEPS if quick else 1500}
    blank = {"error": 0.5, "visible_share": None}
    assert main_family(cells) == (8 if quick else 12, 3)
    assert len(STUDY.table([{**cell, **blank} for cell in cells]).rows) <= 25


def test_reach_names_the_points_that_are_learned() -> None:
    from arena.studies._path_rows import Place

    places = [Place("newton", 8, 3, "generic", 0.0, t, t) for t in (0.0, 0.5, 1.0)]
    good, bad = [0.1, 0.2], [0.9, 1.1]
    words = {
        (1, 1, 1): "everywhere",
        (0, 0, 0): "nowhere",
        (1, 1, 0): "up to t = 0.5",
        (0, 1, 1): "from t = 0.5 on",
        (1, 0, 1): "at t = 0 and 1",
        (0, 0, 1): "only at t = 1",
    }
    for learned, said in words.items():
        path = {place: good if one else bad for place, one in zip(places, learned, strict=True)}
        assert reach(path) == said


def test_errors_are_shown_in_few_characters() -> None:
    shown = [shown_error(error) for error in (0.0, 2e-15, 0.004, 0.04, 0.54, 0.999, 1.06, float("inf"))]
    assert shown == ["0", "2e-15", "4e-3", ".04", ".54", "1.0", "1.1", ">9"]
    assert median_error([0.1, float("inf"), float("inf")]) == float("inf")
    assert median_error([0.1, 0.3]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("error", "shown"),
    [(9e-15, "9e-15"), (2.6e-6, "3e-6"), (9.7e-6, "1e-5"), (9.6e-4, "1e-3"), (1.1e-12, "1e-12")],
)
def test_small_errors_are_rounded_not_cut(error: float, shown: str) -> None:
    assert shown_error(error) == shown
    assert float(shown) == pytest.approx(error, rel=0.35)
