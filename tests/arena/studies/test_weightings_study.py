"""The study of weightings: its measurements against enumeration and known answers, and what it makes of rows."""

import itertools
import json

import numpy as np
import pytest

from arena.studies._weightings_descent import descend
from arena.studies._weightings_hull import (
    agreement_counts,
    equations_of,
    is_homogeneous,
    one_hot_sum,
    phase_one_bias,
    span_basis,
    span_error,
    usable_rows,
)
from arena.studies._weightings_layers import (
    NormalisedPower,
    NormalisedSigmoid,
    Softmax,
    Sparsemax,
    WeightedLayer,
)
from arena.studies._weightings_rows import TOLERANCES, slope_of
from arena.studies.weightings import STUDY
from attention import BooleanInputs, make_nice_layer, relative_error
from paper_checks import Scale

LINEAR = {
    "softmax": Softmax(),
    "sparsemax": Sparsemax(),
    "shifted power": NormalisedPower(power=4.0, shift=4.0),
    "positive square": NormalisedPower(),
}
every_linear = pytest.mark.parametrize("weighting", LINEAR.values(), ids=LINEAR.keys())


def layer_of(weighting, heads=2, dim=6, rng=0, sigma=2.0):
    nice = make_nice_layer(heads=heads, dim=dim, sigma=sigma, rng=rng)
    return WeightedLayer(theta=nice.theta, w=nice.w, weighting=weighting)


class TestBias:
    @pytest.mark.parametrize("weighting", [Softmax(), Sparsemax()], ids=["softmax", "sparsemax"])
    def test_it_is_the_one_of_the_mean_over_all_inputs(self, weighting):
        layer = layer_of(weighting, dim=2)
        every = np.array(list(itertools.product([-1.0, 1.0], repeat=4))).reshape(-1, 2, 2)
        total = layer.w.sum(axis=0)
        exact = np.mean(
            [x.sum(0)[:, None] * y.sum(0) / 2 for x, y in zip(every, layer(every), strict=True)], axis=0
        )
        bias = phase_one_bias(layer, BooleanInputs(2, 2), examples=40_000, rng=np.random.default_rng(1))
        assert bias == pytest.approx(np.linalg.norm(exact - total) / np.linalg.norm(total), rel=0.05)

    def test_there_is_none_without_attention(self):
        layer = layer_of(NormalisedSigmoid(), sigma=0.0)
        assert phase_one_bias(layer, BooleanInputs(3, 6), examples=100, rng=np.random.default_rng(0)) < 1e-12


class TestAgreement:
    def test_equal_heads_agree_in_every_row(self):
        layer = layer_of(Softmax(), heads=1)
        twice = WeightedLayer(
            theta=np.repeat(layer.theta, 2, axis=0), w=np.repeat(layer.w, 2, axis=0), weighting=Softmax()
        )
        counts = agreement_counts(twice, BooleanInputs(3, 6).sample(50, rng=0), np.array([0.01]))
        assert counts["exact"] == counts["rows"] == 150

    @pytest.mark.parametrize(
        "weighting", [Sparsemax(), NormalisedPower()], ids=["sparsemax", "positive square"]
    )
    def test_counts_are_those_of_a_loop(self, weighting):
        layer, x = layer_of(weighting), BooleanInputs(3, 6).sample(200, rng=2)
        p, z = layer.patterns(x), layer.logits(x)
        exact = useful = uniform = equations = 0
        for n, a in itertools.product(range(200), range(3)):
            one, two = p[n, 0, a], p[n, 1, a]
            told = isinstance(weighting, Sparsemax) or min(z[n, 0, a].max(), z[n, 1, a].max()) > 0
            equal = bool(np.abs(one - two).max() < 1e-12)
            exact += equal and told
            uniform += equal and not told
            shared = {*np.flatnonzero(one)} == {*np.flatnonzero(two)} and len(np.flatnonzero(one)) > 1
            large = min(one[one > 0].min(), two[two > 0].min()) >= 0.05
            here = bool(told and shared and large and np.abs(one - two).max() <= 0.2)
            useful += here
            equations += here * (len(np.flatnonzero(one)) - 1)
        counts = agreement_counts(layer, x, np.array([0.2]))
        assert (counts["exact"], counts["useful"][0], counts["rows"]) == (exact, useful, 600)
        assert (counts["uniform"], counts["equations"][0]) == (uniform, equations)
        assert (uniform > 0) == (not isinstance(weighting, Sparsemax))
        assert exact > 10
        assert useful > 0

    def test_slope_of_a_power_is_its_exponent(self):
        assert slope_of([{"useful": [int(1e9 * t**2) for t in TOLERANCES]}]) == pytest.approx(2.0, abs=1e-4)
        assert slope_of([{"useful": [0, 0, 0, 1]}]) is None


class TestSpan:
    @every_linear
    def test_one_head_satisfies_its_own_equations_and_they_give_it_back(self, weighting):
        layer, x = layer_of(weighting, heads=1, dim=5, sigma=1.0), BooleanInputs(3, 5).sample(600, rng=3)
        pattern = layer.patterns(x)[:, 0]
        contrasts = equations_of(x, pattern, usable_rows(pattern, weighting), weighting)
        np.testing.assert_allclose(contrasts.apply(layer.theta[0]), contrasts.log_ratios, atol=1e-12)
        basis = span_basis(contrasts, 1, homogeneous=is_homogeneous(weighting))
        assert span_error(basis, layer.theta) < 1e-6

    def test_equations_of_another_weighting_do_not(self):
        layer, x = layer_of(Softmax(), heads=1, dim=5), BooleanInputs(3, 5).sample(300, rng=3)
        pattern = layer.patterns(x)[:, 0]
        contrasts = equations_of(x, pattern, usable_rows(pattern, Softmax()), Sparsemax())
        assert np.abs(contrasts.apply(layer.theta[0]) - contrasts.log_ratios).max() > 0.1

    def test_a_uniform_pattern_says_nothing_where_no_logit_may_be_positive(self):
        pattern = np.array([[[0.5, 0.5], [0.7, 0.3]]])
        assert np.array_equal(usable_rows(pattern, NormalisedPower()), [[False, True]])
        assert np.array_equal(usable_rows(pattern, Softmax()), [[True, True]])

    def test_one_hot_rows_of_sparsemax_give_the_sum_to_rounding(self):
        layer, inputs = layer_of(Sparsemax(), dim=12), BooleanInputs(2, 12)
        total = layer.w.sum(axis=0)
        crude = total + 0.02 * np.random.default_rng(0).standard_normal((12, 12))
        found = one_hot_sum(layer, inputs, crude, examples=4000, rng=np.random.default_rng(1))
        np.testing.assert_allclose(found, total, atol=1e-12)
        soft = WeightedLayer(theta=layer.theta, w=layer.w, weighting=Softmax())
        found = one_hot_sum(soft, inputs, crude, examples=4000, rng=np.random.default_rng(1))
        assert np.abs(found - total).max() > 1e-4


class TestDescent:
    @pytest.mark.parametrize("weighting", [Softmax(), NormalisedSigmoid()], ids=["softmax", "sigmoid"])
    def test_a_head_is_found_from_a_random_start(self, weighting):
        layer, rng = layer_of(weighting, heads=1, dim=5), np.random.default_rng(4)
        x, fresh = BooleanInputs(3, 5).sample(120, rng=5), BooleanInputs(3, 5).sample(100, rng=6)
        end = descend(x, layer(x), rng.standard_normal((1, 5, 5)) / 5, weighting, passes=300)
        assert relative_error(end.layer(fresh), layer(fresh)) < 1e-5
        assert end.passes <= 310

    def test_it_stays_where_nothing_is_left(self):
        layer, x = layer_of(Sparsemax(), dim=4), BooleanInputs(3, 4).sample(60, rng=5)
        end = descend(x, layer(x), np.array(layer.theta), Sparsemax(), passes=50)
        assert end.residual < 1e-6


def made_up(cell, place):
    """A row of a cell without the measuring."""
    own = {
        "bias": {"bias": 0.1 / cell["dim"] + 0.001 * place},
        "agreement": {
            "exact": place,
            "uniform": 0,
            "useful": [1, 4, 16, 64],
            "equations": [2, 8, 32, 128],
            "rows": 1000,
        },
        "hull": {
            "crude": 0.1,
            "refined": 1e-3,
            "one_hot": 1e-2,
            "usable": 0.5,
            "span": 0.01 + cell.get("accept", 0),
        },
        "descent": {"error": 1e-9 if place % 2 else 0.5, "residual": 0.1, "passes": 5},
        "newton": {"error": 0.01 * (1 + place), "outcome": "EXACT"},
    }
    return {**cell, **own[cell["part"]]}


@pytest.fixture(name="rows")
def every_row():
    return [made_up(cell, place) for place, cell in enumerate(STUDY.cells(Scale.QUICK))]


def agreeing(weighting, tokens, shares, *, heads=2, uniform=0, equations=1):
    """A row of useful agreement in these shares of a million rows."""
    useful = [round(1e6 * share) for share in shares]
    return {
        "part": "agreement",
        "weighting": weighting,
        "heads": heads,
        "tokens": tokens,
        "dim": 32,
        "draw": 0,
        "exact": 1000,
        "uniform": uniform,
        "useful": useful,
        "equations": [equations * count for count in useful],
        "rows": 1_000_000,
    }


SECOND, FIRST = (np.array([1.0, 2.0, 4.0, 8.0]) ** power for power in (2, 1))


def one_of(part, weighting, **measured):
    """A row of another part."""
    return {"part": part, "weighting": weighting, "heads": 2, "tokens": 2, "dim": 16, "draw": 0, **measured}


class TestHeadline:
    def rows(self, *, sparse=FIRST, three_heads=SECOND):
        return [
            agreeing("softmax", 3, 1e-4 * SECOND, equations=2),
            agreeing("sparsemax", 3, 5e-4 * sparse),
            agreeing("positive square", 3, 4e-4 * sparse, uniform=30_000),
            agreeing("softmax", 2, 0.01 * FIRST),
            agreeing("sparsemax", 2, 2e-3 * FIRST),
            agreeing("softmax", 2, 2e-4 * SECOND, heads=3),
            agreeing("sparsemax", 2, 1e-5 * three_heads, heads=3),
        ]

    def headline(self, rows):
        return STUDY.found(rows).partition("; ")[0]

    def test_it_says_that_sparsity_takes_the_tokens_and_not_the_heads_out_of_the_power(self):
        assert self.headline(self.rows()) == (
            "Against expectation sparse weightings take the tokens, not the heads, out of agreement's power (m-1)(k-1)"
        )
        found = STUDY.found(self.rows())
        assert (
            "softmax 2.0, sparsemax 1.0, z₊² 1.0 at (2,3,32), where (m-1)(k-1) is 2, softmax 2.0, sparsemax 2.0 at "
            "(3,2,32), where (m-1)(k-1) is 2: the support is two tokens, so that of (m-1)(k-1) m-1 is left"
            in found
        )

    @pytest.mark.parametrize("three_heads", [FIRST, None], ids=["first power", "not measured"])
    def test_heads_are_not_said_to_stay_where_they_do_not(self, three_heads):
        rows = self.rows(three_heads=FIRST if three_heads is None else three_heads)
        rows = [row for row in rows if three_heads is not None or row["heads"] == 2]
        assert self.headline(rows).endswith(
            "with sparse weightings agreement of two heads falls with the first power of the tolerance at three "
            "tokens, not the second"
        )
        assert "m-1 is left" not in STUDY.found(rows)

    def test_no_power_is_claimed_where_sparse_weightings_have_softmax_s(self):
        assert "against expectation" not in STUDY.found(self.rows(sparse=SECOND)).lower()

    def test_no_power_is_claimed_without_softmax(self):
        rows = [row for row in self.rows() if row["weighting"] != "softmax"]
        assert "against expectation" not in STUDY.found(rows).lower()

    def test_phases_stand_only_where_they_do(self):
        bias = [one_of("bias", "softmax", bias=0.06), one_of("bias", "sparsemax", bias=0.07)]
        hull = [one_of("hull", name, accept=0.001, span=0.005) for name in ("softmax", "sparsemax")]
        assert self.headline([*bias, *hull]) == (
            "Phase 1 stands without exp, and so does the span where patterns give linear equations"
        )
        bias[1]["bias"] = 0.5
        assert self.headline([*bias, *hull]).startswith("The span is found without exp")
        hull[1]["span"] = 0.5
        assert self.headline([*bias, *hull]).startswith("Phase 1 is biased")

    def test_weightings_no_descent_was_exact_with_are_named(self):
        rows = [
            one_of("descent", name, floors=floors, error=error, passes=passes)
            for name, floors, error, passes in (
                ("softmax", 4, 1e-9, 80),
                ("softmax", 8, 1e-9, 80),
                ("sparsemax", 4, 0.3, 601),
                ("sparsemax", 8, 1e-9, 200),
                ("square", 4, 0.5, 602),
                ("square", 8, 0.5, 100),
            )
        ]
        assert self.headline(rows) == "Against expectation a descent fails in every run with z²"
        found = STUDY.found(rows)
        assert "from 4 and 8 floors softmax 1/1 and 1/1, sparsemax 0/1 and 1/1, z² 0/1 and 0/1" in found
        assert "so many had spent their 600 evaluations: sparsemax 1 of 1, z² 1 of 2" in found
        assert (
            "exact in no run from the fewest examples and in most from the most: sparsemax" in found.lower()
        )
        rows[0]["error"] = 0.5
        assert "against expectation" not in STUDY.found(rows).lower()

    def test_spans_are_told_for_every_share_of_rows(self):
        rows = [
            one_of("hull", name, accept=accept, span=span)
            for name, spans in (("softmax", (0.004, 0.0005)), ("positive square", (0.55, 0.007)))
            for accept, span in zip((0.01, 0.001), spans, strict=True)
        ]
        assert (
            "from the best 1 % / 0.1 % of rows off by softmax 0.004 / 0.0005, z₊² 0.55 / 0.007"
            in STUDY.found(rows)
        )

    def test_nothing_is_told_of_agreement_that_was_not_measured(self):
        cell = next(cell for cell in STUDY.cells(Scale.QUICK) if cell["part"] == "bias")
        assert STUDY.found([made_up(cell, 0)]).startswith("Phase 1 is biased")

    def test_rows_of_two_tokens_alone_are_not_taken_for_three(self):
        found = STUDY.found([row for row in self.rows() if row["tokens"] == 2 and row["heads"] == 2])
        assert found.startswith("Useful agreement falls with the tolerance to the power softmax 1.0")
        assert "(2,3,32)" not in found

    def test_figures_tell_uniform_rows_equations_and_frequencies(self):
        found = STUDY.found(self.rows())
        assert "uniform for want of a positive weight in z₊² 0.03" in found
        assert "a row useful to 0.08 gives so many equations: softmax 2.00, sparsemax 1.00, z₊² 1.00" in found
        assert "sparsemax 5 and 0.62, z₊² 4 and 0.5 at (2,3,32)" in found
        assert "sparsemax 0.05 and 0.05 at (3,2,32) (to 0.01 in rows: softmax 200, sparsemax 10)" in found

    def test_the_table_has_the_shares(self):
        table = STUDY.table(self.rows())
        first, last = (table.header.index(f"useful to {tolerance}") for tolerance in ("0.01", "0.08"))
        assert [(row[first], row[last]) for row in table.rows] == [
            ("1.0e-04", "6.4e-03"),
            ("5.0e-04", "4.0e-03"),
            ("4.0e-04", "3.2e-03"),
        ]


class TestStudy:
    @pytest.mark.parametrize("scale", list(Scale), ids=lambda scale: scale.value)
    def test_cells_are_distinct(self, scale):
        cells = [json.dumps(cell, sort_keys=True) for cell in STUDY.cells(scale)]
        assert len(cells) == len(set(cells))

    @pytest.mark.slow
    def test_all_rows_make_a_sentence_a_table_and_a_figure(self, rows):
        found = STUDY.found(rows)
        for part in ("phase 1", "exactly equal", "power", "span", "L-BFGS", "Newton"):
            assert part.lower() in found.lower()
        assert len(STUDY.table(rows).rows) == 6
        assert "<svg" in STUDY.draw(rows).svg

    @pytest.mark.slow
    def test_so_does_each_row_alone(self, rows):
        for part in ("bias", "agreement", "hull", "descent", "newton"):
            one = [next(row for row in rows if row["part"] == part)]
            assert STUDY.found(one).endswith(".")
            assert len(STUDY.table(one).rows) <= 1
            assert "<svg" in STUDY.draw(one).svg

    def test_a_measurement_is_plain_and_the_same_again(self):
        cell = {
            "part": "descent",
            "weighting": "softmax",
            "heads": 1,
            "tokens": 2,
            "dim": 4,
            "draw": 0,
            "floors": 8,
        }
        first, second = (STUDY.measure(rng=np.random.default_rng(3), **cell) for _ in range(2))
        assert json.loads(json.dumps(first, allow_nan=False)) == second
