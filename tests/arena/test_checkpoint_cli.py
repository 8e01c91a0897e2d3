"""One's own model: from a checkpoint to its conditions, a target, and back by a learner."""

import json

import numpy as np
import pytest
import safetensors.numpy

from arena.cells import fit_target
from arena.comparison import compare
from arena.inspection import inspect
from arena.results import Results
from arena.targets import checkpoint_target, layer_target, load_target, save_target
from attention import BooleanInputs, SphereInputs, convert_torch_module, read_checkpoint_layer
from attention.files import load_layer
from upper import Newton

HEADS, TOKENS, DIM, LAYERS = 4, 4, 32, 3
PREFIXES = {"bert": "bert.encoder.", "gpt2": "transformer."}
both = pytest.mark.parametrize("model", PREFIXES)


def bert(rng, stem):
    modules = [f"attention.self.{role}" for role in ("query", "key", "value")] + ["attention.output.dense"]
    shapes = {f"layer.{n}.{module}": (DIM, DIM) for n in range(LAYERS) for module in modules}
    return parameters(rng, stem, shapes, bias=0)


def gpt2(rng, stem):
    modules = {"attn.c_attn": (DIM, 3 * DIM), "attn.c_proj": (DIM, DIM)}
    shapes = {f"h.{n}.{name}": shape for n in range(LAYERS) for name, shape in modules.items()}
    return parameters(rng, stem, shapes, bias=1)


def parameters(rng, stem, shapes, *, bias):
    """Random weights of variance 1/d and biases; `bias` is the axis that the biases lie along."""
    tensors = {}
    for name, shape in shapes.items():
        tensors[f"{stem}{name}.weight"] = rng.normal(size=shape, scale=DIM**-0.5).astype(np.float32)
        tensors[f"{stem}{name}.bias"] = rng.normal(size=shape[bias], scale=0.2).astype(np.float32)
    return tensors


def write(folder, model, seed=0):
    folder.mkdir(exist_ok=True)
    make = {"bert": bert, "gpt2": gpt2}[model]
    tensors = make(np.random.default_rng(seed), PREFIXES[model])
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    word = {"bert": "num_attention_heads", "gpt2": "n_head"}[model]
    (folder / "config.json").write_text(json.dumps({"model_type": model, word: HEADS}))
    return folder


@pytest.fixture
def folders(tmp_path):
    return {model: write(tmp_path / model, model) for model in PREFIXES}


@both
def test_inspect_shows_the_layer_and_what_was_dropped(cli, folders, model):
    given = ["--layer", 2, "--biases", "dropped"]
    words = cli("inspect", folders[model], *given).out
    said = json.loads(cli("inspect", folders[model], *given, "--json").out)
    naming = {"bert": "BERT", "gpt2": "GPT-2"}[model]
    how = f"Layer 2 of {model}/model.safetensors ({naming} naming, prefix {PREFIXES[model]}): 4 heads of dimension 8"
    assert how in words
    assert "m = 4, k = 4, d = 32, boolean inputs" in words
    assert "ranks: Theta 8, W 8" in words
    for role in ("query", "key", "value", "output"):
        assert f"  - The {role} bias was dropped: " in words
    assert ("causal mask" in words) is (model == "gpt2")
    assert "theta_stable_rank" in words
    assert (said["heads"], said["tokens"], said["dim"]) == (HEADS, TOKENS, DIM)
    assert said["ranks"] == {"theta": [8] * HEADS, "w": [8] * HEADS}
    assert said["file"] == str(folders[model])
    assert said["made"]["parameters"]["head_dim"] == 8
    assert all(note in words for note in said["made"]["notes"])
    assert str(folders[model]) not in words


def test_inspect_takes_every_option(cli, folders):
    options = ["--layer", 1, "--heads", 8, "--prefix", "bert", "--biases", "kept", "--coordinates", 10]
    said = json.loads(cli("inspect", folders["bert"], *options, "--tokens", 3, "--json").out)
    assert (said["heads"], said["tokens"], said["dim"]) == (8, 3, 10)
    assert said["made"]["parameters"]["coordinates"] == 10
    words = cli("inspect", folders["bert"], *options).out
    assert "biases kept, the first 10 of 32 coordinates kept" in words
    assert "8 heads were asked for" in words


@both
@pytest.mark.parametrize("biases", ["kept", "dropped"])
def test_generate_writes_the_layer_with_all_that_is_told_of_it(cli, folders, tmp_path, model, biases):
    path = tmp_path / "layer.safetensors"
    given = ["--layer", 1, "--biases", biases, "--tokens", 3, "--inputs", "sphere"]
    words = cli("generate", "from-checkpoint", folders[model], *given, "-o", path).out
    imported = read_checkpoint_layer(folders[model], layer=1, biases=biases)
    stored = load_layer(path)
    assert stored.layer.theta.tobytes() == imported.layer.theta.tobytes()
    assert stored.layer.w.tobytes() == imported.layer.w.tobytes()
    assert stored.layer.biased is (biases == "kept")
    assert stored.made["notes"] == list(imported.notes)
    assert all(note in words for note in imported.notes)
    assert stored.inputs == SphereInputs(3, DIM)
    target = checkpoint_target(
        folders[model], layer=1, tokens=3, biases=biases, inputs="sphere", name="layer"
    )
    back = load_target(path)
    assert back.record == target.record
    assert back.made == target.made
    assert back.record.kind == "file"
    assert str(inspect(path)) == str(inspect(target))
    assert str(tmp_path) not in back.record.how
    other = load_target(path, tokens=5)
    assert other.record.how == target.record.how  # says nothing of tokens, so nothing wrong
    assert other.layer.dim == other.inputs.d
    said = json.loads(cli("generate", "from-checkpoint", folders[model], *given, "-o", path, "--json").out)
    assert said["made"] == target.made


@pytest.mark.parametrize(("model", "seed"), [("bert", 0), pytest.param("gpt2", 1, marks=pytest.mark.slow)])
def test_newton_learns_a_layer_of_a_checkpoint_exactly(tmp_path, model, seed):
    target = checkpoint_target(write(tmp_path / model, model, seed), layer=seed)
    assert (target.layer.heads, target.inputs) == (HEADS, BooleanInputs(TOKENS, DIM))
    learned_exactly(target, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_newton_learns_a_layer_of_torch_exactly(tmp_path, cli, seed):
    torch = pytest.importorskip("torch", reason="the layer is PyTorch's")
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(DIM, HEADS)
    target = layer_target(convert_torch_module(module).layer, tokens=TOKENS)
    learned_exactly(target, seed)
    path = tmp_path / "torch.safetensors"
    save_target(path, target)
    words = cli("inspect", path).out
    assert "A layer given as arrays" in words
    assert "m = 4, k = 4, d = 32, boolean inputs" in words


def learned_exactly(target, seed):
    fit, measures = fit_target(target, Newton(m=HEADS, biases=target.layer.biased), seed)
    assert fit.outcome.name == "EXACT"
    assert measures["relative_error"] < 1e-12
    assert measures["theta_error"] < 1e-10
    assert measures["w_error"] < 1e-10


@pytest.mark.slow
def test_learn_and_compare_take_the_file(cli, folders, tmp_path):
    path = tmp_path / "layer.safetensors"
    cli("generate", "from-checkpoint", folders["gpt2"], "--layer", 0, "--coordinates", 8, "-o", path)
    said = json.loads(cli("learn", path, "--json").out)
    assert said["outcome"] == "EXACT"
    assert said["theta_error"] < 1e-9
    options = ["--learners", "linear,known-part", "--jobs", 1, "--out", tmp_path / "r", "--json"]
    results = Results.from_json(cli("compare", path, *options).out)
    assert [record.how for record in results.targets] == [load_target(path).record.how]
    assert {cell.status for cell in results.cells} == {"done"}


WRONG = [
    (["inspect", "{bert}"], "give the number of a --layer"),
    (["inspect", "{bert}/model.safetensors"], "needs a layer's number"),
    (["inspect", "{bert}", "--layer", "3"], "has no layer 3"),
    (["inspect", "{bert}", "--layer", "0", "--tokens", "0"], "--tokens is 0"),
    (["inspect", "{layer}", "--heads", "2"], "--heads is for a model's checkpoint"),
    (["inspect", "{layer}", "--biases", "dropped"], "--biases is for a model's checkpoint"),
    (["inspect", "{layer}", "--layer", "0"], "no attention layer named as in BERT"),
    (["inspect", "{dir}/pickle.bin", "--layer", "0"], "safetensors.torch.save_file"),
    (["inspect", "{dir}/damaged", "--layer", "0"], "config is not valid JSON"),
]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("arguments", "complaint"), WRONG, ids=lambda one: " ".join(one) if isinstance(one, list) else ""
)
def test_wrong_input_is_one_line_and_status_two(cli, folders, tmp_path, arguments, complaint):
    (tmp_path / "pickle.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    (write(tmp_path / "damaged", "gpt2") / "config.json").write_text("{")
    layer = tmp_path / "layer.safetensors"
    save_target(layer, checkpoint_target(folders["bert"], layer=0))
    names = {"bert": folders["bert"], "layer": layer, "dir": tmp_path}
    said = cli(*(argument.format(**names) for argument in arguments), status=2)
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert complaint in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "n").exists()


def test_what_is_read_is_never_written_over(cli, folders):
    file = folders["bert"] / "model.safetensors"
    before = file.read_bytes()
    said = cli("generate", "from-checkpoint", folders["bert"], "--layer", 1, "-o", file, status=2)
    assert "take the place of what is read" in said.err
    assert file.read_bytes() == before
    own = folders["bert"] / "own.safetensors"
    try:
        cli("generate", "from-checkpoint", file, "--layer", 1, "-o", own)
        kept = own.read_bytes()
        said = cli("learn", own, "--learner", "newton", "-o", own, status=2)
        assert "take the place of what is read" in said.err
        assert own.read_bytes() == kept
    finally:
        own.unlink(missing_ok=True)


def test_a_comparison_says_what_was_dropped_of_a_model_and_that_it_is_given(folders):
    target = checkpoint_target(folders["gpt2"], layer=1)
    results = compare(target, "known-part", isolated=False)
    page = results.page()
    assert "causal mask" in page
    assert 'class="badge given"' in page
