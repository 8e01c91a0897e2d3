"""Checkpoints with rotary positions compute what their models do, by a forward pass from the definition."""

import json
import math

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention import FileFormatError, RotaryLayer, read_checkpoint_layer
from attention.checkpoint_blocks import read_checkpoint_block

FAMILIES = {
    "llama": ("model.layers.1.self_attn.", "o_proj"),
    "mistral": ("model.layers.1.self_attn.", "o_proj"),
    "qwen2": ("model.layers.1.self_attn.", "o_proj"),
    "gpt_neox": ("gpt_neox.layers.1.attention.", "dense"),
    "gptj": ("transformer.h.1.attn.", "out_proj"),
}
# which biases a family has
BIASED = {"llama": "", "mistral": "", "qwen2": "qkv", "gpt_neox": "qkvo", "gptj": ""}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0}
LLAMA3 |= {"original_max_position_embeddings": 24}


def random_maps(family, d, heads, groups, h, rng):
    """Weights with rows as outputs, and biases, of q, k, v and o."""
    rows = {"q": heads * h, "k": groups * h, "v": groups * h}
    maps = {role: (rng.normal(size=(number, d)), rng.normal(size=number)) for role, number in rows.items()}
    maps["o"] = rng.normal(size=(d, heads * h)), rng.normal(size=d)
    return {role: (a, b if role in BIASED[family] else 0 * b) for role, (a, b) in maps.items()}


def write(folder, family, maps, heads, groups, h, **config):
    """A checkpoint in the layout of the family, with its config."""
    stem, output = FAMILIES[family]
    tensors = {}
    for kind, part in (("weight", 0), ("bias", 1)):
        own = {
            role: array[part] for role, array in maps.items() if kind == "weight" or role in BIASED[family]
        }
        if family == "gpt_neox":
            stacked = [own[role].reshape(heads, 1, h, *own[role].shape[1:]) for role in "qkv"]
            rows = np.concatenate(stacked, axis=1)
            tensors[f"{stem}query_key_value.{kind}"] = rows.reshape(-1, *rows.shape[3:])
        else:
            tensors |= {f"{stem}{role}_proj.{kind}": own[role] for role in "qkv" if role in own}
        tensors |= {f"{stem}{output}.{kind}": own["o"]} if "o" in own else {}
    if family in ("gptj", "gpt_neox"):
        tensors[f"{stem}bias"] = np.tril(np.ones((1, 1, 8, 8)))
    else:
        tensors[f"{stem}rotary_emb.inv_freq"] = np.ones(h // 2)  # old files
    config = {"model_type": family, "num_attention_heads": heads, "max_position_embeddings": 64} | config
    if family in ("llama", "mistral", "qwen2"):
        config = {"num_key_value_heads": groups, "head_dim": h} | config
    folder.mkdir(exist_ok=True)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def forward(maps, heads, groups, h, x, *, frequencies, interleaved):
    """Each pair of coordinates as a complex number, turned by its position; the sums one by one."""
    rotated = 2 * len(frequencies)
    pairs = [(2 * f, 2 * f + 1) if interleaved else (f, f + rotated // 2) for f in range(rotated // 2)]

    def turned(vector, position):
        out = np.array(vector)
        for (a, b), omega in zip(pairs, frequencies, strict=True):
            z = complex(vector[a], vector[b]) * complex(
                math.cos(position * omega), math.sin(position * omega)
            )
            out[a], out[b] = z.real, z.imag
        return out

    q, k, v = (x @ maps[role][0].T + maps[role][1] for role in "qkv")
    mixed = np.zeros((len(x), heads * h))
    for i in range(heads):
        own, shared = slice(i * h, (i + 1) * h), slice(i * groups // heads * h, (i * groups // heads + 1) * h)
        for s in range(len(x)):
            keys = [turned(k[t, shared], t) for t in range(s + 1)]
            weights = np.exp([turned(q[s, own], s) @ key / math.sqrt(h) for key in keys])
            mixed[s, own] = weights / weights.sum() @ v[: s + 1, shared]
    return mixed @ maps["o"][0].T + maps["o"][1]


def usual(rotated, base=10000.0):
    return [base ** (-2 * f / rotated) for f in range(rotated // 2)]


def assert_computes(folder, maps, shape, frequencies, *, interleaved=False):
    got = read_checkpoint_layer(folder, layer=1)
    assert isinstance(got.layer, RotaryLayer)
    assert (got.layer.heads, got.layer.key_heads, got.layer.head_dim) == shape
    assert got.layer.causal
    x = np.random.default_rng(7).normal(size=(6, got.layer.dim)) / 2
    wanted = forward(maps, *shape, x, frequencies=frequencies, interleaved=interleaved)
    np.testing.assert_allclose(got.layer(x), wanted, rtol=1e-9, atol=1e-9)
    return got


@pytest.mark.parametrize("family", FAMILIES)
@given(
    each=st.integers(1, 2),
    groups=st.integers(1, 3),
    h=st.sampled_from([4, 8]),
    base=st.sampled_from([100.0, 500000.0]),
    seed=st.integers(0, 99),
)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_family_computes_what_its_model_does(tmp_path, family, each, groups, h, base, seed):
    if family in ("gptj", "gpt_neox"):
        each = 1
    heads, rng = each * groups, np.random.default_rng(seed)
    d = heads * h if family in ("gptj", "gpt_neox") else heads * h + 2
    maps = random_maps(family, d, heads, groups, h, rng)
    rotated, config = h, {"rope_theta": base}
    if family == "gptj":
        rotated, base, config = h // 2, 10000.0, {"rotary_dim": h // 2}
    if family == "gpt_neox":
        rotated, config = h // 2, {"rotary_emb_base": base, "rotary_pct": 0.5}
    folder = write(tmp_path, family, maps, heads, groups, h, **config)
    got = assert_computes(
        folder, maps, (heads, groups, h), usual(rotated, base), interleaved=family == "gptj"
    )
    assert got.layer.biased is bool(BIASED[family])
    dropped = read_checkpoint_layer(folder, layer=1, biases="dropped")
    assert not dropped.layer.biased
    assert ("query bias was dropped" in " ".join(dropped.notes)) is bool(BIASED[family])
    assert "no influence" not in " ".join(dropped.notes)


@pytest.mark.parametrize(
    ("family", "config", "frequencies"),
    [
        ("llama", {}, usual(8)),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, [f / 2 for f in usual(8)]),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}, usual(8, 50.0)),
        ("llama", {"partial_rotary_factor": 0.5}, usual(4)),
        ("mistral", {"sliding_window": None}, usual(8)),
        ("mistral", {"sliding_window": 64}, usual(8)),
        ("qwen2", {"sliding_window": 4, "use_sliding_window": False}, usual(8)),
        ("gpt_neox", {}, usual(2)),
    ],
)
def test_the_config_says_the_frequencies(tmp_path, family, config, frequencies):
    maps = random_maps(family, 16, 2, 2, 8, np.random.default_rng(1))
    got = assert_computes(write(tmp_path, family, maps, 2, 2, 8, **config), maps, (2, 2, 8), frequencies)
    assert "rotated by position" in " ".join(got.notes)


def test_llama3_scales_slow_frequencies_and_leaves_fast_ones(tmp_path):
    """In the first context of 24 tokens there are 3.8, 1.6 and .6 turns; between 1 and 3 the rule interpolates."""
    maps = random_maps("llama", 16, 2, 2, 6, np.random.default_rng(1))
    base = (3.0 / 0.5) ** 1.5  # the three frequencies are 1, 6^-1/2, 1/6 of the first
    folder = write(tmp_path, "llama", maps, 2, 2, 6, rope_theta=base, rope_scaling=LLAMA3)
    omega = np.array(usual(6, base))
    turns = 24 * omega / (2 * math.pi)
    share = (turns - 1) / 2
    wanted = [
        w if t >= 3 else w / 4 if t <= 1 else (1 - s) * w / 4 + s * w
        for w, t, s in zip(omega, turns, share, strict=True)
    ]
    assert_computes(folder, maps, (2, 2, 6), wanted)


REFUSED = {
    "a window": ("mistral", {"sliding_window": 4}, "cuts the context"),
    "another rule": ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rule 'yarn'"),
    "rules by layer": (
        "llama",
        {"rope_parameters": {"full": {"rope_type": "default"}}},
        "one for all layers",
    ),
    "no factor": ("llama", {"rope_scaling": {"type": "linear"}}, "factor is None"),
    "a base of text": ("llama", {"rope_theta": "large"}, "rope_theta is 'large'"),
    "odd": ("gptj", {"rotary_dim": 3}, "even numbers are needed"),
    "too many": ("gptj", {"rotary_dim": 10}, "10 of 8 coordinates"),
}


@pytest.mark.bad_input
@pytest.mark.parametrize(("family", "config", "words"), REFUSED.values(), ids=REFUSED)
def test_other_layers_are_refused_in_a_sentence(tmp_path, family, config, words):
    maps = random_maps(family, 16, 2, 2, 8, np.random.default_rng(1))
    folder = write(tmp_path, family, maps, 2, 2, 8, **config)
    with pytest.raises(FileFormatError, match=words) as error:
        read_checkpoint_layer(folder, layer=1)
    assert str(error.value).endswith(".")


def test_norms_of_queries_and_keys_are_another_layer(tmp_path):
    maps = random_maps("llama", 16, 2, 2, 8, np.random.default_rng(1))
    folder = write(tmp_path, "llama", maps, 2, 2, 8, model_type="qwen3")
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    tensors["model.layers.1.self_attn.q_norm.weight"] = np.ones(8)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(FileFormatError, match=r"q_norm.weight': queries and keys are normalised"):
        read_checkpoint_layer(folder, layer=1)


def test_parts_of_a_layer_with_rotary_positions_are_none(tmp_path):
    maps = random_maps("llama", 16, 2, 2, 8, np.random.default_rng(1))
    folder = write(tmp_path, "llama", maps, 2, 2, 8)
    with pytest.raises(ValueError, match="taken whole"):
        read_checkpoint_layer(folder, layer=1, coordinates=4)
    with pytest.raises(FileFormatError, match="whole blocks are known of"):
        read_checkpoint_block(folder, layer=1)
