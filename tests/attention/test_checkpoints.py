"""Layers of checkpoints compute what torch makes of the same tensors; wrong files are one sentence."""

import argparse
import json
import os

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import attention.torch_files
from attention import FileFormatError, read_checkpoint_layer
from attention.checkpoints import checkpoint_layers

ROLES = ("query", "key", "value", "output")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch's forward pass is what the conversion is held to")


def random_maps(rng, d, p):
    """Weights as linear layers hold them (rows are outputs), and biases, of the four maps."""
    shapes = dict(zip(ROLES, [(p, d)] * 3 + [(d, p)], strict=True))
    return {
        role: (rng.normal(size=shape, scale=d**-0.5), rng.normal(size=shape[0], scale=0.5))
        for role, shape in shapes.items()
    }


def four_by_four(seed=0):
    return random_maps(np.random.default_rng(seed), 4, 4)


def torch_forward(torch, maps, heads, x, *, biased, causal=False, scale=None):
    """What torch itself makes of the four maps, head by head through its own attention."""
    functional = torch.nn.functional

    def apply(role, tokens):
        weight, bias = (torch.from_numpy(one) for one in maps[role])
        return functional.linear(tokens, weight, bias if biased else None)

    def by_head(tokens):
        return tokens.reshape(*tokens.shape[:-1], heads, -1).transpose(-2, -3)

    query, key, value = (by_head(apply(role, torch.from_numpy(x))) for role in ROLES[:3])
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    return apply("output", mixed.transpose(-2, -3).flatten(-2)).numpy()


def maker(layer, *parts, transposed=False, **beside):
    """A maker of a model's tensors, with any prefix.

    `parts` names the modules of the four maps in a layer, or that of the first three in one and that of the last.
    `transposed` weights have rows as inputs. `beside` are other tensors of a layer.
    """

    def make(layers, prefix=""):
        tensors = {}
        for number, maps in enumerate(layers):
            arrays = [maps[role] for role in ROLES]
            if len(parts) == 2:
                arrays = [[np.concatenate(part) for part in zip(*arrays[:3], strict=True)], arrays[3]]
            stem = prefix + layer.format(number)
            for part, (weight, bias) in zip(parts, arrays, strict=True):
                tensors |= {
                    f"{stem}{part}weight": weight.T if transposed else weight,
                    f"{stem}{part}bias": bias,
                }
            tensors |= {f"{stem}{name}": array for name, array in beside.items()}
        return tensors

    return make


def torch_module_in(layer, *, split=False):
    """A maker of the tensors of torch.nn.MultiheadAttention; with `split` of one that holds three weights apart."""
    fused = maker(layer, "in_proj_", "out_proj.")

    def make(layers, prefix=""):
        tensors = fused(layers, prefix)
        for name in [name for name in tensors if name.endswith("in_proj_weight")]:
            parts = zip("qkv", np.split(tensors.pop(name), 3), strict=True)
            tensors |= {name.replace("in_proj", f"{letter}_proj"): part for letter, part in parts}
        return tensors

    return make if split else fused


norm, mask = {"attention.output.LayerNorm.weight": np.ones(4)}, {"attn.bias": np.tril(np.ones((1, 1, 4, 4)))}
bert_tensors = maker(
    "layer.{}.", *(f"attention.self.{one}." for one in ROLES[:3]), "attention.output.dense.", **norm
)
gpt2_tensors = maker("h.{}.", "attn.c_attn.", "attn.c_proj.", transposed=True, **mask)
timm_tensors = maker("blocks.{}.attn.", "qkv.", "proj.")
bart_tensors = maker("layers.{}.self_attn.", *(f"{one}_proj." for one in ("q", "k", "v", "out")))
distilbert_tensors = maker("layer.{}.attention.", *(f"{one}_lin." for one in ("q", "k", "v", "out")))
albert_tensors = maker("albert_layers.{}.attention.", *(f"{one}." for one in (*ROLES[:3], "dense")))
vit_tensors = maker("layer.{}.attention.", *(f"attention.{one}." for one in ROLES[:3]), "output.dense.")
whisper_tensors = maker("blocks.{}.attn.", *(f"{one}." for one in (*ROLES[:3], "out")))
llama_tensors = maker("layers.{}.self_attn.", *(f"{one}_proj." for one in "qkvo"))
torch_tensors, apart = torch_module_in("blocks.{}.attn."), torch_module_in("h.{}.", split=True)
LAYOUTS = {  # the naming, the tensors, the prefix, the config
    "BERT alone": ("BERT", bert_tensors, "", {}),
    "BERT": ("BERT", bert_tensors, "bert.encoder.", {"model_type": "bert"}),
    "BERT as a decoder": ("BERT", bert_tensors, "bert.", {"model_type": "bert", "is_decoder": True}),
    "compiled": ("BERT", bert_tensors, "_orig_mod.module.", {}),
    "DistilBERT": ("DistilBERT", distilbert_tensors, "transformer.", {"model_type": "distilbert"}),
    "ALBERT": ("ALBERT", albert_tensors, "encoder.", {"model_type": "albert"}),
    "ViT": ("ViT", vit_tensors, "vit.encoder.", {"model_type": "vit"}),
    "timm": ("timm", timm_tensors, "", {"architecture": "vit_tiny_patch16_224"}),
    "timm alone": ("timm", timm_tensors, "encoder.", {}),
    "GPT-2": ("GPT-2", gpt2_tensors, "transformer.", {"model_type": "gpt2"}),
    "GPT-2 alone": ("GPT-2", gpt2_tensors, "", {}),
    "nanoGPT": ("GPT-2", maker("h.{}.attn.", "c_attn.", "c_proj."), "", {}),
    "BART's encoder": ("BART", bart_tensors, "model.encoder.", {"model_type": "bart"}),
    "BART's decoder": ("BART", bart_tensors, "model.decoder.", {"model_type": "bart"}),
    "BART alone": ("BART", bart_tensors, "", {}),
    "CLIP's texts": ("BART", bart_tensors, "text_model.encoder.", {"model_type": "clip"}),
    "CLIP's images": ("BART", bart_tensors, "vision_model.encoder.", {"model_type": "clip"}),
    "Whisper": ("BART", bart_tensors, "model.decoder.", {"model_type": "whisper"}),
    "fairseq's RoBERTa": ("BART", bart_tensors, "decoder.sentence_encoder.", {}),
    "FSDP": ("BART", bart_tensors, "_fsdp_wrapped_module.encoder.", {}),
    "OpenAI's Whisper alone": ("OpenAI's Whisper", whisper_tensors, "encoder.", {}),
    "PyTorch alone": ("PyTorch", torch_module_in("layers.{}.self_attn."), "encoder.", {}),
    "torch's module": ("MultiheadAttention", torch_tensors, "", {}),
    "torch's module, three maps": ("MultiheadAttention", apart, "", {}),
    "Llama without rotations": ("Llama", llama_tensors, "model.", {"use_rope": False}),
}
CAUSAL = {"BERT as a decoder", "GPT-2", "GPT-2 alone", "nanoGPT", "BART's decoder", "CLIP's texts", "Whisper"}
CAUSAL |= {"Llama without rotations"}
HEADS = {"GPT-2": "n_head", "DistilBERT": "n_heads", "timm": "num_heads"}


def save(path, tensors, config=None):
    path.parent.mkdir(exist_ok=True, parents=True)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    if config is not None:
        (path.parent / "config.json").write_text(json.dumps(config))
    return path


def write(folder, layout, layers, *, heads=None, **config):
    """A checkpoint of that layout with its config."""
    naming, make, prefix, own = LAYOUTS[layout]
    config = own | config | ({} if heads is None else {HEADS.get(naming, "num_attention_heads"): heads})
    return save(folder / "model.safetensors", make(layers, prefix), config)


def assert_computes(torch, imported, maps, heads, *, scale=None):
    """Hold a layer, with its biases kept or dropped, to torch's forward pass of the same maps."""
    x = np.random.default_rng(9).normal(size=(2, 3, len(maps["output"][0])))
    wanted = torch_forward(
        torch, maps, heads, x, biased=imported.layer.biased, causal=imported.layer.causal, scale=scale
    )
    np.testing.assert_allclose(imported.layer(x), wanted, rtol=0, atol=1e-12)


def notes_of(imported):
    return " ".join(imported.notes)


class TestForwardPass:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @given(
        head_dim=st.integers(1, 4),
        heads=st.integers(1, 4),
        left=st.integers(1, 4),
        number=st.integers(0, 2),
        says=st.sampled_from([None, "head_dim", "attention_head_size"]),
        biases=st.sampled_from(["kept", "dropped", "absent"]),
        seed=st.integers(0, 99),
    )
    @settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_every_layer_computes_what_its_model_does(
        self, torch, tmp_path, layout, head_dim, heads, left, number, says, biases, seed
    ):
        """Also where heads were pruned, which keep the dimension that the config tells."""
        rng, left = np.random.default_rng(seed), min(left, heads)
        if says is None and left * head_dim % heads == 0:
            left = heads  # two numbers of heads would fit
        d = heads * (head_dim + 1 if says else head_dim)  # of what the config tells heads need not fill d
        layers = [random_maps(rng, d, left * head_dim) for _ in range(3)]
        path = write(tmp_path, layout, layers, heads=heads, **{says: head_dim} if says else {})
        if biases == "absent":
            tensors = {name: one for name, one in safetensors.numpy.load_file(path).items() if one.ndim == 2}
            save(path, tensors)
        got = read_checkpoint_layer(path, layer=number, biases="dropped" if biases == "dropped" else "kept")
        assert (got.naming, got.number, got.layer.causal) == (LAYOUTS[layout][0], number, layout in CAUSAL)
        assert (got.layer.heads, got.head_dim, got.layer.biased) == (left, head_dim, biases == "kept")
        pruned = f"Of the {heads} heads in config.json {left} are there"
        assert (pruned in notes_of(got)) is (left < heads)
        assert ("bias" in notes_of(got)) is (biases == "dropped")
        assert_computes(torch, got, layers[number], left)
        if says is None:  # what is asked for wins
            assert read_checkpoint_layer(path, layer=0, heads=1).layer.heads == 1

    @pytest.mark.parametrize(
        ("weights", "by_layer"), [(False, False), (True, True), (False, True), (True, False)]
    )
    def test_gpt2_scales_its_logits_as_its_config_says(self, torch, tmp_path, weights, by_layer):
        layers = [random_maps(np.random.default_rng(seed), 6, 6) for seed in range(3)]
        options = {"scale_attn_weights": weights, "scale_attn_by_inverse_layer_idx": by_layer}
        got = read_checkpoint_layer(write(tmp_path, "GPT-2 alone", layers, heads=2, **options), layer=2)
        scale = (3**-0.5 if weights else 1.0) / (3 if by_layer else 1)
        assert_computes(torch, got, layers[2], 2, scale=scale)
        assert ("not divided by sqrt(h)" in notes_of(got)) is not weights
        assert ("divided by 3" in notes_of(got)) is by_layer

    @pytest.mark.parametrize("naming", ["BERT alone", "BART alone"])
    @pytest.mark.parametrize("groups", [1, 2])
    def test_keys_that_heads_share_are_repeated(self, torch, tmp_path, naming, groups):
        maps = random_maps(np.random.default_rng(3), 12, 12)
        shared = {role: maps[role] for role in ("query", "output")}
        for role in ("key", "value"):
            heads = [array.reshape(4, 3, *array.shape[1:]) for array in maps[role]]
            of_groups = [array[:: 4 // groups] for array in heads]
            shared[role] = [array.reshape(-1, *array.shape[2:]) for array in of_groups]
            whole = [array[[head * groups // 4 for head in range(4)]] for array in of_groups]
            maps[role] = [array.reshape(12, *array.shape[2:]) for array in whole]
        path = write(tmp_path, naming, [shared], num_attention_heads=4, num_key_value_heads=groups)
        got = read_checkpoint_layer(path, layer=0)
        assert "shared by groups" in notes_of(got)
        assert_computes(torch, got, maps, 4)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    def test_entries_of_every_floating_type(self, torch, tmp_path, dtype):
        from safetensors.torch import save_file

        maps = four_by_four()
        rounded = {
            name: torch.from_numpy(array).to(getattr(torch, dtype))
            for name, array in bert_tensors([maps]).items()
        }
        save_file(rounded, tmp_path / "model.safetensors")
        got = read_checkpoint_layer(tmp_path, layer=0, heads=2)
        for role, parts in maps.items():
            maps[role] = [torch.from_numpy(one).to(getattr(torch, dtype)).double().numpy() for one in parts]
        assert_computes(torch, got, maps, 2)
        assert (f"Stored in {dtype}" in notes_of(got)) is (dtype != "float32")
        rounded["layer.0.attention.self.key.bias"][2] = torch.inf
        save_file(rounded, tmp_path / "model.safetensors")
        with pytest.raises(FileFormatError, match=r"key\.bias' holds NaN or infinite"):
            read_checkpoint_layer(tmp_path, layer=0, heads=2)


def refused(path, words, kind=FileFormatError, **options):
    """The error is one sentence."""
    with pytest.raises(kind, match=words) as error:
        read_checkpoint_layer(path, **{"layer": 0} | options)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


OTHERS = [{"rotary_emb_base": 10000}, {"rotary_pct": 0.25}, {"use_rope": True}, {"rope_theta": 1e4}]
OTHERS += [{"rope_parameters": {"rope_type": "default"}}, {"rope_scaling": {"type": "linear"}}]
OTHERS += [{"rotary_dim": 2}, {"position_embedding_type": "rotary"}]
OTHERS += [{"alibi": True}, {"position_embedding_type": "relative_key"}, {"attention_multiplier": 0.5}]
OTHERS += [{"relative_attention_num_buckets": 32}, {"attn_logit_softcapping": 50.0}, {"sliding_window": 4}]
OTHERS += [{"model_type": name} for name in ("roformer", "esm", "gptj", "t5", "bloom", "swin", "none")]
OTHERS += [{"auto_map": {"AutoModel": "modeling.Own"}}, {"architecture": "vit_small_patch16_dinov3"}]


class TestConfig:
    """A config says what the model computes; what it does not say is assumed, and the notes say so."""

    def test_the_number_of_heads_follows_from_all_that_a_config_says(self, tmp_path):
        for rows, config, end in [
            (48, {"head_dim": 7}, "head_dim = 7 does not fit"),
            (48, {"head_dim": 6}, "head_dim = 6 does not fit"),  # twice as many heads
            (48, {"head_dim": 12, "attention_head_size": 6}, "differ"),
            (24, {"n_head": 8}, "num_attention_heads = 4 and n_head = 8 differ"),
            (48, {"model_type": "bert"}, "does not fit"),  # whose heads have dimension 6
            (12, {}, "two ways"),  # four heads of dimension 3, or two of 6
            (24, {"num_key_value_heads": 2}, "no groups"),
            (12, {"model_type": "bert"}, 2),
            (12, {"pruned_heads": {"0": [1, 2]}}, 2),
            (48, {}, 4),
        ]:
            maps = random_maps(np.random.default_rng(4), 24, rows)
            path = write(tmp_path, "BERT alone", [maps], heads=4, **config)
            if isinstance(end, str):
                refused(path, end)
            else:
                got = read_checkpoint_layer(path, layer=0)
                assert (got.layer.heads, got.head_dim) == (end, rows // end)

    @pytest.mark.parametrize(
        "naming", ["BERT alone", "BART alone", "timm alone", "GPT-2 alone", "torch's module"]
    )
    def test_logits_that_no_layer_has_are_refused(self, tmp_path, naming):
        for config in OTHERS:
            refused(write(tmp_path, naming, [four_by_four()], heads=2, **config), r"by config\.json")

    def test_what_is_off_or_of_another_part_is_no_reason(self, tmp_path):
        off = {"use_rope": False, "rope_scaling": None, "rotary_value": False, "alibi": False}
        tensors = bert_tensors([four_by_four()], "vision.") | {"text.rotary_emb.inv_freq": np.ones(2)}
        config = {"num_attention_heads": 2, "position_embedding_type": "absolute"} | off
        path = save(tmp_path / "model.safetensors", tensors, config)
        assert read_checkpoint_layer(path, layer=0).layer.heads == 2

    def test_each_part_of_a_model_has_its_own_maps_and_heads(self, torch, tmp_path):
        clip = {"text_config": {"num_attention_heads": 3, "model_type": "clip_text_model"}}
        clip |= {"model_type": "clip", "vision_config": {"num_attention_heads": 4}}
        bart = {"model_type": "bart", "encoder_attention_heads": 2, "decoder_attention_heads": 4}
        for config, heads, causal in (
            (clip, {"text_model.encoder.": 3, "vision_model.encoder.": 4}, "text"),
            # the first word counts
            (bart, {"model.encoder.": 2, "model.decoder.": 4, "model.encoder.decoder.": 2}, "decoder"),
        ):
            maps = {
                prefix: random_maps(np.random.default_rng(number), 4 * number, 4 * number)
                for prefix, number in heads.items()
            }
            tensors = {}
            for prefix, own in maps.items():
                tensors |= bart_tensors([own], prefix)
            path = save(tmp_path / "model.safetensors", tensors, config)
            for prefix, number in heads.items():
                got = read_checkpoint_layer(path, layer=0, prefix=prefix)
                assert_computes(torch, got, maps[prefix], number)
                assert got.layer.causal is (causal in prefix) is ("The layer is causal" in notes_of(got))


ENDINGS = [".pt", ".bin", ".pth", ".pt"], ["float16", "bfloat16", "float32", "float64"], [True, False] * 2


class TestTorchFiles:
    @staticmethod
    def module(torch, dtype="float32", **options):
        torch.manual_seed(0)
        return torch.nn.MultiheadAttention(6, 2, batch_first=True, **options).to(getattr(torch, dtype))

    @pytest.mark.parametrize(("ending", "dtype", "zipped"), list(zip(*ENDINGS, strict=True)))
    def test_a_module_computes_what_its_file_gives(self, torch, tmp_path, ending, dtype, zipped):
        """Whatever stands beside its tensors, and whatever precision they are in."""
        module = self.module(torch, dtype)
        with torch.no_grad():
            module.in_proj_bias.normal_()
        path = tmp_path / f"trained{ending}"
        content = {"model": {"net": module.state_dict()}, "step": 3, "losses": [0.5]}
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        got = read_checkpoint_layer(tmp_path, layer=0, heads=2)
        assert (got.source, got.naming, got.prefix) == (path.name, "MultiheadAttention", "model.net.")
        assert ("Stored in" in notes_of(got)) is dtype.endswith("16")
        x = torch.randn(4, 3, 6, dtype=torch.float64)
        wanted = module.double()(x, x, x)[0].detach().numpy()
        np.testing.assert_allclose(got.layer(x.numpy()), wanted, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        "settings",
        [
            {"args": argparse.Namespace(encoder_attention_heads=3, decoder_attention_heads=1, lr=[0.1])},
            {"cfg": {"task": None, "model": argparse.Namespace(encoder_attention_heads=3)}},
            {"model_args": {"n_head": 3, "n_embd": 6}, "config": {"n_head": 3, "device": "cuda"}},
            {"hyper_parameters": {"nhead": 3, "betas": (0.9, 0.99)}},
        ],
        ids=["fairseq", "newer fairseq", "nanoGPT", "Lightning"],
    )
    def test_settings_in_the_file_say_the_number_of_heads(self, torch, tmp_path, settings):
        maps = random_maps(np.random.default_rng(4), 6, 6)
        tensors = {name: torch.from_numpy(one) for name, one in bart_tensors([maps], "encoder.").items()}
        path = tmp_path / "checkpoint.pt"
        torch.save({"model": tensors} | settings, path)
        assert_computes(torch, read_checkpoint_layer(path, layer=0), maps, 3)
        assert "checkpoint.pt says" in notes_of(read_checkpoint_layer(path, layer=0, heads=2))
        # a config beside the file goes first
        (tmp_path / "config.json").write_text('{"num_attention_heads": 2}')
        assert read_checkpoint_layer(path, layer=0).layer.heads == 2

    def test_settings_in_the_file_say_what_else_it_computes(self, torch, tmp_path):
        arguments = argparse.Namespace(n_head=2, rope_theta=1e4)
        torch.save({"args": arguments, "model": self.module(torch).state_dict()}, tmp_path / "a.pt")
        refused(tmp_path, r"by a\.pt \(rope_theta = 10000.0\)")

    def test_modules_are_numbered_by_the_last_number_in_their_names(self, torch, tmp_path):
        tensors = self.module(torch).state_dict()
        names = [f"encoder.layers.encoder_layer_{n}.self_attention." for n in range(3)]
        names += ["h.0.", "h.1.", "pool."]
        torch.save({stem + name: one for stem in names for name, one in tensors.items()}, tmp_path / "m.pt")
        for prefix, numbers in {"encoder": (0, 1, 2), "h.": (0, 1), "pool": (0,)}.items():
            assert checkpoint_layers(tmp_path, prefix=prefix) == numbers
        # attention to the tokens of an encoder is none of these, also where fairseq names it
        crossed = {f"layers.0.encoder_attn.{name}": tensor for name, tensor in tensors.items()}
        torch.save(
            crossed | {"layers.0.self_attn." + name: one for name, one in tensors.items()}, tmp_path / "m.pt"
        )
        assert checkpoint_layers(tmp_path) == (0,)
        decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(4, 2, 4), 2)
        torch.save(decoder.state_dict(), tmp_path / "m.pt")
        assert checkpoint_layers(tmp_path) == (0, 1)


class TestFinding:
    def test_two_tensors_of_one_name_but_for_wrappers(self, tmp_path):
        wrapped = {f"module.{name}": array for name, array in BERT.items()}
        refused(save(tmp_path / "a.safetensors", BERT | wrapped), "differ in wrappers only")
        got = read_checkpoint_layer(
            save(tmp_path / "a.safetensors", wrapped), layer=0, heads=2, prefix="module."
        )
        assert got.prefix == ""

    @pytest.mark.parametrize("kind", ["safetensors", "bin"])
    def test_a_checkpoint_in_parts(self, tmp_path, kind, request):
        tensors = bert_tensors([four_by_four(0), four_by_four(1)], "bert.encoder.")
        whole = read_checkpoint_layer(save(tmp_path / "whole" / "a.safetensors", tensors), layer=1, heads=2)
        parts = {name: f"model-0000{i % 3}-of-00003.{kind}" for i, name in enumerate(sorted(tensors))}
        folder = tmp_path / "parts"
        for part in set(parts.values()):
            held = {name: tensors[name] for name in tensors if parts[name] == part}
            save(folder / part, held)
            if kind == "bin":
                torch = request.getfixturevalue("torch")
                torch.save({name: torch.from_numpy(one) for name, one in held.items()}, folder / part)
        index = folder / {"safetensors": "model.safetensors", "bin": "pytorch_model.bin"}[kind]
        index = index.with_name(f"{index.name}.index.json")
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": parts}))
        (folder / "config.json").write_text(json.dumps({"num_attention_heads": 2}))
        for path in (folder, index):
            got = read_checkpoint_layer(path, layer=1)
            np.testing.assert_array_equal([got.layer.theta, got.layer.w], [whole.layer.theta, whole.layer.w])
            assert got.source == index.name
        first = folder / parts[min(parts)]
        if kind == "safetensors":
            save(first, {"other": np.zeros(2)})
            refused(folder, "holds no tensor named")
        first.unlink()
        refused(folder, rf"{kind}: there is no such file")

    def test_only_the_layers_own_bytes_are_read(self, tmp_path):
        """A terabyte of other tensors, which no disk holds, makes no difference."""
        path = save(tmp_path / "model.safetensors", bert_tensors([four_by_four()]))
        wanted = read_checkpoint_layer(path, layer=0, heads=2).layer
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
        end = len(data) + 2**40
        header["embeddings"] = {"dtype": "BF16", "shape": [2**39], "data_offsets": [len(data), end]}
        header["mask"] = {"dtype": "BOOL", "shape": [0, 7], "data_offsets": [end, end]}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        os.truncate(path, 8 + len(text) + end)
        np.testing.assert_array_equal(read_checkpoint_layer(path, layer=0, heads=2).layer.theta, wanted.theta)

    def test_a_prefix_chooses_among_several_models(self, tmp_path):
        one, other, third = (four_by_four(seed) for seed in range(3))
        tensors = bert_tensors([one], "question.encoder.") | bert_tensors([other, other], "context.encoder.")
        path = save(tmp_path / "model.safetensors", tensors | gpt2_tensors([third]))
        for prefix, words in [
            (None, r"several models fit.*'context.encoder.'.*layers 0, 1.*'question"),
            ("answer", "no layers have the prefix 'answer'"),
        ]:
            refused(path, words, ValueError, heads=2, prefix=prefix)
        for prefix, maps in {"question": one, "context.encoder": other, "": third}.items():
            got = read_checkpoint_layer(path, layer=0, heads=1, prefix=prefix)
            wanted = maps["value"][0].T @ maps["output"][0].T
            np.testing.assert_allclose(got.layer.w[0], wanted, rtol=0, atol=1e-15)


def without(tensors, part):
    return {name: array for name, array in tensors.items() if part not in name}


def changed(tensors, part, change):
    return {name: change(array) if part in name else array for name, array in tensors.items()}


def poisoned(array):
    array = array.copy()
    array.flat[-1] = np.nan
    return array


BERT, GPT2 = bert_tensors([four_by_four()] * 2), gpt2_tensors([four_by_four()])
TORCH = torch_module_in("", split=True)([four_by_four()])
WRONG_TENSORS = {
    "no attention": (
        {"wte.weight": np.zeros((3, 4))},
        "no attention layer named as in BERT, .* or Multi.*rename its tensors, or .*convert_projections",
    ),
    "adapter": (
        BERT | {"layer.0.attention.self.query.lora_A.default.weight": np.zeros((1, 4))},
        "has an adapter, .*lora_A.*merge",
    ),
    "rotary in the model": (
        {f"bert.{name}": array for name, array in BERT.items()} | {"bert.rotary_emb.inv_freq": np.ones(2)},
        "logits have terms of the positions",
    ),
    "relative in the model": (
        BERT | {"relative_attention_bias.weight": np.ones((4, 2))},
        "logits have terms of the positions",
    ),
    "added tokens": (TORCH | {"bias_k": np.zeros((1, 1, 4))}, "has 'bias_k', and what it does"),
    "queries twice": (
        TORCH | {"in_proj_weight": np.zeros((12, 4))},
        "has 'in_proj_weight' and 'k_proj_weight': one of the two",
    ),
    "no query": (without(BERT, "query"), "'layer.0.attention.self.query.weight' is missing"),
    "query a vector": (changed(BERT, "query.weight", np.ravel), "no matrices and vectors"),
    "neither layout": (changed(GPT2, "c_attn.weight", lambda a: a[:, :9]), r"shapes .*: \(p, d\) and"),
}
WRONG_CONFIGS = {
    "{": "not valid JSON",
    "[]": "not a JSON object",
    '{"n_head": NaN}': "not valid JSON",
    '{"num_attention_heads": "4"}': "num_attention_heads is '4'",
    '{"num_attention_heads": true}': "num_attention_heads is True",
    '{"n_head": 0}': "n_head",
    '{"num_attention_heads": 3}': "does not fit",
    '{"num_attention_heads": 2, "is_decoder": 3}': "is_decoder",
}
WRONG_INDICES = [
    "{}",
    '{"weight_map": {"a": 3}}',
    '{"weight_map": {"a": ".."}}',
    '{"weight_map": {"a": "../other.safetensors"}}',
    '{"weight_map": {"a": "/etc/passwd"}}',
    "hello",
]


class TestWrongFiles:
    @pytest.mark.bad_input
    @pytest.mark.parametrize(("tensors", "words"), WRONG_TENSORS.values(), ids=WRONG_TENSORS)
    def test_tensors(self, tmp_path, tensors, words):
        refused(save(tmp_path / "model.safetensors", tensors, {"num_attention_heads": 2}), words)

    def test_a_nan_in_another_layer_makes_no_difference(self, tmp_path):
        tensors = changed(BERT, "layer.1.attention.self.query.bias", poisoned)
        path = save(tmp_path / "model.safetensors", tensors)
        assert read_checkpoint_layer(path, layer=0, heads=2).layer.heads == 2
        refused(path, "NaN", layer=1, heads=2)

    def test_layers_heads_and_configs(self, tmp_path):
        path = write(tmp_path, "BERT alone", [four_by_four()] * 3)
        for options, words in [
            ({"layer": 3, "heads": 2}, "has no layer 3.*there are layers 0, 1, 2"),
            ({"layer": -1, "heads": 2}, "layer is -1"),
            ({"heads": 3}, "a divisor of 4"),
            ({}, "give heads"),
        ]:
            refused(path, words, ValueError, **options)
        for config, words in WRONG_CONFIGS.items():
            (tmp_path / "config.json").write_text(config)
            refused(path, rf"config\.json.*{words}")
        (tmp_path / "config.json").unlink()
        refused(path, r"config\.json is not there to tell how many heads.*--heads", ValueError)

    def test_indices(self, tmp_path):
        for index in WRONG_INDICES:
            (tmp_path / "model.safetensors.index.json").write_text(index)
            refused(tmp_path, r"index (has no weight_map|is not valid JSON)")

    def test_files_of_other_kinds(self, torch, tmp_path):
        for content in (b"", b"GGUF\x03\0\0\0\0\0\0\0", b"\x89HDF\r\n\x1a\n\0\0\0"):
            for name in ("model.safetensors", "model.pt"):
                (tmp_path / name).write_bytes(content)
                refused(tmp_path, rf"{name}: the file is no valid", heads=2)
                (tmp_path / name).unlink()

    def test_pickles_that_are_more_than_tensors_are_refused_and_run_nothing(self, torch, tmp_path):
        ran = tmp_path / "ran"
        attack = b"cos\nsystem\n(S'touch " + str(ran).encode() + b"'\ntR."
        for name in ("pytorch_model.bin", "MODEL.PTH"):
            (tmp_path / name).write_bytes(attack)
            for path in (tmp_path / name, tmp_path):
                refused(path, r"needs os\.system.*export it with safetensors\.torch\.save_file")
            (tmp_path / name).unlink()
        assert not ran.exists()
        torch.save(TestTorchFiles.module(torch), tmp_path / "whole.pt")
        refused(tmp_path, r"needs torch\.nn.*only tensors are read")

    def test_damaged_torch_files(self, torch, tmp_path, monkeypatch):
        path = tmp_path / "m.pt"
        for zipped in (True, False):
            state = TestTorchFiles.module(torch).state_dict()
            torch.save(state, path, _use_new_zipfile_serialization=zipped)
            whole = path.read_bytes()
            for content in (b"hello", whole[: len(whole) // 2], whole[:-100]):
                path.write_bytes(content)
                refused(path, "no valid PyTorch file")
        torch.save({"in_proj_weight": torch.full((12, 4), torch.nan)}, path)
        refused(path, r"'out_proj\.weight' is missing")
        torch.save(state | {"in_proj_bias": torch.full((18,), torch.nan)}, path)
        refused(path, "in_proj_bias' holds NaN", heads=2)
        torch.save(state | {"in_proj_weight": torch.ones(18, 6, dtype=torch.int8)}, path)
        refused(path, "has dtype int8; floats", heads=2)
        monkeypatch.setattr(attention.torch_files, "find_spec", lambda name: None)
        refused(path, "torch, which reads this file, is not installed")

    def test_folders(self, tmp_path):
        refused(tmp_path, r"holds no model\.safetensors")
        save(tmp_path / "one.safetensors", BERT)
        assert read_checkpoint_layer(tmp_path, layer=0, heads=2).source == "one.safetensors"
        save(tmp_path / "two.safetensors", BERT)
        refused(tmp_path, r"one\.safetensors, two\.safetensors; give one")
