"""Every public function of `attention`, called with what a user may give it by mistake."""

import json
from pathlib import Path

import numpy as np
import pytest
from fuzzing import (
    Argument,
    Given,
    Sizes,
    Subject,
    anything,
    array,
    assert_finite,
    choice,
    fixed,
    made,
    missing_subjects,
    real,
    seed,
    whole,
)
from hypothesis import strategies as st
from weightings import WEIGHTING_SUBJECTS

import attention
from attention import (
    AttentionLayer,
    BooleanInputs,
    ConstantCoordinateInputs,
    ExampleOracle,
    GaussianInputs,
    GroundTruth,
    PositionedInputs,
    SliceInputs,
    SphereInputs,
)


def layer(m=2, d=3, rng=0):
    return attention.make_nice_layer(heads=m, dim=d, rng=rng)


def a_layer(m=2, d=3):
    return made(lambda: layer(m, d), f"<layer {m} {d}>")


def an_oracle(m=2, k=2, d=3):
    return made(lambda: ExampleOracle(layer(m, d), BooleanInputs(k, d), rng=0), f"<oracle {m} {k} {d}>")


def some_inputs(k=2, d=3):
    return anything(
        st.sampled_from(
            [
                fixed(BooleanInputs(k, d)),
                fixed(GaussianInputs(k, d)),
                fixed(SphereInputs(k, d)),
                fixed(PositionedInputs(BooleanInputs(k, d), np.ones((k, d)))),
            ]
        )
    )


def plain(x):
    """Anything array-like in double precision."""
    return np.asarray(x.detach().double() if hasattr(x, "detach") else x, dtype=float)


def precision(*arrays):
    kinds = [str(one.dtype).rpartition(".")[2] for one in arrays if hasattr(one, "dtype")]
    kinds = ["float16" if kind == "bfloat16" else kind for kind in kinds]
    eps = {"float16": 1e-2, "float32": 1e-6}
    # the widest of them is computed in
    return min([eps.get(kind, 1e-14) for kind in kinds if "float" in kind] or [1e-14])


# ------------------------------------------------------------------------------------------- what is right


def layer_is_right(result, given):
    theta, w = plain(given["theta"]), plain(given["w"])
    assert result.theta.shape == theta.shape
    np.testing.assert_allclose(plain(result.theta), theta, rtol=1e-2, atol=0)
    np.testing.assert_allclose(plain(result.w), w, rtol=1e-2, atol=0)
    assert_finite(result)


def made_layer_is_right(result, given):
    heads, dim = int(given["heads"]), int(given["dim"])
    assert result.theta.shape == result.w.shape == (heads, dim, dim)
    assert result.theta.dtype == np.float64
    assert_finite(result)


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def reference(target, x):
    x, theta, w = plain(x), plain(target.theta), plain(target.w)
    logits = np.einsum("...ad,ide,...be->...iab", x, theta, x)
    return logits, np.einsum("...iab,...bd,ide->...ae", softmax(logits), x, w)


def output_is_right(which):
    def right(result, given):
        x, target = given["x"], given["layer"]
        assert_finite(plain(result))
        assert type(result) is type(x) or isinstance(x, np.ndarray)
        logits, outputs = reference(target, x)
        wanted = {"call": outputs, "logits": logits, "patterns": softmax(logits)}[which]
        assert tuple(result.shape) == wanted.shape
        size = float(np.abs(logits).max(initial=1.0))
        # logits in low precision: their rounding, and what the softmax makes of it
        error = precision(x, target.theta) * 50 * max(size, 1.0)
        if error < 0.1:
            np.testing.assert_allclose(
                plain(result), wanted, rtol=error, atol=error * np.abs(wanted).max(initial=0)
            )

    return right


def sample_is_right(result, given):
    n, inputs = int(given["n"]), given["inputs"]
    assert result.shape == (n, inputs.k, inputs.d)
    assert result.dtype == np.float64
    assert_finite(result)


def shape_is_kept(result, given):
    assert (result.k, result.d) == (int(given["k"]), int(given["d"]))


def positions_are_right(result, given):
    assert result.shape == (int(given["k"]), int(given["d"]))
    assert np.abs(result).max() <= abs(float(given["scale"]))
    assert_finite(result)


def oracle_is_right(result, given):
    x, y = result.draw(2)
    assert x.shape == y.shape == (2, result.k, result.d)
    assert_finite((x, y))


def served_is_right(result, given):
    x, y = result.draw(len(given["x"]))
    np.testing.assert_allclose(x, plain(given["x"]), rtol=1e-2)
    np.testing.assert_allclose(y, plain(given["y"]), rtol=1e-2)
    assert_finite((x, y))


def error_is_right(result, given):
    predicted, target = plain(given["predicted"]), plain(given["target"])
    known = 0 if given.get("known") is None else plain(given["known"])
    assert isinstance(result, float)
    assert result >= 0
    scale = np.abs(target - known).max()
    with np.errstate(all="ignore"):
        wanted = np.sqrt(
            (((predicted - target) / scale) ** 2).sum() / (((target - known) / scale) ** 2).sum()
        )
    if np.isfinite(wanted) and precision(*given.values()) < 1e-3:
        assert result == pytest.approx(wanted, rel=1e-3, abs=1e-9)
    assert not np.isnan(result)


def pattern_is_right(result, given):
    assert_finite(plain(result))
    np.testing.assert_allclose(
        plain(result), softmax(plain(given["logits"])), atol=precision(given["logits"]) * 10
    )


def report_is_right(result, given):
    assert len(result.conditions) == 16
    text = str(result)
    assert "nan" not in text
    json.dumps(result.to_json(), allow_nan=False)


def converted_is_right(result, given):
    assert_finite(result.layer)
    assert all(note.endswith(".") for note in result.notes)


def measures_are_right(result, given):
    assert all(np.isfinite(value) and value >= 0 for value in result.values())


def nothing(result, given):
    assert result is None


# ------------------------------------------------------------------------------------------- how it is called


def sampled(inputs, n, rng):
    return inputs.sample(n, rng=rng)


def samplers(kind, make, **how):
    return Subject(
        f"attention.{kind}.sample",
        sampled,
        lambda size: {
            "inputs": Argument(
                st.just(Given(kind, lambda: make(size))), st.just(Given(kind, lambda: make(size)))
            ),
            "n": whole(0, 6),
            "rng": seed(),
        },
        right=sample_is_right,
        **how,
    )


def slice_inputs(size: Sizes):
    return SliceInputs((size.d, 1), tuple((size.d // 2, 1) for _ in range(size.k)))


def made_by(make, **arguments):
    name = make.__name__
    return Subject(f"attention.{name}", make, arguments | {"rng": seed()}, right=made_layer_is_right)


def parameters(size: Sizes):
    return {name: array((size.m, size.d, size.d)) for name in ("theta", "w")}


def outputs(*names):
    return lambda size: {name: array((size.n, size.k, size.d)) for name in names}


def layer_and_x(size: Sizes):
    own = Given("<layer>", lambda: layer(size.m, size.d))
    low = Given("<float32 layer>", lambda: layer(size.m, size.d).map(lambda one: one.astype(np.float32)))
    return {
        "layer": Argument(st.just(own), st.sampled_from([own, low])),
        "x": array((size.n, size.k, size.d)),
    }


def maps(size: Sizes):
    p = 2 * size.m
    shapes = {"query": (p, size.d), "key": (p, size.d), "value": (p, size.d), "output": (size.d, p)}
    biases = {"query_bias": (p,), "output_bias": (size.d,)}
    return {name: array(shape, torch=False) for name, shape in (shapes | biases).items()}


def projections(size: Sizes):
    draw = np.random.default_rng(0).standard_normal
    p, d = 2 * size.m, size.d
    return attention.Projections(
        draw((p, d)), draw((p, d)), draw((p, d)), draw((d, p)), draw(p), None, draw(p)
    )


def a_module():
    import torch

    torch.manual_seed(0)
    return torch.nn.MultiheadAttention(4, 2)


def measured(truth, predict, fitted):
    return truth.measure(predict=predict, layer=fitted)


def mapped(target, convert):
    return target.map(convert)


FOLDER = Path(__file__).parent / "no such folder"


def write_and_read(write, **values):
    """A file that is written to where no folder is, so that nothing is left behind: everything is checked before."""
    return write(**values)


@pytest.fixture(scope="module", autouse=True)
def stored(tmp_path_factory):
    """Files that the readers may read."""
    folder = tmp_path_factory.mktemp("stored")
    FILES.clear()
    attention.save_layer(folder / "layer.safetensors", layer())
    attention.write_examples(folder / "examples.safetensors", np.ones((3, 2, 2)), np.ones((3, 2, 2)))
    np.save(folder / "x.npy", np.ones((3, 2, 2)))
    (folder / "damaged.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    FILES.update({path.stem: path for path in folder.iterdir()}, folder=folder)
    return folder


FILES: dict[str, Path] = {}


def a_file(stem):
    own = Given(stem, lambda: FILES[stem])
    others = st.sampled_from(
        [Given(one, lambda one=one: FILES[one]) for one in ("layer", "examples", "x", "damaged", "folder")]
        + [Given("text", lambda: str(FILES[stem])), Given("none", lambda: FILES["folder"] / "none")]
        + [fixed("a\0b"), fixed("x" * 5000)]
    )
    return Argument(st.just(own), others | anything(None).hostile)


def new_file():
    return anything(Given("new", lambda: FILES["folder"] / "new.safetensors"))


JSON = [
    {"name": "boolean", "k": 2, "d": 3},
    {"name": "slice", "blocks": [2, 1], "weights": [[1, 1]]},
    {"name": "positioned", "inputs": {"name": "sphere", "k": 1, "d": 1}, "positions": [[1.0]]},
    {"name": "constant-coordinate", "inputs": {"name": "gaussian", "k": 1, "d": 1}},
]
BAD_JSON = [
    {"name": "boolean", "k": 2},
    {"name": "boolean", "k": 2, "d": 3, "e": 3},
    {"name": "boolean", "k": "2", "d": None},
    {"name": "slice", "blocks": 3, "weights": [[1, 1]]},
    {"name": "slice", "blocks": [2], "weights": [3]},
    {"name": "positioned", "inputs": {"name": "sphere", "k": 1, "d": 1}, "positions": [["a"]]},
    {"name": "positioned", "inputs": 3, "positions": [[1.0]]},
    {"name": "constant-coordinate", "inputs": []},
    {"name": []},
]

COUNTS = {"heads": whole(), "dim": whole()}
SUBJECTS = [
    *WEIGHTING_SUBJECTS,
    Subject("attention.AttentionLayer", AttentionLayer, parameters, right=layer_is_right),
    Subject(
        "attention.AttentionLayer.call", lambda layer, x: layer(x), layer_and_x, right=output_is_right("call")
    ),
    Subject(
        "attention.AttentionLayer.logits",
        lambda layer, x: layer.logits(x),
        layer_and_x,
        right=output_is_right("logits"),
    ),
    Subject(
        "attention.AttentionLayer.patterns",
        lambda layer, x: layer.patterns(x),
        layer_and_x,
        right=output_is_right("patterns"),
    ),
    Subject(
        "attention.AttentionLayer.map",
        mapped,
        {
            "target": Argument(st.just(Given("<layer>", layer)), st.just(Given("<layer>", layer))),
            "convert": anything(fixed(lambda one: one.astype(np.float32), "<to float32>")),
        },
    ),
    Subject(
        "attention.attention_pattern",
        attention.attention_pattern,
        lambda size: {"logits": array((size.m, size.k))},
        right=pattern_is_right,
    ),
    *[
        Subject(f"attention.{kind.__name__}", kind, {"k": whole(), "d": whole()}, right=shape_is_kept)
        for kind in (BooleanInputs, GaussianInputs, SphereInputs)
    ],
    Subject(
        "attention.SliceInputs",
        SliceInputs,
        {"blocks": anything((2, 3)), "weights": anything(((1, 2), (0, 3)))},
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
        words=("block", "weight"),
    ),
    Subject(
        "attention.PositionedInputs",
        PositionedInputs,
        lambda size: {
            "inputs": some_inputs(size.k, size.d),
            "positions": array((size.k, size.d), torch=False),
        },
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
    ),
    Subject(
        "attention.ConstantCoordinateInputs",
        ConstantCoordinateInputs,
        {"inputs": some_inputs()},
        right=lambda result, given: sample_is_right(result.sample(2, rng=0), {"n": 2, "inputs": result}),
    ),
    samplers("BooleanInputs", lambda size: BooleanInputs(size.k, size.d)),
    samplers("GaussianInputs", lambda size: GaussianInputs(size.k, size.d)),
    samplers("SphereInputs", lambda size: SphereInputs(size.k, size.d)),
    samplers("SliceInputs", slice_inputs),
    samplers(
        "ConstantCoordinateInputs", lambda size: ConstantCoordinateInputs(BooleanInputs(size.k, size.d))
    ),
    samplers(
        "PositionedInputs",
        lambda size: PositionedInputs(GaussianInputs(size.k, size.d), np.ones((size.k, size.d))),
    ),
    # a distribution of enormous matrices is made at once, and refused when it is to be drawn from
    samplers(
        "BooleanInputs.of many coordinates",
        lambda size: BooleanInputs(*((10**6, 10**9) if size.n > 1 else (1, 1))),
        refuses=True,
    ),
    Subject(
        "attention.inputs_from_json",
        attention.inputs_from_json,
        {
            "data": Argument(
                st.sampled_from(JSON).map(fixed),
                st.sampled_from(BAD_JSON).map(fixed) | anything(None).hostile,
            )
        },
        right=lambda result, given: None,
        words=("inputs", "name", "k", "d", "positions", "blocks", "weights"),
    ),
    Subject("attention.inputs_to_json", attention.inputs_to_json, {"inputs": some_inputs()}),
    Subject(
        "attention.sinusoidal_positions",
        attention.sinusoidal_positions,
        {"k": whole(), "d": whole(), "scale": real()},
        right=positions_are_right,
    ),
    Subject(
        "attention.ExampleOracle",
        ExampleOracle,
        {"target": a_layer(), "inputs": some_inputs(), "noise": real(0.0, 1.0), "rng": seed()},
        right=oracle_is_right,
    ),
    Subject(
        "attention.ExampleOracle.from_arrays",
        ExampleOracle.from_arrays,
        outputs("x", "y"),
        right=served_is_right,
    ),
    Subject(
        "attention.ExampleOracle.from_files",
        ExampleOracle.from_files,
        {"x_path": a_file("x"), "y_path": a_file("x")},
        right=lambda result, given: assert_finite(result.draw(1)),
        words=("file", "path", "examples"),
    ),
    Subject(
        "attention.ExampleOracle.draw",
        lambda oracle, n: oracle.draw(n),
        {"oracle": Argument(an_oracle().sane, an_oracle().sane), "n": whole(0, 5)},
        right=lambda result, given: assert_finite(result),
    ),
    Subject(
        "attention.ExampleOracle.split",
        lambda oracle, workers: oracle.split(workers),
        {"oracle": Argument(an_oracle().sane, an_oracle().sane), "workers": whole(1, 5)},
        right=lambda result, given: None,
    ),
    Subject(
        "attention.GroundTruth",
        GroundTruth,
        lambda size: {
            "layer": a_layer(size.m, size.d),
            "x": array((size.n, size.k, size.d), torch=False),
            "known": anything(None),
        },
        right=lambda result, given: assert_finite((result.y, result.y_known)),
    ),
    Subject(
        "attention.GroundTruth.draw",
        GroundTruth.draw,
        {"layer": a_layer(), "inputs": some_inputs(), "n": whole(), "known": anything(None), "rng": seed()},
        right=lambda result, given: assert_finite((result.y, result.y_known)),
    ),
    Subject(
        "attention.GroundTruth.measure",
        measured,
        {
            "truth": Argument(
                *[st.just(Given("<truth>", lambda: GroundTruth.draw(layer(), BooleanInputs(2, 3), 5, rng=0)))]
                * 2
            ),
            "predict": anything(fixed(np.zeros_like, "<zero>")),
            "fitted": a_layer(),
        },
        right=measures_are_right,
        words=("layer", "outputs"),
    ),
    Subject(
        "attention.Recorder",
        attention.Recorder,
        {"oracle": an_oracle(), "truth": anything(None), "progress": anything(None)},
        right=lambda result, given: result.step("one"),
    ),
    Subject(
        "attention.check_budget",
        attention.check_budget,
        {
            "learner": made(lambda: __import__("upper").Newton(m=1, examples=10**4), "<Newton>"),
            "oracle": an_oracle(),
        },
    ),
    Subject("attention.draw_examples", attention.draw_examples, {"oracle": an_oracle(), "n": whole(1, 5)}),
    Subject(
        "attention.parameter_errors",
        attention.parameter_errors,
        lambda size: {"fitted": a_layer(size.m, size.d), "truth": a_layer(size.m, size.d)},
    ),
    Subject(
        "attention.parameter_errors.of any entries",
        lambda fitted, truth: attention.parameter_errors(
            AttentionLayer(theta=fitted, w=fitted), AttentionLayer(theta=truth, w=truth)
        ),
        lambda size: {name: array((size.m, size.d, size.d)) for name in ("fitted", "truth")},
        words=("theta", "w"),
    ),
    Subject(
        "attention.relative_error",
        attention.relative_error,
        outputs("predicted", "target"),
        right=error_is_right,
        words=("outputs",),
    ),
    Subject(
        "attention.unknown_part_error",
        attention.unknown_part_error,
        outputs("predicted", "target", "known"),
        right=error_is_right,
        words=("outputs",),
        refuses=True,  # a target that is its known part has no such error
    ),
    made_by(attention.make_nice_layer, **COUNTS, sigma=real()),
    made_by(attention.make_diagonal_layer, **COUNTS, sigma=real()),
    made_by(
        attention.make_block_diagonal_layer, heads=whole(), dim=whole(3, 5), block=whole(1, 3), sigma=real()
    ),
    made_by(
        attention.make_low_rank_layer,
        heads=whole(),
        dim=whole(3, 5),
        rank=whole(1, 3),
        w_rank=whole(1, 3),
        sigma=real(),
    ),
    made_by(
        attention.make_close_heads_layer, heads=whole(2, 4), dim=whole(3, 5), gap=real(0.0, 1.4), sigma=real()
    ),
    made_by(
        attention.make_repeated_singular_values_layer,
        heads=whole(),
        dim=whole(3, 5),
        multiplicity=whole(2, 3),
        sigma=real(),
    ),
    made_by(attention.make_affinely_dependent_layer, heads=whole(3, 5), dim=whole(3, 5), sigma=real()),
    made_by(
        attention.make_transformer_shaped_layer,
        heads=whole(),
        dim=whole(4, 6),
        rank=whole(1, 3),
        exponent=real(0.0, 1.0),
        incoherence=real(0.0, 0.9),
        strengths=anything((2.0, 8.0)),
    ),
    Subject(
        "attention.check_conditions",
        attention.check_conditions,
        lambda size: {
            "layer": a_layer(size.m, size.d),
            "tokens": whole(),
            "thresholds": anything({"theta_trace": 0.5}),
        },
        right=report_is_right,
    ),
    Subject(
        "attention.check_conditions.of any entries",
        lambda theta, w, tokens: attention.check_conditions(AttentionLayer(theta=theta, w=w), tokens=tokens),
        lambda size: parameters(size) | {"tokens": whole()},
        right=report_is_right,
    ),
    Subject(
        "attention.Projections",
        attention.Projections,
        maps,
        right=lambda result, given: assert_finite(vars(result)),
    ),
    Subject(
        "attention.convert_projections",
        attention.convert_projections,
        lambda size: {
            "projections": made(lambda: projections(size), "<projections>"),
            "heads": choice(1, 2),
            "scale": real(),
            "biases": choice("dropped", "absorbed"),
            "coordinates": whole(size.d, size.d),
            "notes": anything(()),
        },
        right=converted_is_right,
        words=("theta", "w"),
    ),
    Subject(
        "attention.save_layer",
        attention.save_layer,
        {"path": new_file(), "layer": a_layer(), "inputs": some_inputs(), "made": anything({"seed": 3})},
        right=nothing,
        words=("metadata",),
        also=(OSError,),
    ),
    Subject(
        "attention.load_layer",
        attention.load_layer,
        {"path": a_file("layer")},
        words=("file", "theta", "header"),
    ),
    Subject(
        "attention.read_arrays",
        attention.read_arrays,
        {"path": a_file("examples"), "names": anything(["x"])},
        words=("file", "header", "array"),
    ),
    Subject(
        "attention.read_tensors",
        attention.read_tensors,
        {"path": a_file("examples"), "kind": choice("examples", None)},
        words=("file", "header"),
    ),
    Subject(
        "attention.write_examples",
        attention.write_examples,
        lambda size: {"path": new_file()} | outputs("x", "y")(size),
        right=nothing,
        also=(OSError,),
    ),
    Subject(
        "attention.write_tensors",
        attention.write_tensors,
        lambda size: {
            "path": new_file(),
            "kind": anything("things"),
            "tensors": anything({"a": np.ones(2)}),
            "metadata": anything({"b": [1, 2]}),
        },
        right=nothing,
        also=(OSError,),
    ),
    Subject(
        "attention.write_tensors.of any entries",
        lambda path, a: attention.write_tensors(path, "things", {"a": a}, {}),
        lambda size: {"path": new_file(), "a": array((size.m, size.d))},
        right=nothing,
        also=(OSError,),
    ),
]
try:
    import torch  # noqa: F401

    SUBJECTS += [
        Subject(
            "attention.convert_torch_module",
            attention.convert_torch_module,
            {
                "module": made(a_module, "<module>"),
                "biases": choice("dropped", "absorbed"),
                "coordinates": whole(2, 4),
            },
            right=converted_is_right,
        ),
        Subject(
            "attention.AttentionLayer.from_torch",
            AttentionLayer.from_torch,
            {
                "module": made(a_module, "<module>"),
                "biases": choice("dropped", "absorbed"),
                "coordinates": whole(2, 4),
            },
        ),
    ]
except ImportError:
    pass

EXCEPTIONS = {
    "attention.Condition": "a record of what was measured",
    "attention.ConditionReport": "a record of what was measured",
    "attention.ExamplesExhaustedError": "an error",
    "attention.FileFormatError": "an error",
    "attention.Fit": "a record of what was learned",
    "attention.ImportedLayer": "a record of what was converted",
    "attention.Inputs": "a protocol",
    "attention.Learner": "a protocol",
    "attention.LogitEquation": "a record of three arrays",
    "attention.MixedArraysError": "an error",
    "attention.NotEnoughMemoryError": "an error",
    "attention.Outcome": "an enumeration",
    "attention.ParameterErrors": "a record of what was measured",
    "attention.Step": "a record of what was measured",
    "attention.StoredLayer": "a record of what was read",
    "attention.StoredTensors": "a record of what was read",
    "attention.Weighting": "a protocol",
    "attention.read_checkpoint_layer": "its files are tried in tests/attention/test_checkpoints.py",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_every_call_is_answered_rightly_or_refused_in_a_sentence(subject, fuzz):
    fuzz(subject)


def test_every_public_name_is_tried_or_excepted():
    without_torch = [Subject("attention.convert_torch_module", attention.convert_torch_module, {})]
    assert missing_subjects({"attention": attention}, SUBJECTS + without_torch, EXCEPTIONS) == ([], [])
