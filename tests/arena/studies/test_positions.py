"""The study of positions: the derived biases by enumeration of all inputs, and what it makes of rows."""

import itertools
import json

import numpy as np
import pytest

from arena.studies._positions import (
    gram_condition,
    phase_one_errors,
    positions_of,
    predicted_biases,
    projection_sums,
)
from arena.studies.positions import STUDY
from attention import AttentionLayer, make_nice_layer
from paper_checks import Scale

K, D = 2, 3
EVERY = np.array(list(itertools.product([-1.0, 1.0], repeat=K * D))).reshape(-1, K, D)
POSITIONS = positions_of("gaussian", K, D, scale=0.8, normal=np.random.default_rng(5).standard_normal((K, D)))


def nice(sigma=2.0):
    return make_nice_layer(heads=2, dim=D, sigma=sigma, rng=1)


class TestPhaseOne:
    def test_without_attention_the_mean_is_the_derived_one(self):
        layer, x = nice(sigma=0.0), EVERY + POSITIONS
        sums, total, mean = (
            projection_sums(x, layer(x), POSITIONS),
            layer.w.sum(axis=0),
            POSITIONS.mean(axis=0),
        )
        np.testing.assert_allclose(sums["as it is"], total + K * np.outer(mean, mean) @ total, atol=1e-12)
        np.testing.assert_allclose(sums["known positions"], total, atol=1e-12)
        np.testing.assert_allclose(sums["centred"], total, atol=1e-12)
        derived = predicted_biases(layer, POSITIONS, x)
        assert phase_one_errors(sums, layer)["as it is"] == pytest.approx(derived[0])
        assert derived[1] == pytest.approx(0.0, abs=1e-12)

    def test_known_positions_and_centring_have_the_same_mean_with_attention(self):
        layer, x = nice(), EVERY + POSITIONS
        sums = projection_sums(x, layer(x), POSITIONS)
        np.testing.assert_allclose(sums["known positions"], sums["centred"], atol=1e-12)
        assert not np.allclose(sums["known positions"], sums["as it is"], atol=0.01)

    def test_what_positions_add_after_centring_is_the_derived_term_to_first_order(self):
        small = AttentionLayer(theta=1e-4 * nice().theta, w=nice().w)
        with_them = projection_sums(EVERY + POSITIONS, small(EVERY + POSITIONS), POSITIONS)["centred"]
        without = projection_sums(EVERY, small(EVERY), np.zeros((K, D)))["centred"]
        added = np.linalg.norm(with_them - without) / np.linalg.norm(small.w.sum(axis=0))
        assert added > 1e-6
        assert added == pytest.approx(predicted_biases(small, POSITIONS, EVERY + POSITIONS)[1], rel=1e-2)


class TestPositions:
    @pytest.mark.parametrize("kind", ["sinusoidal", "gaussian", "one-hot"])
    def test_each_has_the_norm_of_a_token_times_the_scale(self, kind):
        rows = positions_of(kind, 3, 8, scale=0.5, normal=np.random.default_rng(0).standard_normal((3, 8)))
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 0.5 * np.sqrt(8))

    def test_other_kinds_are_refused(self):
        with pytest.raises(ValueError, match="one of sinusoidal, gaussian, one-hot"):
            positions_of("rotary", 2, 4, scale=1.0, normal=np.zeros((2, 4)))

    def test_parallel_positions_condition_the_gram_matrix_worse(self):
        layer = make_nice_layer(heads=1, dim=D, sigma=0.0, rng=1)
        # without attention a read is the mean token: Gram matrix I/k + pi'^T pi'
        parallel = np.tile(POSITIONS[:1], (K, 1))
        assert gram_condition(layer, EVERY) == pytest.approx(1.0)
        assert gram_condition(layer, EVERY + parallel) == pytest.approx(1 + K * np.sum(POSITIONS[0] ** 2))


def made_up(cell, place):
    """A row of a cell without the measuring."""
    both = {"as it is": 0.1 + place, "centred": 0.2}
    own = {
        "phases": {
            "crude": both,
            "predicted": both,
            "refined": {"as it is": None, "centred": 1e-3},
            "span": {"as it is": None, "centred": 1e-2},
            "final": {"as it is": None, "centred": 1e-12},
            "failed": {"as it is": 3, "centred": None},
        },
        "newton": {"error": 1e-15, "outcome": "EXACT", "passes": 100, "condition": 12.0},
        "adam": {"error": 1e-3},
    }
    return {**cell, **own[cell["part"]]}


@pytest.fixture(name="rows")
def every_row():
    return [made_up(cell, place) for place, cell in enumerate(STUDY.cells(Scale.QUICK))]


class TestStudy:
    @pytest.mark.parametrize("scale", list(Scale), ids=lambda scale: scale.value)
    def test_cells_are_distinct(self, scale):
        cells = [json.dumps(cell, sort_keys=True) for cell in STUDY.cells(scale)]
        assert len(cells) == len(set(cells))

    def test_all_rows_make_a_sentence_a_table_and_a_figure(self, rows):
        found = STUDY.found(rows)
        for part in ("phase 1", "six phases", "Newton", "Adam"):
            assert part in found
        assert "after Newton's iterates, which end phase 6, the six phases are exact" in found
        assert "0 of 2 at scale 2 (2 centred)" in found
        assert len(STUDY.table(rows).rows) == 7
        assert "<svg" in STUDY.draw(rows).svg

    def test_so_does_each_row_alone(self, rows):
        for row in rows:
            assert STUDY.found([row]).endswith(".")
            assert len(STUDY.table([row]).rows) == 1
        for part in ("phases", "newton", "adam"):
            assert "<svg" in STUDY.draw([next(row for row in rows if row["part"] == part)]).svg

    def test_a_measurement_is_plain_and_newton_is_exact_on_small_positions(self):
        cell = {
            "part": "newton",
            "heads": 1,
            "tokens": 2,
            "dim": 4,
            "kind": "sinusoidal",
            "scale": 0.5,
            "floors": 4,
            "draw": 0,
        }
        found = STUDY.measure(rng=np.random.default_rng(3), **cell)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["error"] < 1e-9


def phases(kind, scale, *, raw=(0.1, 0.001, 0.01), centred=(0.1, 0.001, 0.01), tokens=2, final=1e-12):
    """A row of the phases by the errors of phase 1, of phase 3 and of the span."""
    cell = {
        "part": "phases",
        "heads": 2,
        "tokens": tokens,
        "dim": 16,
        "kind": kind,
        "scale": scale,
        "draw": 0,
    }
    stages = {
        what: {"as it is": one, "centred": other}
        for what, one, other in zip(("crude", "refined", "span"), raw, centred, strict=True)
    }
    both = {"as it is": final, "centred": final}
    return {**cell, **stages, "predicted": both, "final": both, "failed": {"as it is": None, "centred": None}}


def solved(scale, error=1e-12, *, kind="gaussian", floors=4, condition=2.0):
    cell = {
        "part": "newton",
        "heads": 2,
        "tokens": 2,
        "dim": 16,
        "kind": kind,
        "scale": scale,
        "floors": floors,
        "draw": 0,
    }
    return {**cell, "error": error, "outcome": "EXACT", "passes": 1, "condition": condition}


def by_adam(kind, scale, error):
    return {
        "part": "adam",
        "heads": 2,
        "tokens": 2,
        "dim": 16,
        "kind": kind,
        "scale": scale,
        "draw": 0,
        "error": error,
    }


class TestWhatBreaksFirst:
    def answer(self, *rows):
        plain = [phases("none", 0.0), phases("none", 0.0, tokens=3)]
        return STUDY.found([*plain, solved(0.5), solved(1.0), solved(2.0, 0.3), *rows]).split("; ")[0]

    def test_the_phase_whose_error_doubles_at_the_least_scale_is_named(self):
        first = phases("gaussian", 0.5, raw=(0.3, 0.001, 0.01))
        then = phases("gaussian", 1.0, raw=(0.5, 0.003, 0.03))
        assert "phase 1 breaks first, at about scale 0.5," in self.answer(first, then)
        spans = phases("gaussian", 0.5, raw=(0.1, 0.001, 0.05))
        assert "the span breaks first, at about scale 0.5," in self.answer(spans, then)
        none = phases("gaussian", 0.5)
        assert "no phase is off by twice as much" in self.answer(none)

    def test_phases_just_below_and_just_above_the_threshold_break_together(self):
        rows = [
            phases("gaussian", 0.25, raw=(0.1994, 0.00233, 0.01)),
            phases("gaussian", 0.5, raw=(0.7, 0.028, 0.011)),
        ]
        assert "phases 1 and 3 break first, at about scale 0.25" in self.answer(*rows)

    def test_the_scale_is_found_between_two_measured_ones(self):
        rows = [
            phases("gaussian", 0.5, raw=(0.1, 0.001, 0.01)),
            phases("gaussian", 2.0, raw=(0.4, 0.001, 0.01)),
        ]
        assert "phase 1 breaks first, at about scale 1," in self.answer(*rows)

    def test_each_k_is_judged_by_its_own_baseline(self):
        rows = [
            phases("gaussian", 0.5, raw=(0.3, 0.001, 0.01)),
            phases("gaussian", 0.5, raw=(0.1, 0.1, 0.01), tokens=3),
        ]
        assert (
            "phase 1 breaks first, at about scale 0.5 (k = 2) and phase 3 breaks first, at about scale 0.5 (k = 3)"
            in self.answer(*rows)
        )

    def test_an_exact_end_after_newton_does_not_mend_the_span(self):
        lost = phases("gaussian", 1.0, raw=(5.0, 0.5, 0.98), centred=(0.1, 0.001, 0.9))
        answer = self.answer(lost)
        assert answer.endswith("and centring by position does not mend all that breaks")
        found = STUDY.found([phases("none", 0.0), solved(1.0), lost])
        assert "but 2 of all 2 such ends began at a span that was off by over 0.5" in found
        kept = phases("gaussian", 1.0, raw=(5.0, 0.5, 0.01))
        assert self.answer(kept).endswith("and centring mends that for Gaussian positions")
        both = self.answer(lost, phases("sinusoidal", 1.0, raw=(5.0, 0.5, 0.01)))
        assert both.endswith("and centring mends that for sinusoidal positions only")

    def test_what_larger_logits_alone_explain_is_not_put_down_to_positions(self):
        off = (5.0, 0.5, 0.03)
        lost = phases("gaussian", 1.0, raw=off, centred=(0.1, 0.001, 0.03))
        control = phases("larger logits", 1.0, raw=(0.1, 0.001, 0.03), centred=(0.1, 0.001, 0.03))
        assert self.answer(lost).endswith("and centring by position does not mend all that breaks")
        assert self.answer(lost, control).endswith("and centring mends that for Gaussian positions")
        same = phases("larger logits", 1.0, raw=off, centred=off)
        assert "no phase is off by twice as much as with larger logits alone" in self.answer(lost, same)

    def test_newton_from_random_starts_is_told_by_its_own_runs_and_budgets(self):
        row = phases("gaussian", 0.5, raw=(0.3, 0.001, 0.01))
        few = "Newton is exact up to scale 1, at scale 2 in 0 of 1 runs with 4 counting floors of examples"
        assert f"{few}, phase 1" in self.answer(row)
        assert f"{few} and 1 of 1 with 28, phase 1" in self.answer(row, solved(2.0, floors=28))
        assert "Newton is exact at scale 0.5 in 0 of 1" in STUDY.found(
            [phases("none", 0.0), row, solved(0.5, 0.2)]
        )

    def test_more_examples_are_no_part_of_the_table_and_figure_of_the_fewest(self):
        rows = [phases("gaussian", 2.0), solved(2.0, 0.3), solved(2.0, 1e-12, floors=28)]
        (line,) = STUDY.table(rows).rows
        assert line[7].startswith("0 of 1 (")
        assert line[7].endswith("; 1 of 1 at 28 floors")
        assert STUDY.draw(rows).svg == STUDY.draw(rows[:2]).svg

    def test_the_worst_gram_matrix_without_harm_is_told_against_the_expectation(self):
        control = solved(2.0, 0.3, kind="larger logits", condition=5.0)
        words = (
            "Newton at scale 2 is exact in 1 of 1 (sinusoidal), 0 of 1 (no positions, larger logits) with 4 counting "
            "floors of examples; with 4 counting floors Newton does best on sinusoidal positions, whose Gram matrix "
            "has the largest condition number (533), contrary to what was expected"
        )
        assert words in STUDY.found([solved(2.0, kind="sinusoidal", condition=533.0), control])
        harmed = STUDY.found([solved(2.0, 0.3, kind="sinusoidal", condition=533.0), control])
        assert "contrary to what was expected" not in harmed

    def test_adam_is_told_with_its_control(self):
        rows = [
            by_adam("none", 0.0, 1e-4),
            by_adam("gaussian", 2.0, 0.06),
            by_adam("larger logits", 2.0, 0.079),
        ]
        assert STUDY.found(rows) == (
            "Adam's error is 0.0001 without positions, at scale 2 0.06 (Gaussian), 0.079 (no positions, larger logits)."
        )

    def test_every_k_has_rows_in_the_table(self):
        table = STUDY.table(
            [phases("gaussian", 1.0), phases("gaussian", 1.0, tokens=3, centred=(0.1, 0.1, 0.9))]
        )
        assert [row[0] for row in table.rows] == ["2", "3"]
        assert table.rows[1][5] == "9.0e-01"
