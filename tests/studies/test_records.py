"""The committed records of all studies: their cells, the pages filled in from them, and the figures that are quoted."""

import pytest

from attention import FileFormatError
from runs import Scale
from studies import STUDIES, find_studies, load_result, write_study
from studies.folder import render_page

FIGURES = {
    "agreement": {
        "worst": "2.5%",
        "lattice_worst": "1.1%",
        "first_excluded": "3 of 3",
        "last_excluded": "0 of 3",
        "signs_first": "1013",
        "lattice_last": "32",
        "gaussian_excluded": "0 of 270",
    },
    "conditions": {
        "random_16": "45 of 100",
        "random_64_on": "114 of 114",
        "untrained_64": "4 of 4",
        "trained": "0 of 28",
        "structured": "0 of 133",
        "trained_incoherent": "28 of 28",
        "untrained_incoherent": "0 of 14",
    },
    "cost": {
        "near": "3 of 8",
        "inside": "3 of 3",
        "not_exact": 0,
        "least_ratio": "0.54",
        "largest_ratio": "1.46",
        "medium_memory": "5.12 GiB",
        "large_memory": "3.86 TiB",
    },
    "inputs": {
        "step_2_2_16": "1 to 1.5",
        "step_4_4_32": "1.5 to 2",
        "step_2_2_32": "1 to 1.5",
        "gaussian_adam_error_32": "2.45 (1.69 to 3.55)",
        "gaussian_paper_refined_16": "0.21 (0.14 to 0.32)",
        "slice_spans": "0 of 27",
    },
    "nice-to-hard": {
        "attention": "5 of 5",
        "projections": "5 of 5",
        "together": "0 of 5",
        "reach_newton": "0, 0.5, 0.8, 0.95",
        "reach_adam": "0, 0.5, 0.8, 0.95",
        "reach_linear": "",
        "exact_until": "0.8",
        "least": "0.46",
    },
    "noise": {
        "newton_covariance": "0.97 to 1.02",
        "refined_breaks": 0.01,
        "span_breaks": 0.01,
        "crude_breaks": None,
        "better_8_2": "1024, 4096, 16384",
        "better_8_4": "1024, 4096, 16384",
    },
    "positions": {
        "newton_until": "1",
        "newton_4": "16 of 48",
        "newton_28": "45 of 48",
        "centred_sinusoidal": "never",
        "gram_2": "533",
        "gram_3": "417",
        "lost": "14 of 146",
    },
    "symmetry": {
        "equal": "66 of 66",
        "parted": "60 of 68",
        "saddles": "20 of 20",
        "steps_plain": "146 to 373",
        "steps_adam": "104 to 135",
        "growth": "0.0009",
        "slope": "1.03 (0.89 to 1.18)",
    },
    "tokens": {"exact_to": 6, "newton": "40 of 41", "exact_false_2": "0 %"},
    "violations": {
        "all": 39,
        "alone": 31,
        "alone_paper_fails": 11,
        "alone_practical_fails": 6,
        "alone_newton_4_fails": 6,
        "alone_newton_28_fails": 0,
        "alone_paper_third": 10,
        "alone_paper_breaks": 16,
    },
    "weightings": {
        "power_23_softmax": "1.8",
        "power_23_sparsemax": "1.0",
        "power_23_positive_square": "1.0",
        "power_32_softmax": "1.8",
        "power_32_sparsemax": "1.8",
        "power_32_positive_square": "2.0",
        "exact_8_softmax": "16 of 16",
        "exact_8_sparsemax": "14 of 16",
        "exact_8_square": "0 of 16",
    },
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_record_has_the_cells_of_its_study_and_fills_its_page(name, record, records):
    (study,) = find_studies([name])
    assert study.name == name
    result = record(name)
    rows, wanted = result.rows, study.cells(result.scale)
    assert result.scale is Scale.FULL
    assert [{key: row[key] for key in cell} for row, cell in zip(rows, wanted, strict=True)] == list(wanted)
    table = study.table(rows)
    assert table
    assert all(list(line) == list(table[0]) for line in table)
    assert all(isinstance(text, str) for line in table for text in line.values())
    assert study.figure(rows).axes
    numbers = study.numbers(rows)
    page = render_page((records / f"{name}.rst").read_text(), study, result)
    assert any(str(number) in page for number in numbers.values())
    assert "{{" not in page
    assert {key: numbers[key] for key in FIGURES.get(name, ())} == FIGURES.get(name, {})


def test_what_is_written_is_read_back(tmp_path, record, records):
    (study,) = find_studies(["linear-random"])
    result = record("linear-random")
    files = write_study(tmp_path, study, result)
    assert {path.suffix for path in files} == {".json", ".csv", ".svg", ".pdf"}
    assert load_result(tmp_path / "linear-random.json") == result
    assert files[1].read_text() == (records / "linear-random.csv").read_text()
    for text in ("", "[]", "{}", '{"version": 2}'):
        files[0].write_text(text)
        with pytest.raises(FileFormatError, match="no record of a study"):
            load_result(files[0])


@pytest.mark.bad_input
def test_no_such_study():
    with pytest.raises(ValueError, match="no study 'nothing'"):
        find_studies(["nothing"])
