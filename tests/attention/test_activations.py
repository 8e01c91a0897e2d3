"""Examples of an attention layer from a running torch model."""

import numpy as np
import pytest

from attention import attention_layer_examples, convert_torch_module, relative_error

torch = pytest.importorskip("torch")
nn = torch.nn

VOCABULARY, K, D = 6, 6, 12


class Encoder(nn.Module):
    """Token and position embeddings, two encoder layers, and a linear map to K classes at every place."""

    def __init__(self, heads=2, **options):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, D)
        self.place = nn.Parameter(0.3 * torch.randn(K, D))
        layer = nn.TransformerEncoderLayer(D, heads, 2 * D, dropout=0.1, **{"batch_first": True, **options})
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classes = nn.Linear(D, K)

    def forward(self, words, **masks):
        return self.classes(self.layers(self.embed(words) + self.place, **masks))


class Bert(nn.Module):
    """An attention block with the names and the shape of BERT's."""

    def __init__(self):
        super().__init__()
        self.self = nn.MultiheadAttention(D, 2, batch_first=True)
        self.output = nn.Module()
        self.output.dense = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, hidden_states, attention_mask=None):
        mixed = self.self(hidden_states, hidden_states, hidden_states, need_weights=False)[0]
        return (self.norm(self.output.dense(mixed) + hidden_states),)


@pytest.fixture
def words():
    return torch.from_numpy(np.random.default_rng(0).integers(VOCABULARY, size=(20, K)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Encoder().double()


@pytest.mark.parametrize("by_name", [True, False])
def test_the_examples_are_those_of_the_converted_module(model, words, by_name):
    layer = "layers.layers.1.self_attn"
    module = model.get_submodule(layer)
    for bias in (module.in_proj_bias, module.out_proj.bias):  # which new modules have as zero
        nn.init.normal_(bias, std=0.3)
    oracle = attention_layer_examples(model, layer if by_name else module, words)
    x, y = oracle.draw(20)
    assert (oracle.tokens, oracle.dim, oracle.remaining) == (K, D, 0)
    assert relative_error(convert_torch_module(module).layer(x), y) < 1e-13
    # a dropout of .1 acts in training only, and the model is left as it was
    assert all(one.training for one in model.modules())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


def test_batches_named_arguments_and_the_order_of_axes_make_no_difference():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(D, 2)
    tokens = torch.randn(K, 5, D)
    x, y = attention_layer_examples(model, "", (tokens, tokens, tokens)).draw(5)
    assert np.array_equal(x, tokens.numpy().transpose(1, 0, 2))
    assert relative_error(convert_torch_module(model).layer(x), y) < 1e-6
    halves = [{"query": one, "key": one, "value": one} for one in (tokens[:, :2], tokens[:, 2:])]
    again = attention_layer_examples(model, "", halves).draw(5)
    assert np.array_equal(again[0], x)
    assert np.allclose(again[1], y, atol=1e-6)
    one = attention_layer_examples(model, "", (tokens[:, 0],) * 3).draw(1)
    assert np.allclose(one[1], y[:1], atol=1e-6)


def test_a_model_that_writes_into_its_tensors_changes_no_example():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(D, 2, batch_first=True).double()

        def forward(self, x):
            x = x.clone()
            x += self.attention(x, x, x)[0]
            return x

    model, tokens = Residual(), torch.randn(4, K, D, dtype=torch.float64)
    x, _ = attention_layer_examples(model, "attention", tokens).draw(4)
    assert np.array_equal(x, tokens.numpy())


def test_a_block_like_that_of_bert_gives_what_is_before_the_residual_connection():
    torch.manual_seed(0)
    model = nn.Sequential(Bert().double())
    tokens = torch.randn(7, K, D, dtype=torch.float64)
    x, y = attention_layer_examples(model, "0", tokens).draw(7)
    block = model[0]
    mixed = block.self(tokens, tokens, tokens)[0]
    assert np.allclose(y, block.output.dense(mixed).detach().numpy(), atol=1e-14)
    assert np.array_equal(x, tokens.numpy())


def test_examples_of_a_causal_layer_are_those_of_a_causal_one(model, words):
    causal = nn.Transformer.generate_square_subsequent_mask(K, dtype=torch.float64)
    x, y = attention_layer_examples(
        model, "layers.layers.1.self_attn", {"words": words, "mask": causal}
    ).draw(len(words))
    truth = convert_torch_module(model.layers.layers[1].self_attn, causal=True).layer
    np.testing.assert_allclose(truth(x), y, rtol=0, atol=1e-12)


@pytest.mark.bad_input
def test_wrong_inputs_are_refused_in_sentences(model, words):
    name, bert = "layers.layers.1.self_attn", Bert()
    model.unused = nn.MultiheadAttention(D, 2)
    padding = torch.zeros(words.shape, dtype=torch.bool)
    padding[0, -1] = True
    causal = nn.Transformer.generate_square_subsequent_mask(K, dtype=torch.float64)
    alone, x = nn.MultiheadAttention(D, 2, batch_first=True), torch.randn(2, K, D)
    for given, said in [
        ((convert_torch_module, name, words), r"a torch\.nn\.Module is needed"),
        ((model, "attn", words), r"no submodule 'attn'; .* layers\.layers\.0\.self_attn"),
        ((model, nn.MultiheadAttention(D, 2), words), "is no submodule"),
        ((nn.Sequential(nn.Linear(D, D)), "0", torch.ones(D)), "name the attention module itself"),
        ((model, "unused", words), "did not call the layer"),
        ((model, name, [{"words": words, "src_key_padding_mask": padding}]), "key_padding_mask, that leaves"),
        ((model, name, {"words": words, "mask": causal.T}), r"attn_mask, that leaves tokens out"),
        ((alone, alone, (x, x + 1, x)), "self-attention is needed"),
        ((alone, alone, (x, x, x + 1)), "self-attention is needed"),
        ((alone, alone, (x, x[:, :2], x[:, :2])), "self-attention is needed"),
        ((alone, alone, [(x, x, x), (x[:, :3],) * 3]), "one number of tokens is needed"),
        ((bert, "", (x, torch.full((2, 1, 1, K), -1e9))), "attention_mask, that leaves tokens out"),
    ]:
        with pytest.raises(ValueError, match=said):
            attention_layer_examples(*given)
    # the model is as before, whatever went wrong
    assert all(one.training for one in model.modules())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
