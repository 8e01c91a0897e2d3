"""A realistic comparison, written by hand: five targets, five learners, two seeds. Makes `lines` importable."""

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from arena import nice_target, save_target
from arena.cli.main import run
from arena.records import Cell, LearnerRecord, Status, TargetRecord, TracePoint
from arena.results import Results
from attention import BooleanInputs, GaussianInputs, Outcome
from attention.inputs import inputs_to_json
from lower import Certificate, Fact, Key, Word
from lower import Status as FactStatus
from runs import engine

sys.path.insert(0, str(Path(__file__).parent))

FACTS = (  # with a number of each type
    Fact(Key.TARGETS, 16215, FactStatus.PROVED, "by counting"),
    Fact(Key.LARGEST_CORRELATION, 5e-15, FactStatus.COMPUTED, "derived here"),
    Fact(Key.QUERIES, 10**30, FactStatus.DERIVED, "derived here", at=0.1),
)
BROKEN = (
    Fact(Key.ASSUMPTION, Word.LWR, FactStatus.ASSUMED, "Banerjee, Peikert and Rosen 2012"),
    Fact(Key.OPERATIONS, 19.6, FactStatus.ESTIMATE, "BKW"),
)
HEADERS = ("condition", "on", "measured", "wanted", "verdict")
CONDITIONS = tuple(
    dict(zip(HEADERS, row, strict=True))
    for row in (
        ("theta_trace", "Theta", "0.49", "<= 0.25", "VIOLATED"),
        ("theta_incoherence", "Theta", "0.0813", "<= 0.25", "holds"),
    )
)
MADE_AND_KNOWN = {
    "nice": ("Theta entries from N(0, (2/32)^2).", "Predicting zero has error 1.0."),
    "parity": (
        "Two heads with slopes 0.5 and 1 add up to the parity of three hidden coordinates (form D).",
        "The part C a_1 [1;1] w^T, the same for every secret, is 46/47 of the energy of the labels.",
    ),
    "lwr": (
        "One head per jump of <v, a> mod 64, rounded to 2 levels, v the secret; and two pads.",
        "The linear part that does not depend on the secret.",
    ),
}


def target(name, title, kind, heads, inputs, seed, **more):
    shape = {"heads": heads, "tokens": inputs.tokens, "dim": inputs.dim, "inputs": inputs_to_json(inputs)}
    how, known = MADE_AND_KNOWN[kind]
    return TargetRecord(name, title, kind, **shape, how=how, known=known, seed=seed, **more)


NICE, HARD = {"conditions": CONDITIONS}, {"certificate": Certificate("sq-parity", FACTS)}
TARGETS = (
    target("nice-2-2-32", "Nice, 2 heads", "nice", 2, BooleanInputs(2, 32), 1, **NICE),
    target("nice-4-4-32", "Nice, 4 heads", "nice", 4, BooleanInputs(4, 32), 2, **NICE),
    target("nice-gaussian", "Nice, Gaussian inputs", "nice", 2, GaussianInputs(2, 32), 3, **NICE),
    target("parity", "Two-head parity", "parity", 2, BooleanInputs(2, 48), 4, **HARD),
    target(
        *("lwr", "Learning with rounding", "lwr", 14, BooleanInputs(2, 25), 5),
        certificate=Certificate("lwr", FACTS + BROKEN),
    ),
)

LEARNERS = (
    LearnerRecord("newton", "Newton", "None is proved: exact on nice targets as measured.", {"restarts": 4}),
    LearnerRecord(
        "adam", "Adam", "None: what one would try first.", {"learning_rate": 0.005, "stop_at": 1e-4}
    ),
    LearnerRecord("linear", "Linear regression", "The best predictor that is linear.", {"examples": 8192}),
    LearnerRecord("known-part", "Known part", "None: it predicts what is known in advance."),
    LearnerRecord(
        "elimination", "Parity elimination", "Finds the secret of a parity.", {"spare_equations": 10}
    ),
)


# of each learner: steps, examples, seconds; on nice and on hard targets the outcome, the first and the last error
_NONE = ("NOT_APPLICABLE", 1.0, 1.0)
_FITS = {
    "newton": (17, 2048, 0.5, ("EXACT", 1.0, 4e-16), ("LOCAL_MINIMUM", 1.4, 1.16)),
    "adam": (60, 768_000, 3.8, ("REACHED_TOLERANCE", 1.1, 9.3e-5), ("WORK_SPENT", 1.13, 1.05)),
    "linear": (1, 8192, 0.02, ("BEST_OF_CLASS", 0.6, 0.6), ("BEST_OF_CLASS", 1.005, 1.005)),
    "known-part": (1, 0, 1e-5, ("BEST_OF_CLASS", 1.0, 1.0), ("BEST_OF_CLASS", 1.0, 1.0)),
    "elimination": (2, 114, 0.004, _NONE, ("EXACT", 1.0, 5e-15)),
}


def _cell(target, learner, seed):
    steps, examples, seconds, *ends = _FITS[learner.name]
    name, first, last = ends[target.certificate is not None]
    if learner.name == "elimination" and target.kind != "parity":
        name = "NOT_APPLICABLE"
    outcome, key = Outcome[name], (target.name, learner.name, seed)
    words = {"outcome": name, "outcome_text": str(outcome), "succeeded": outcome.succeeded}
    if outcome is Outcome.NOT_APPLICABLE:
        return Cell(*key, Status.NOT_APPLICABLE, "The labels take more than two values: no parity.", **words)
    shares, errors = np.arange(1, steps + 1) / steps, np.geomspace(first, last, steps) * (1 + seed / 1000)
    trace = [
        TracePoint(f"step {number}", round(examples * share), seconds * share, error)
        for number, (share, error) in enumerate(zip(shares, errors, strict=True), 1)
    ]
    error = trace[-1].error
    exact = {"theta_error": 3 * error, "w_error": 2 * error} if name == "EXACT" else {}
    measured = {"relative_error": error, "unknown_part_error": error, **exact}
    spent = {"examples_used": examples, "seconds": seconds, "trace": tuple(trace)}
    return Cell(*key, Status.DONE, **words, **measured, **spent)


@pytest.fixture(scope="session")
def sample_results() -> Results:
    """The comparison every test of this folder shows."""
    cells = [_cell(target, learner, seed) for target in TARGETS for learner in LEARNERS for seed in (0, 1)]
    made = {
        "command": "attention-bounds compare --preset quick --seeds 2",
        "preset": "quick",
        "versions": {"attention-bounds": "0.1.0", "python": "3.11.2", "numpy": "2.3.4", "torch": "2.13.0"},
        "seconds": 71.3,
        "seeds": 2,
        "jobs": 2,
    }
    return Results(made, TARGETS, LEARNERS, tuple(cells))


_TIMED_OUT = (Status.TIMED_OUT, "It was stopped after 90 s, the time a fit may take.")
_LOST = {
    ("nice-gaussian", "linear", 0): (Status.FAILED, "LinAlgError: SVD did not converge"),
    ("nice-gaussian", "linear", 1): _TIMED_OUT,
    ("nice-4-4-32", "newton", 1): _TIMED_OUT,
    ("parity", "adam", 0): _TIMED_OUT,
    ("parity", "adam", 1): _TIMED_OUT,
}


@pytest.fixture(scope="session")
def eventful_results(sample_results) -> Results:
    """The same comparison after a bad day: a failure, time-outs, a seed of two lost, and stopped before its end."""
    cells = []
    for cell in sample_results.cells:
        key = (cell.target, cell.learner, cell.seed)
        if key[0] != "lwr" or key[1] in ("newton", "adam"):
            cells.append(Cell(*key, *_LOST[key]) if key in _LOST else cell)
    more = {"interrupted": True, "reused": 12, "timeout": 90.0, "store": "runs.sqlite"}
    return replace(sample_results, made=sample_results.made | more, cells=tuple(cells))


APART = engine._apart


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Cells are computed in this process, unless a test uses `processes`; no line says how far slow work is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runs.progress._FIRST", 1e6)
        patch.setattr(engine, "_apart", lambda cells, *options: engine._here(cells, options[-1]))
        yield


@pytest.fixture
def processes(monkeypatch):
    """Cells are computed in processes of their own, as they are for users."""
    monkeypatch.setattr(engine, "_apart", APART)


@pytest.fixture
def cli(capsys):
    """A call of the command line that ends with the given status, and what it said."""

    def call(*arguments, status=0):
        assert run([str(argument) for argument in arguments]) == status
        return capsys.readouterr()

    return call


VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags and text of a page; what is open when it should not be is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.errors, self.scripts, self.text = [], [], [], [], ""
        self.feed(text)
        self.close()
        self.errors += [f"{tag} is never closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) < len(names):
            self.errors.append(f"{tag} has an attribute twice")
        self.tags.append((tag, dict(attributes)))
        self.text += " "
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    @property
    def links(self):
        names = ("href", "src", "xlink:href")
        return [attributes[name] for _, attributes in self.tags for name in names if name in attributes]

    @property
    def words(self):
        return " ".join(self.text.split())


@pytest.fixture(scope="session")
def parsed():
    """Read a page or a piece of one."""
    return Page


@pytest.fixture(scope="session")
def nice():
    """A target that every learner of whole layers finds."""
    return nice_target(heads=2, tokens=3, dim=8, seed=1)


@pytest.fixture
def file(nice, tmp_path):
    """The file of that target."""
    save_target(tmp_path / "nice.safetensors", nice)
    return tmp_path / "nice.safetensors"


@pytest.fixture(scope="session")
def checkpoint():
    """Write a small model of random weights and biases, named as BERT's or as GPT-2's, into a new folder.

    With a width, its layers are whole blocks.
    """

    def write(
        folder,
        model="bert",
        *,
        heads=2,
        dim=16,
        layers=2,
        width=0,
        dtype=np.float32,
        seed=0,
        name="attention",
    ):
        folder.mkdir(exist_ok=True, parents=True)
        rng, tensors = np.random.default_rng(seed), {}
        stem, word = {
            "bert": ("bert.encoder.layer", "num_attention_heads"),
            "gpt2": ("transformer.h", "n_head"),
        }[model]
        maps = dict.fromkeys(
            (f"{name}.{one}" for one in ("self.query", "self.key", "self.value", "output.dense")), 1
        )
        for number in range(layers):
            for module, parts in (maps if model == "bert" else {"attn.c_attn": 3, "attn.c_proj": 1}).items():
                path = f"{stem}.{number}.{module}"
                tensors[f"{path}.weight"] = rng.normal(size=(dim, parts * dim), scale=dim**-0.5).astype(dtype)
                tensors[f"{path}.bias"] = rng.normal(size=parts * dim, scale=0.2).astype(dtype)
            first, second, *norms = {
                "bert": (
                    "intermediate.dense",
                    "output.dense",
                    f"{name}.output.LayerNorm",
                    "output.LayerNorm",
                ),
                "gpt2": ("mlp.c_fc", "mlp.c_proj", "ln_1", "ln_2"),
            }[model]
            for module, rows, columns in ((first, dim, width), (second, width, dim)) if width else ():
                shape = (columns, rows) if model == "bert" else (rows, columns)
                weight = rng.normal(size=shape, scale=(dim if module == first else 4 * width) ** -0.5)
                tensors[f"{stem}.{number}.{module}.weight"] = weight.astype(dtype)
                bias = rng.normal(size=columns, scale=0.5)
                tensors[f"{stem}.{number}.{module}.bias"] = bias.astype(dtype)
            for module in norms if width else ():
                tensors[f"{stem}.{number}.{module}.weight"] = rng.normal(1, 0.2, size=dim).astype(dtype)
                tensors[f"{stem}.{number}.{module}.bias"] = rng.normal(size=dim, scale=0.1).astype(dtype)
        safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({"model_type": model, word: heads}))
        return folder

    return write
