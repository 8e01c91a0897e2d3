"""Layers of other software compute what that software computes: held to torch's own forward pass."""

import itertools
import json
import os

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention import AttentionLayer, FileFormatError, convert_torch_module, read_checkpoint_layer
from attention.conversion import convert_projections
from attention.projections import Projections

NO_TORCH = "PyTorch's forward pass is what the conversion is held to"
TOLERANCE = 1e-12


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason=NO_TORCH)


def random_maps(rng, d, p, *, bias=0.5, dtype=np.float64):
    """Weights as linear layers hold them (rows are outputs), and biases, of the four maps."""
    shapes = {"query": (p, d), "key": (p, d), "value": (p, d), "output": (d, p)}
    maps = {}
    for role, shape in shapes.items():
        weight = rng.normal(size=shape, scale=d**-0.5).astype(dtype)
        maps[role] = (weight, rng.normal(size=shape[0], scale=bias).astype(dtype))
    return maps


def torch_forward(torch, maps, heads, x, *, biased, causal=False, scale=None):
    """What torch itself makes of the four maps, head by head through its own attention."""
    functional = torch.nn.functional

    def apply(role, tokens):
        weight, bias = (torch.from_numpy(np.asarray(one, dtype=np.float64)) for one in maps[role])
        return functional.linear(tokens, weight, bias if biased else None)

    def by_head(tokens):
        return tokens.reshape(*tokens.shape[:-1], heads, -1).transpose(-2, -3)

    tokens = torch.from_numpy(x)
    query, key, value = (by_head(apply(role, tokens)) for role in ("query", "key", "value"))
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    return apply("output", mixed.transpose(-2, -3).flatten(-2)).numpy()


def with_constant(x):
    return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)


def bert_tensors(layers, prefix=""):
    tensors = {}
    for number, maps in enumerate(layers):
        for role, (weight, bias) in maps.items():
            module = "attention.output.dense" if role == "output" else f"attention.self.{role}"
            tensors[f"{prefix}layer.{number}.{module}.weight"] = weight
            tensors[f"{prefix}layer.{number}.{module}.bias"] = bias
        norm = f"{prefix}layer.{number}.attention.output.LayerNorm.weight"
        tensors[norm] = np.ones(len(maps["output"][0]), weight.dtype)
    return tensors


def gpt2_tensors(layers, prefix=""):
    tensors = {}
    for number, maps in enumerate(layers):
        inward = [maps[role] for role in ("query", "key", "value")]
        stem = f"{prefix}h.{number}.attn"
        tensors[f"{stem}.c_attn.weight"] = np.concatenate([weight for weight, _ in inward]).T
        tensors[f"{stem}.c_attn.bias"] = np.concatenate([bias for _, bias in inward])
        tensors[f"{stem}.c_proj.weight"] = maps["output"][0].T
        tensors[f"{stem}.c_proj.bias"] = maps["output"][1]
        tensors[f"{stem}.bias"] = np.tril(np.ones((1, 1, 4, 4), dtype=np.uint8))
    return tensors


NAMINGS = {"BERT": (bert_tensors, "num_attention_heads"), "GPT-2": (gpt2_tensors, "n_head")}
both = pytest.mark.parametrize("naming", NAMINGS)


def save(path, tensors, config=None):
    path.parent.mkdir(exist_ok=True, parents=True)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    if config is not None:
        (path.parent / "config.json").write_text(json.dumps(config, indent=2))
    return path


def write(folder, naming, layers, *, prefix="", heads=None, **config):
    """A checkpoint of that naming with its config."""
    make, word = NAMINGS[naming]
    config |= {} if heads is None else {word: heads}
    return save(folder / "model.safetensors", make(layers, prefix), config)


def notes_of(imported):
    return " ".join(imported.notes)


class TestTorch:
    @given(
        heads=st.integers(1, 4),
        head_dim=st.integers(1, 4),
        tokens=st.integers(1, 4),
        batch_first=st.booleans(),
        bias=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_absorbed_is_the_modules_forward_pass(
        self, torch, heads, head_dim, tokens, batch_first, bias, seed
    ):
        module, x = self.module(torch, heads, head_dim, seed, bias=bias, batch_first=batch_first)
        x = x[:, :tokens]
        order = (0, 1, 2) if batch_first else (1, 0, 2)
        given_x = torch.from_numpy(x.transpose(order).copy())
        wanted = module(given_x, given_x, given_x, need_weights=False)[0].detach().numpy().transpose(order)
        got = AttentionLayer.from_torch(module, biases="absorbed")(with_constant(x))
        np.testing.assert_allclose(got[..., :-1], wanted, rtol=0, atol=TOLERANCE)
        assert not got[..., -1].any()

    @given(heads=st.integers(1, 4), head_dim=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_dropped_is_the_forward_pass_without_biases(self, torch, heads, head_dim, seed):
        module, x = self.module(torch, heads, head_dim, seed)
        converted = convert_torch_module(module)
        with torch.no_grad():
            module.in_proj_bias.zero_()
            module.out_proj.bias.zero_()
            tokens = torch.from_numpy(x)
            wanted, patterns = module(tokens, tokens, tokens, average_attn_weights=False)
        np.testing.assert_allclose(converted.layer(x), wanted.numpy(), rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(converted.layer.patterns(x), patterns.numpy(), rtol=0, atol=TOLERANCE)
        assert len(converted.notes) == 5
        assert converted.head_dim == head_dim

    @pytest.mark.bad_input
    @pytest.mark.parametrize("where", ["in_proj_bias", "out_proj.bias"])
    def test_biases_are_not_dropped_without_a_word(self, torch, where):
        module, x = self.module(torch, 2, 3, 0, bias=True)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name.endswith("bias") and name != where:
                    parameter.zero_()
        with pytest.raises(ValueError, match=r"biases='dropped' .* biases='absorbed'"):
            AttentionLayer.from_torch(module)
        dropped = AttentionLayer.from_torch(module, biases="dropped")
        with torch.no_grad():
            module.get_parameter(where).zero_()
        np.testing.assert_array_equal(AttentionLayer.from_torch(module)(x), dropped(x))

    @pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
    def test_parameters_of_every_type_become_float64_exactly(self, torch, dtype):
        module, x = self.module(torch, 2, 3, 0)
        module = module.to(getattr(torch, dtype))
        layer = AttentionLayer.from_torch(module, biases="absorbed")
        assert layer.theta.dtype == np.float64
        tokens = torch.from_numpy(x)
        wanted = module.double()(tokens, tokens, tokens)[0].detach().numpy()
        np.testing.assert_allclose(layer(with_constant(x))[..., :-1], wanted, rtol=0, atol=TOLERANCE)

    @pytest.mark.bad_input
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"kdim": 3}, "kdim"),
            ({"vdim": 5}, "vdim"),
            ({"add_bias_kv": True}, "add_bias_kv"),
            ({"add_zero_attn": True}, "add_zero_attn"),
            ({"device": "meta"}, "meta device"),
        ],
    )
    def test_what_no_layer_can_express(self, torch, options, match):
        with pytest.raises(ValueError, match=match):
            AttentionLayer.from_torch(torch.nn.MultiheadAttention(4, 2, **options))

    @pytest.mark.bad_input
    def test_what_is_no_such_module(self, torch):
        for module in (torch.nn.Linear(3, 3), None, np.zeros(3)):
            with pytest.raises(ValueError, match=r"a torch.nn.MultiheadAttention is needed"):
                AttentionLayer.from_torch(module)
        module = torch.nn.MultiheadAttention(4, 2)
        with torch.no_grad():
            module.out_proj.bias[0] = torch.nan
        with pytest.raises(ValueError, match="output_bias is an array with NaN"):
            AttentionLayer.from_torch(module)
        with pytest.raises(ValueError, match="'dropped' or 'absorbed'"):
            AttentionLayer.from_torch(torch.nn.MultiheadAttention(4, 2), biases="kept")

    def test_dropout_is_named(self, torch):
        converted = convert_torch_module(torch.nn.MultiheadAttention(4, 2, dropout=0.25))
        assert "0.25" in notes_of(converted)
        assert converted.source == "a torch.nn.MultiheadAttention"

    @staticmethod
    def module(torch, heads, head_dim, seed, **options):
        generator = np.random.default_rng(seed)
        d = heads * head_dim
        options = {"batch_first": True} | options
        module = torch.nn.MultiheadAttention(d, heads, dtype=torch.float64, **options)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.from_numpy(generator.normal(size=tuple(parameter.shape), scale=0.7)))
        return module, generator.normal(size=(3, 5, d))


class TestCheckpoints:
    @both
    @pytest.mark.parametrize("prefix", ["", "bert.encoder.", "transformer."])
    @pytest.mark.parametrize("biases", ["dropped", "absorbed"])
    def test_every_layer_is_torchs_forward_pass(self, torch, tmp_path, naming, prefix, biases):
        rng = np.random.default_rng(1)
        layers = [random_maps(rng, 12, 12) for _ in range(3)]
        path = write(tmp_path, naming, layers, prefix=prefix, heads=3)
        x = rng.normal(size=(4, 5, 12))
        for number, maps in enumerate(layers):
            got = read_checkpoint_layer(path, layer=number, biases=biases)
            assert (got.naming, got.prefix, got.number, got.head_dim) == (naming, prefix, number, 4)
            if biases == "dropped":
                wanted = torch_forward(torch, maps, 3, x, biased=False)
                np.testing.assert_allclose(got.layer(x), wanted, rtol=0, atol=TOLERANCE)
            else:
                out = got.layer(with_constant(x))
                wanted = torch_forward(torch, maps, 3, x, biased=True)
                np.testing.assert_allclose(out[..., :-1], wanted, rtol=0, atol=TOLERANCE)
                assert not out[..., -1].any()

    @given(
        naming=st.sampled_from(sorted(NAMINGS)),
        prefix=st.lists(st.sampled_from(["bert", "x", "layer", "h", "0", "encoder"]), max_size=3),
        heads=st.integers(1, 4),
        head_dim=st.integers(1, 3),
        extra=st.integers(0, 5),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_prefix_and_any_shape(self, torch, tmp_path, naming, prefix, heads, head_dim, extra, seed):
        """With `extra` coordinates, as after pruning, the heads do not fill the tokens' dimension."""
        rng = np.random.default_rng(seed)
        d, p = heads * head_dim + extra, heads * head_dim
        maps = random_maps(rng, d, p)
        prefix = "".join(f"{part}." for part in prefix)
        path = write(tmp_path, naming, [maps], prefix=prefix)
        got = read_checkpoint_layer(path, layer=0, heads=heads, biases="absorbed")
        x = rng.normal(size=(2, 3, d))
        wanted = torch_forward(torch, maps, heads, x, biased=True)
        np.testing.assert_allclose(got.layer(with_constant(x))[..., :-1], wanted, rtol=0, atol=TOLERANCE)

    @both
    def test_pruned_heads_keep_the_dimension_that_the_config_tells(self, torch, tmp_path, naming):
        rng = np.random.default_rng(2)
        maps = random_maps(rng, 12, 6)  # two of four heads of dimension 3 are left
        got = read_checkpoint_layer(write(tmp_path, naming, [maps], heads=4), layer=0)
        assert (got.layer.heads, got.head_dim) == (2, 3)
        assert "Of the 4 heads in config.json 2 are there" in notes_of(got)
        x = rng.normal(size=(2, 3, 12))
        wanted = torch_forward(torch, maps, 2, x, biased=False)
        np.testing.assert_allclose(got.layer(x), wanted, rtol=0, atol=TOLERANCE)

    @both
    def test_biases_may_be_absent(self, torch, tmp_path, naming):
        rng = np.random.default_rng(3)
        maps = random_maps(rng, 4, 4)
        tensors = NAMINGS[naming][0]([maps])
        tensors = {name: array for name, array in tensors.items() if array.ndim == 2}
        path = save(tmp_path / "model.safetensors", tensors, {"num_attention_heads": 2})
        got = read_checkpoint_layer(path, layer=0)
        x = rng.normal(size=(2, 3, 4))
        wanted = torch_forward(torch, maps, 2, x, biased=False)
        np.testing.assert_allclose(got.layer(x), wanted, rtol=0, atol=TOLERANCE)
        assert "bias" not in notes_of(got)

    @pytest.mark.parametrize(
        ("weights", "by_layer"), [(False, False), (True, True), (False, True), (True, False)]
    )
    def test_gpt2_scales_its_logits_as_its_config_says(self, torch, tmp_path, weights, by_layer):
        rng = np.random.default_rng(4)
        layers = [random_maps(rng, 6, 6) for _ in range(3)]
        options = {"scale_attn_weights": weights, "scale_attn_by_inverse_layer_idx": by_layer}
        path = write(tmp_path, "GPT-2", layers, heads=2, **options)
        got = read_checkpoint_layer(path, layer=2)
        x = rng.normal(size=(2, 3, 6))
        scale = (3**-0.5 if weights else 1.0) / (3 if by_layer else 1)
        wanted = torch_forward(torch, layers[2], 2, x, biased=False, scale=scale)
        np.testing.assert_allclose(got.layer(x), wanted, rtol=0, atol=TOLERANCE)
        assert ("not divided by sqrt(h)" in notes_of(got)) is not weights
        assert ("divided by 3" in notes_of(got)) is by_layer

    def test_the_causal_mask_is_what_differs_from_gpt2_and_is_noted(self, torch, tmp_path):
        rng = np.random.default_rng(5)
        maps = random_maps(rng, 6, 6)
        got = read_checkpoint_layer(write(tmp_path, "GPT-2", [maps], heads=2), layer=0)
        x = rng.normal(size=(2, 3, 6))
        masked = torch_forward(torch, maps, 2, x, biased=False, causal=True)
        out = got.layer(x)
        np.testing.assert_allclose(out[:, -1], masked[:, -1], rtol=0, atol=TOLERANCE)
        assert np.abs(out[:, 0] - masked[:, 0]).max() > 1e-3
        assert "causal mask" in notes_of(got)

    @pytest.mark.parametrize(
        ("naming", "config", "said"),
        [
            ("BERT", {}, "layer norm after it"),
            ("BERT", {"position_embedding_type": "relative_key"}, "'relative_key'"),
            ("BERT", {"is_decoder": True}, "causal mask"),
            ("BERT", {"model_type": "roformer"}, "'roformer'"),
            ("GPT-2", {}, "layer norm before it"),
        ],
    )
    def test_what_the_model_does_beyond_the_layer_is_noted(self, tmp_path, naming, config, said):
        maps = random_maps(np.random.default_rng(0), 4, 4)
        plain = {"model_type": {"BERT": "bert", "GPT-2": "gpt2"}[naming]}
        path = write(tmp_path, naming, [maps], heads=2, **(plain | config))
        assert said in notes_of(read_checkpoint_layer(path, layer=0))
        if config:
            write(tmp_path, naming, [maps], heads=2, **plain)
            assert said not in notes_of(read_checkpoint_layer(path, layer=0))

    def test_tensors_of_the_layer_that_were_not_used_are_noted(self, tmp_path):
        tensors = bert_tensors([random_maps(np.random.default_rng(0), 4, 4)])
        tensors["layer.0.attention.self.distance_embedding.weight"] = np.ones((3, 2))
        got = read_checkpoint_layer(save(tmp_path / "model.safetensors", tensors), layer=0, heads=2)
        assert "not used: attention.self.distance_embedding.weight." in notes_of(got)
        assert "no config.json" in notes_of(got)
        assert "LayerNorm" not in notes_of(got)

    @both
    def test_heads_given_win_over_the_config_with_a_note(self, tmp_path, naming):
        path = write(tmp_path, naming, [random_maps(np.random.default_rng(0), 12, 12)], heads=4)
        got = read_checkpoint_layer(path, layer=0, heads=3)
        assert got.layer.heads == 3
        assert "3 heads were asked for" in notes_of(got)
        assert "asked for" not in notes_of(read_checkpoint_layer(path, layer=0, heads=4))

    @pytest.mark.parametrize("dtype", ["F16", "BF16", "F32", "F64"])
    def test_entries_of_every_floating_type(self, torch, tmp_path, dtype):
        from safetensors.torch import save_file

        kind = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
        maps = random_maps(np.random.default_rng(6), 4, 4)
        rounded = {
            name: torch.from_numpy(array).to(kind[dtype]) for name, array in bert_tensors([maps]).items()
        }
        save_file(rounded, tmp_path / "model.safetensors")
        got = read_checkpoint_layer(tmp_path, layer=0, heads=2)
        exact = {name: tensor.double().numpy() for name, tensor in rounded.items()}
        save(tmp_path / "exact" / "model.safetensors", exact)
        wanted = read_checkpoint_layer(tmp_path / "exact", layer=0, heads=2)
        np.testing.assert_array_equal(got.layer.theta, wanted.layer.theta)
        np.testing.assert_array_equal(got.layer.w, wanted.layer.w)

    def test_a_checkpoint_in_parts(self, tmp_path):
        maps = [random_maps(np.random.default_rng(seed), 4, 4) for seed in range(2)]
        tensors = bert_tensors(maps, "bert.encoder.")
        whole = read_checkpoint_layer(save(tmp_path / "whole" / "a.safetensors", tensors), layer=1, heads=2)
        parts = {name: f"model-0000{i % 3}-of-00003.safetensors" for i, name in enumerate(sorted(tensors))}
        folder = tmp_path / "parts"
        for part in set(parts.values()):
            save(folder / part, {name: tensors[name] for name in tensors if parts[name] == part})
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": parts}))
        (folder / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
        for path in (folder, index):
            got = read_checkpoint_layer(path, layer=1)
            np.testing.assert_array_equal(got.layer.theta, whole.layer.theta)
            np.testing.assert_array_equal(got.layer.w, whole.layer.w)
            assert got.source == index.name
        first = folder / parts[min(parts)]
        save(first, {"other": np.zeros(2)})
        with pytest.raises(FileFormatError, match="holds no tensor named"):
            read_checkpoint_layer(folder, layer=0)

    def test_only_the_layers_own_bytes_are_read(self, tmp_path):
        """A terabyte of other tensors, which no disk holds, makes no difference."""
        tensors = bert_tensors([random_maps(np.random.default_rng(0), 4, 4)])
        path = save(tmp_path / "model.safetensors", tensors)
        wanted = read_checkpoint_layer(path, layer=0, heads=2).layer
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
        header["embeddings"] = {
            "dtype": "BF16",
            "shape": [2**39],
            "data_offsets": [len(data), len(data) + 2**40],
        }
        header["mask"] = {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [len(data) + 2**40] * 2}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        os.truncate(path, 8 + len(text) + len(data) + 2**40)
        got = read_checkpoint_layer(path, layer=0, heads=2).layer
        np.testing.assert_array_equal(got.theta, wanted.theta)

    def test_a_prefix_chooses_among_several_models(self, tmp_path):
        one, other, third = (random_maps(np.random.default_rng(seed), 4, 4) for seed in range(3))
        tensors = bert_tensors([one], "question.encoder.") | bert_tensors([other, other], "context.encoder.")
        path = save(tmp_path / "model.safetensors", tensors | gpt2_tensors([third]))
        with pytest.raises(
            ValueError, match=r"several models fit.*'context.encoder.'.*layers 0 to 1.*'question"
        ):
            read_checkpoint_layer(path, layer=0, heads=2)
        with pytest.raises(ValueError, match="no layers have the prefix 'answer'"):
            read_checkpoint_layer(path, layer=0, heads=2, prefix="answer")
        for prefix, maps in {"question": one, "context.encoder": other, "": third}.items():
            got = read_checkpoint_layer(path, layer=0, heads=2, prefix=prefix)
            w = convert_projections(Projections.of(maps), heads=2).layer.w
            np.testing.assert_allclose(got.layer.w, w, rtol=0, atol=1e-15)


class TestCoordinatesAndBiases:
    @given(
        heads=st.integers(1, 3),
        head_dim=st.integers(1, 4),
        kept=st.integers(1, 12),
        absorbed=st.booleans(),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=60, deadline=None)
    def test_the_kept_block_is_that_of_the_whole_with_the_same_spread(
        self, heads, head_dim, kept, absorbed, seed
    ):
        d = heads * head_dim
        kept = min(kept, d)
        maps = Projections.of(random_maps(np.random.default_rng(seed), d, d))
        biases = "absorbed" if absorbed else "dropped"
        whole = convert_projections(maps, heads=heads, biases=biases).layer
        cut = convert_projections(maps, heads=heads, biases=biases, coordinates=kept).layer
        columns = [*range(kept), d] if absorbed else list(range(kept))
        theta = whole.theta[:, columns][:, :, columns]
        np.testing.assert_allclose(cut.w, whole.w[:, columns][:, :, columns], rtol=1e-9, atol=1e-13)
        for before, block, after in zip(whole.theta, theta, cut.theta, strict=True):
            spread = np.linalg.norm(before[:, :d])
            assert np.linalg.norm(after[:, :kept]) == pytest.approx(spread, rel=1e-9)
            factor = spread / np.linalg.norm(block[:, :kept])
            np.testing.assert_allclose(after, factor * block, rtol=1e-9, atol=1e-13 * factor)

    def test_all_coordinates_are_the_whole_layer_bit_for_bit(self):
        maps = Projections.of(random_maps(np.random.default_rng(0), 6, 6))
        whole, cut = (convert_projections(maps, heads=2, coordinates=n).layer for n in (None, 6))
        np.testing.assert_array_equal(cut.theta, whole.theta)
        np.testing.assert_array_equal(cut.w, whole.w)

    def test_logits_with_absorbed_biases_are_those_of_queries_and_keys(self):
        maps = random_maps(np.random.default_rng(1), 6, 6)
        x = np.random.default_rng(2).normal(size=(3, 6))
        layer = convert_projections(Projections.of(maps), heads=2, biases="absorbed").layer
        query, key = (x @ maps[role][0].T + maps[role][1] for role in ("query", "key"))
        for head, part in enumerate((slice(0, 3), slice(3, 6))):
            wanted = query[:, part] @ key[:, part].T / 3**0.5
            np.testing.assert_allclose(layer.logits(with_constant(x))[head], wanted, rtol=0, atol=TOLERANCE)

    def test_the_notes_tell_the_size_of_every_bias(self):
        """Each size is the ratio of root mean squares, measured here on Gaussian tokens."""
        maps = random_maps(np.random.default_rng(3), 8, 8)
        x = np.random.default_rng(4).standard_normal((200_000, 8))
        sizes = {}
        for role, (weight, bias) in maps.items():
            into = x @ maps["value"][0].T if role == "output" else x
            sizes[role] = np.linalg.norm(bias) / np.sqrt(np.mean(np.sum((into @ weight.T) ** 2, axis=1)))
        notes = convert_projections(Projections.of(maps), heads=2).notes
        for role, note in zip(sizes, notes, strict=False):
            assert note.startswith(f"The {role} bias was dropped: ")
            assert float(note.split(": ")[1].split()[0]) == pytest.approx(sizes[role], rel=0.02)

    def test_the_key_bias_is_without_influence_as_the_note_says(self):
        maps = random_maps(np.random.default_rng(5), 6, 6)
        x = np.random.default_rng(6).normal(size=(3, 4, 6))
        other = maps | {"key": (maps["key"][0], 10 * maps["key"][1])}
        one, two = (
            convert_projections(Projections.of(given), heads=2, biases="absorbed").layer(with_constant(x))
            for given in (maps, other)
        )
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-11)

    @pytest.mark.bad_input
    def test_wrong_arguments(self):
        maps = random_maps(np.random.default_rng(0), 6, 6)
        for options, match in [
            ({"heads": 4}, "a divisor of 6"),
            ({"heads": 2, "coordinates": 7}, "at most 6"),
        ]:
            with pytest.raises(ValueError, match=match):
                convert_projections(Projections.of(maps), **options)
        with pytest.raises(ValueError, match=r"value is an array of shape \(6, 5\)"):
            Projections.of(maps | {"value": (np.zeros((6, 5)), None)})
        with pytest.raises(ValueError, match="NaN or infinite"):
            convert_projections(Projections(*np.full((4, 2, 2), 1e200)), heads=1)

    def test_a_head_of_which_nothing_is_left(self):
        for role, what in (("query", "Theta"), ("key", "Theta"), ("value", "W"), ("output", "W")):
            maps = random_maps(np.random.default_rng(0), 6, 6, bias=0.0)
            weight = maps[role][0].copy()
            if role == "output":
                weight[:2, 3:] = 0
            else:
                weight[3:, :2] = 0
            with pytest.raises(ValueError, match=f"first 2 coordinates of {what} of head 1 are zero"):
                convert_projections(
                    Projections.of(maps | {role: (weight, maps[role][1])}), heads=2, coordinates=2
                )


def without(tensors, part):
    return {name: array for name, array in tensors.items() if part not in name}


def changed(tensors, part, change):
    return {name: change(array) if part in name else array for name, array in tensors.items()}


def poisoned(array):
    array = array.copy()
    array.flat[-1] = np.nan
    return array


BERT, GPT2 = (make([random_maps(np.random.default_rng(0), 4, 4)]) for make in (bert_tensors, gpt2_tensors))
GPT2_OF_SIX = gpt2_tensors([random_maps(np.random.default_rng(0), 6, 6)])
WRONG_TENSORS = {
    "no attention": ({"wte.weight": np.zeros((3, 4))}, "no attention layer named as in BERT or GPT-2"),
    "nothing": ({}, "names of tensors there: none"),
    "player": ({"player.0.attention.self.query.weight": np.zeros((4, 4))}, "no attention layer"),
    "no key": (without(BERT, "key.weight"), "missing"),
    "no query": (without(BERT, "query"), "'layer.0.attention.self.query.weight' is missing"),
    "no c_proj": (without(GPT2, "c_proj.weight"), "missing"),
    "key shape": (changed(BERT, "key.weight", lambda a: a[:3]), r"key is an array of shape \(3, 4\)"),
    "bias shape": (changed(BERT, "dense.bias", lambda a: a[:3]), r"output_bias is an array of shape \(3,\)"),
    "query a vector": (changed(BERT, "query.weight", np.ravel), r"query is an array of shape \(16,\)"),
    "query empty": (changed(BERT, "query.weight", lambda a: a[:0]), r"query is an array of shape \(0, 4\)"),
    "linear layout": (changed(GPT2, "c_attn.weight", np.transpose), r"no shapes \(d, 3 p\)"),
    "linear layout, divisible": (changed(GPT2_OF_SIX, "c_attn.weight", np.transpose), "is needed"),
    "nan": (changed(BERT, "value.bias", poisoned), "value.bias' holds NaN"),
    "integers": (changed(BERT, "query.weight", lambda a: a.astype(np.int32)), "has dtype int32"),
}


class TestWrongFiles:
    @pytest.mark.bad_input
    @pytest.mark.parametrize("case", WRONG_TENSORS)
    def test_tensors(self, tmp_path, case):
        tensors, match = WRONG_TENSORS[case]
        path = save(tmp_path / "model.safetensors", tensors, {"num_attention_heads": 2})
        with pytest.raises(FileFormatError, match=match) as error:
            read_checkpoint_layer(path, layer=0)
        assert one_sentence(error)

    def test_a_nan_in_another_layer_is_none_of_ours(self, tmp_path):
        layers = [random_maps(np.random.default_rng(seed), 4, 4) for seed in range(2)]
        tensors = changed(bert_tensors(layers), "layer.1.attention.self.query.bias", poisoned)
        path = save(tmp_path / "model.safetensors", tensors)
        assert read_checkpoint_layer(path, layer=0, heads=2).layer.heads == 2
        with pytest.raises(FileFormatError, match="NaN"):
            read_checkpoint_layer(path, layer=1, heads=2)

    @both
    def test_layers_and_heads(self, tmp_path, naming):
        path = write(tmp_path, naming, [random_maps(np.random.default_rng(0), 6, 6)] * 3)
        for options, match in [
            ({"layer": 3, "heads": 2}, "has no layer 3.*there are layers 0 to 2"),
            ({"layer": -1, "heads": 2}, "layer is -1"),
            ({"layer": 0, "heads": 4}, "a divisor of 6"),
            ({"layer": 0}, "give heads"),
        ]:
            with pytest.raises(ValueError, match=match) as error:
                read_checkpoint_layer(path, **options)
            assert one_sentence(error)
        (tmp_path / "config.json").unlink()
        with pytest.raises(ValueError, match=r"is not there, how many heads.*--heads"):
            read_checkpoint_layer(path, layer=0)

    @pytest.mark.parametrize(
        ("config", "match"),
        [
            ("", "not valid JSON"),
            ("{", "not valid JSON"),
            ("[]", "not a JSON object"),
            ('{"n_head": NaN}', "not valid JSON"),
            ('{"num_attention_heads": "4"}', "num_attention_heads is '4'"),
            ('{"num_attention_heads": true}', "is True"),
            ('{"num_attention_heads": 0}', "is 0"),
            ('{"num_attention_heads": 4}', "does not divide"),
            ('{"num_attention_heads": 2, "is_decoder": 3}', "is_decoder is 3"),
            ('{"a":' + "[" * 100_000, "not valid JSON"),
        ],
    )
    def test_config(self, tmp_path, config, match):
        path = write(tmp_path, "BERT", [random_maps(np.random.default_rng(0), 6, 6)])
        (tmp_path / "config.json").write_text(config)
        with pytest.raises(FileFormatError, match=match) as error:
            read_checkpoint_layer(path, layer=0)
        assert one_sentence(error)
        assert "config.json" in str(error.value)

    @pytest.mark.parametrize(
        "index",
        [
            "{}",
            '{"weight_map": []}',
            '{"weight_map": {"a": 3}}',
            '{"weight_map": {"a": ".."}}',
            '{"weight_map": {"a": "../other.safetensors"}}',
            '{"weight_map": {"a": "/etc/passwd"}}',
            "hello",
        ],
    )
    def test_index(self, tmp_path, index):
        path = tmp_path / "model.safetensors.index.json"
        path.write_text(index)
        with pytest.raises(FileFormatError, match=r"index (has no weight_map|is not valid JSON)"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)

    def test_a_part_that_is_not_there(self, tmp_path):
        names = bert_tensors([random_maps(np.random.default_rng(0), 4, 4)])
        index = {"weight_map": dict.fromkeys(names, "part.safetensors")}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(FileFormatError, match=r"part\.safetensors: there is no such file"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)

    def test_pickles_are_never_opened(self, tmp_path):
        for name in ("pytorch_model.bin", "model.pt", "MODEL.PTH"):
            path = tmp_path / name
            path.write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
            for given_path in (path, tmp_path):
                with pytest.raises(FileFormatError, match=r"export it with safetensors\.torch\.save_file"):
                    read_checkpoint_layer(given_path, layer=0, heads=2)

    def test_folders(self, tmp_path):
        with pytest.raises(FileFormatError, match=r"holds no model\.safetensors"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)
        tensors = bert_tensors([random_maps(np.random.default_rng(0), 4, 4)])
        save(tmp_path / "one.safetensors", tensors)
        assert read_checkpoint_layer(tmp_path, layer=0, heads=2).source == "one.safetensors"
        save(tmp_path / "two.safetensors", tensors)
        with pytest.raises(FileFormatError, match=r"one\.safetensors, two\.safetensors; give one"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)

    def test_damaged_headers_are_one_sentence(self, tmp_path):
        """Every truncation of a checkpoint's header, and a flip of every one of its bytes."""
        maps = {role: (np.ones((1, 1)), np.ones(1)) for role in ("query", "key", "value", "output")}
        content = save(tmp_path / "whole" / "m.safetensors", gpt2_tensors([maps])).read_bytes()
        path = tmp_path / "model.safetensors"
        end = 8 + int.from_bytes(content[:8], "little")
        damaged = [content[:size] for size in range(0, end, 7)]
        damaged += [content[:at] + bytes([content[at] ^ 5]) + content[at + 1 :] for at in range(end)]
        refused = []
        for one in damaged:
            path.write_bytes(one)
            try:
                read_checkpoint_layer(path, layer=0, heads=1)
            except ValueError as error:
                refused.append(str(error))
        assert all(message.startswith(str(path)) and "\n" not in message for message in refused)
        assert len(refused) > 0.8 * len(damaged)

    @pytest.mark.parametrize("kind", ["float32", "bfloat16"])
    def test_infinite_entries_of_every_kind(self, torch, tmp_path, kind):
        from safetensors.torch import save_file

        tensors = bert_tensors([random_maps(np.random.default_rng(0), 4, 4)])
        tensors["layer.0.attention.self.key.bias"][2] = np.inf
        save_file(
            {name: torch.from_numpy(array).to(getattr(torch, kind)) for name, array in tensors.items()},
            tmp_path / "model.safetensors",
        )
        with pytest.raises(FileFormatError, match=r"key\.bias' holds NaN or infinite"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)


def one_sentence(error):
    message = str(error.value)
    return message.endswith(".") and "\n" not in message


def test_no_order_of_names_matters(tmp_path):
    """The same tensors in any order of the file give the same layer."""
    tensors = bert_tensors([random_maps(np.random.default_rng(0), 2, 2)])
    weights = [name for name in tensors if name.endswith("weight") and "Norm" not in name]
    wanted = read_checkpoint_layer(save(tmp_path / "model.safetensors", tensors), layer=0, heads=1).layer
    for order in itertools.permutations(weights):
        offset, header, data = 0, {}, b""
        for name in (*order, *(name for name in tensors if name not in weights)):
            array = tensors[name]
            header[name] = {
                "dtype": "F64",
                "shape": list(array.shape),
                "data_offsets": [offset, offset + array.nbytes],
            }
            offset += array.nbytes
            data += array.tobytes()
        text = json.dumps(header).encode()
        (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        got = read_checkpoint_layer(tmp_path, layer=0, heads=1).layer
        assert got.theta.tobytes() == wanted.theta.tobytes()
        assert got.w.tobytes() == wanted.w.tobytes()
