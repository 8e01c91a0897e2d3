"""Blocks of checkpoints compute what torch makes of the same tensors; what is no known block is one sentence."""

import json

import numpy as np
import pytest
import safetensors.numpy

from attention import FileFormatError
from attention.checkpoint_blocks import read_checkpoint_block

torch = pytest.importorskip("torch", reason="PyTorch's forward pass is what the conversion is held to")
functional = torch.nn.functional

DIM, HEADS, WIDTH = 6, 2, 10
ROLES = ("query", "key", "value")
NAMES = {  # the names of maps and norms in a layer
    "BERT": [
        *(f"attention.self.{role}" for role in ROLES),
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
        "attention.output.LayerNorm",
        "output.LayerNorm",
    ],
    "DistilBERT": [
        *(f"attention.{letter}_lin" for letter in ("q", "k", "v", "out")),
        "ffn.lin1",
        "ffn.lin2",
        "sa_layer_norm",
        "output_layer_norm",
    ],
    "ALBERT": [
        *(f"attention.{role}" for role in (*ROLES, "dense")),
        "ffn",
        "ffn_output",
        "attention.LayerNorm",
        "full_layer_layer_norm",
    ],
    "ViT": [
        *(f"attention.attention.{role}" for role in ROLES),
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
        "layernorm_before",
        "layernorm_after",
    ],
    "timm": ["attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2", "norm1", "norm2"],
    "GPT-2": ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj", "ln_1", "ln_2"],
    "PyTorch": ["self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2"],
}
LAYERS = {
    "BERT": "bert.encoder.layer.1.",
    "DistilBERT": "transformer.layer.1.",
    "ALBERT": "encoder.albert_layer_groups.0.albert_layers.1.",
    "ViT": "vit.encoder.layer.1.",
    "timm": "blocks.1.",
    "GPT-2": "transformer.h.1.",
    "PyTorch": "layers.1.",
}
GELU, TANH_GELU = functional.gelu, lambda t: functional.gelu(t, approximate="tanh")
# the family, what its config says, and what it then computes: the order of norms, activation, eps, a mask
MODELS = [
    ("BERT", {"hidden_act": "gelu", "layer_norm_eps": 1e-3}, (False, GELU, 1e-3, False)),
    ("BERT", {}, (False, GELU, 1e-12, False)),
    ("DistilBERT", {"activation": "relu"}, (False, torch.relu, 1e-12, False)),
    ("ALBERT", {"hidden_act": "gelu_new"}, (False, TANH_GELU, 1e-12, False)),
    ("ViT", {"layer_norm_eps": 1e-3}, (True, GELU, 1e-3, False)),
    ("timm", {}, (True, GELU, 1e-6, False)),
    ("GPT-2", {"layer_norm_epsilon": 0.1}, (True, TANH_GELU, 0.1, True)),
    ("PyTorch", {"norm_first": True, "activation": "gelu"}, (True, GELU, 1e-5, False)),
    ("PyTorch", {"norm_first": False}, (False, torch.relu, 1e-5, False)),
]


def random_block(seed=0, width=WIDTH):
    """The four maps of attention, the two of the network, and the gains and offsets of the norms."""
    rng = np.random.default_rng(seed)
    shapes = [*[(DIM, DIM)] * 4, (width, DIM), (DIM, width), (DIM,), (DIM,)]
    return [(rng.normal(size=shape), rng.normal(size=shape[0])) for shape in shapes]


def forward(parts, x, *, norm_first, act, eps, causal):
    """What torch makes of the tensors of a block."""
    query, key, value, output, first, second, *norms = (
        [torch.from_numpy(array) for array in part] for part in parts
    )

    def norm(number, z):
        return functional.layer_norm(z, (DIM,), *norms[number], eps)

    def attended(z):
        heads = (
            functional.linear(z, *part).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (query, key, value)
        )
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=causal)
        return functional.linear(mixed.transpose(1, 2).flatten(2), *output)

    def network(z):
        return functional.linear(act(functional.linear(z, *first)), *second)

    x = torch.from_numpy(x)
    if norm_first:
        z = x + attended(norm(0, x))
        return (z + network(norm(1, z))).numpy()
    z = norm(0, x + attended(x))
    return norm(1, z + network(z)).numpy()


def write(folder, family, parts, *, transposed=False, more=(), **config):
    """A checkpoint of the family with one layer, number 1; fewer parts leave out the last ones."""
    names = NAMES[family]
    if len(names) == 6:  # queries, keys and values in one
        fused = tuple(np.concatenate(arrays) for arrays in zip(*parts[:3], strict=True))
        parts = [fused, *parts[3:]]
    tensors = dict(more)
    for name, (weight, bias) in zip(names, parts, strict=False):
        between = "_" if name.endswith("in_proj") else "."
        stem = f"{LAYERS[family]}{name}{between}"
        tensors |= {
            f"{stem}weight": weight.T if transposed and weight.ndim == 2 else weight,
            f"{stem}bias": bias,
        }
    folder.mkdir(exist_ok=True)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": HEADS} | config))
    return folder


@pytest.mark.parametrize(("family", "config", "computes"), MODELS)
def test_a_block_computes_what_its_model_does(tmp_path, family, config, computes):
    norm_first, act, eps, causal = computes
    parts, x = random_block(), np.random.default_rng(1).normal(size=(3, 4, DIM))
    for name, transposed in (("linear", False), ("conv1d", True)):
        if transposed and family != "GPT-2":
            continue
        if family == "GPT-2" and not transposed:  # nanoGPT
            act = GELU
        stored = read_checkpoint_block(
            write(tmp_path / name, family, parts, transposed=transposed, **config), layer=1
        )
        wanted = forward(parts, x, norm_first=norm_first, act=act, eps=eps, causal=causal)
        np.testing.assert_allclose(stored(x), wanted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(stored.block(x), wanted, rtol=0, atol=1e-12)
        act = computes[1]


@pytest.mark.parametrize("width", [DIM, 3 * DIM])
def test_weights_of_gpt2_have_inputs_as_rows_at_every_width(tmp_path, width):
    parts, x = random_block(width=width), np.random.default_rng(1).normal(size=(2, 3, DIM))
    stored = read_checkpoint_block(write(tmp_path, "GPT-2", parts, transposed=True), layer=1)
    wanted = forward(parts, x, norm_first=True, act=TANH_GELU, eps=1e-5, causal=True)
    np.testing.assert_allclose(stored(x), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("stacked", [True, False])
def test_state_dicts_of_torch_s_encoders_compute_what_the_modules_do(tmp_path, norm_first, stacked):
    torch.manual_seed(0)
    settings = {"activation": "gelu", "norm_first": norm_first}
    layer = torch.nn.TransformerEncoderLayer(DIM, HEADS, WIDTH, 0.0, batch_first=True, **settings)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) if stacked else layer
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    (tmp_path / "config.json").write_text(json.dumps({"nhead": HEADS} | settings))
    x = torch.randn(2, 3, DIM, dtype=torch.float64)
    module = (model.layers[1] if stacked else model).double()
    stored = read_checkpoint_block(tmp_path, layer=int(stacked))
    np.testing.assert_allclose(stored(x.numpy()), module(x).detach().numpy(), rtol=0, atol=1e-12)


def test_what_is_assumed_is_said(tmp_path):
    stored = read_checkpoint_block(write(tmp_path, "PyTorch", random_block()), layer=1)
    assert "Assumed: activation relu, eps 1e-05, norm_first false." in stored.notes[-1]


def refused(folder, words, layer=1):
    with pytest.raises(FileFormatError, match=words) as error:
        read_checkpoint_block(folder, layer=layer)
    assert "\n" not in str(error.value)


def test_what_is_no_known_block_is_refused(tmp_path):
    parts, scale = random_block(), {"blocks.1.ls1.gamma": np.ones(DIM)}
    refused(write(tmp_path, "timm", parts, more=scale), r"has 'blocks\.1\.ls1\.gamma', and what it does")
    refused(write(tmp_path, "GPT-2", parts, activation_function="quick_gelu"), "activation is 'quick_gelu'")
    refused(write(tmp_path, "BERT", parts, layer_norm_eps="small"), "eps of the norms is 'small'")
    refused(
        write(tmp_path, "BERT", parts[:6]),
        r"no whole block: .*attention\.output\.LayerNorm\.weight' is missing",
    )
    narrow = [*parts[:4], (parts[4][0][:, :4], parts[4][1]), (parts[5][0][:4], parts[5][1][:4]), *parts[6:]]
    refused(write(tmp_path, "BERT", narrow), "tokens of different dimensions")
    refused(write(tmp_path, "BERT", [*parts[:7], parts[4]]), "no matrices and vectors")
    poisoned = [*parts[:7], (parts[7][0] * np.nan, parts[7][1])]
    refused(write(tmp_path, "BERT", poisoned), "NaN")
    names = {
        f"model.layers.1.self_attn.{letter}_proj.weight": np.eye(DIM) for letter in ("q", "k", "v", "out")
    }
    safetensors.numpy.save_file(names, tmp_path / "model.safetensors")
    refused(tmp_path, "BART's names, and whole blocks are known of BERT, ")
