"""Layers made of the maps of other software compute what that software computes: held to torch's own forward pass."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attention import convert_torch_module
from attention.conversion import Projections, convert_projections

TOLERANCE = 1e-12
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch's forward pass is what the conversion is held to")


def torch_module(torch, heads, head_dim, seed, **options):
    """A module of random parameters in float64, biases among them, and tokens for it."""
    generator = np.random.default_rng(seed)
    d = heads * head_dim
    module = torch.nn.MultiheadAttention(d, heads, dtype=torch.float64, **{"batch_first": True} | options)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.from_numpy(generator.normal(size=tuple(parameter.shape), scale=0.7)))
    return module, generator.normal(size=(3, 5, d))


def random_maps(seed, d, *, bias=0.5):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(4, d, d), scale=d**-0.5)
    return Projections(*weights, *rng.normal(size=(4, d), scale=bias))


def changed(maps, **arrays):
    return Projections(**vars(maps) | arrays)


class TestTorch:
    @given(
        heads=st.integers(1, 4),
        head_dim=st.integers(1, 4),
        batch_first=st.booleans(),
        biases=st.sampled_from(["kept", "dropped", "absent"]),
        zero=st.sampled_from([False] * 5 + [True]),
        seed=seeds,
    )
    @settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_a_converted_layer_is_the_modules_forward_pass(
        self, torch, heads, head_dim, batch_first, biases, zero, seed
    ):
        options = {"bias": biases != "absent", "batch_first": batch_first, "dropout": 0.25}
        module, x = torch_module(torch, heads, head_dim, seed, **options)
        if zero:
            module.out_proj.weight.data.zero_()
        converted = convert_torch_module(module.eval(), biases="dropped" if biases == "dropped" else "kept")
        assert converted.layer.biased is (biases == "kept")
        notes = converted.notes
        assert "0.25" in notes[0]
        if biases == "dropped":
            for note, name in zip(notes[1:5], ("query", "key", "value", "output"), strict=True):
                assert note.startswith(f"The {name} bias was dropped")
            module.in_proj_bias.data.zero_()
            module.out_proj.bias.data.zero_()
        order = (0, 1, 2) if batch_first else (1, 0, 2)
        tokens = torch.from_numpy(x.transpose(order).copy())
        with torch.no_grad():
            wanted, patterns = module(tokens, tokens, tokens, average_attn_weights=False)
        wanted = wanted.numpy().transpose(order)
        np.testing.assert_allclose(converted.layer(x), wanted, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(converted.layer.patterns(x), patterns.numpy(), rtol=0, atol=TOLERANCE)
        assert (converted.head_dim, converted.source) == (head_dim, "a torch.nn.MultiheadAttention")

    @pytest.mark.bad_input
    def test_what_no_layer_can_express(self, torch):
        module = torch.nn.MultiheadAttention
        unfinished = module(4, 2)
        with torch.no_grad():
            unfinished.out_proj.bias[0] = torch.nan
        for wrong, words in [
            (module(4, 2, kdim=3), "kdim or vdim.*cross-attention"),
            (module(4, 2, vdim=5), "kdim or vdim.*cross-attention"),
            (module(4, 2, add_bias_kv=True), "add_bias_kv"),
            (module(4, 2, add_zero_attn=True), "add_zero_attn"),
            (module(4, 2, device="meta"), "meta device"),
            (module(4, 2, dtype=torch.complex64), "parameters that are complex"),
            (unfinished, "output_bias is an array with NaN"),
            (torch.nn.Linear(3, 3), r"a torch.nn.MultiheadAttention is needed"),
            (None, r"a torch.nn.MultiheadAttention is needed"),
        ]:
            with pytest.raises(ValueError, match=words):
                convert_torch_module(wrong)
        with pytest.raises(ValueError, match="'kept' or 'dropped'"):
            convert_torch_module(module(4, 2), biases="absorbed")

    @pytest.mark.bad_input
    def test_modules_that_compute_something_else(self, torch):
        """A subclass, a hook, a parametrisation or another forward pass changes what the same parameters compute."""
        module = torch.nn.MultiheadAttention

        class Doubled(module):
            def forward(self, *args, **options):
                output, weights = super().forward(*args, **options)
                return 2 * output, weights

        def changed(change):
            whole = module(6, 2)
            change(whole)
            return whole

        def giving(forward):
            return changed(lambda whole: setattr(whole, "forward", forward(whole.forward)))

        for wrong, words in [
            (Doubled(6, 2), "a subclass too"),
            (
                changed(lambda whole: whole.register_forward_hook(lambda _, __, out: (2 * out[0], None))),
                "differ",
            ),
            (giving(lambda _: lambda query, *_, **__: (2.0 * query, None)), "differ from those of the layer"),
            (giving(lambda _: lambda *_, **__: ("no tensor", None)), "fails on random tokens"),
            (giving(lambda forward: lambda *a, **o: [2 * forward(*a, **o)[0]]), "fails on random|differ"),
        ]:
            with pytest.raises(ValueError, match=words):
                convert_torch_module(wrong)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_the_comparison_leaves_the_module_as_it_is(self, torch, dtype):
        module = torch.nn.MultiheadAttention(6, 2, dropout=0.5, dtype=getattr(torch, dtype))
        before = {name: one.clone() for name, one in module.state_dict().items()}
        state = torch.get_rng_state()
        convert_torch_module(module)
        assert module.training
        assert torch.equal(state, torch.get_rng_state())
        for name, tensor in module.state_dict().items():
            assert tensor.dtype == before[name].dtype
            assert torch.equal(tensor, before[name])


class TestMaps:
    @given(
        heads=st.integers(1, 3),
        head_dim=st.integers(1, 4),
        kept=st.integers(1, 12),
        biases=st.sampled_from(["kept", "dropped"]),
        seed=seeds,
    )
    @settings(max_examples=60, deadline=None)
    def test_the_kept_block_is_that_of_the_whole_with_the_same_spread(
        self, heads, head_dim, kept, biases, seed
    ):
        d = heads * head_dim
        kept = min(kept, d)
        maps = random_maps(seed, d)
        whole = convert_projections(maps, heads=heads, biases=biases).layer
        cut = convert_projections(maps, heads=heads, biases=biases, coordinates=kept).layer
        theta = whole.theta[:, :kept, :kept]
        np.testing.assert_allclose(cut.w, whole.w[:, :kept, :kept], rtol=1e-9, atol=1e-13)
        factor = np.linalg.norm(whole.theta, axis=(1, 2)) / np.linalg.norm(theta, axis=(1, 2))
        for head, one in enumerate(factor):
            np.testing.assert_allclose(cut.theta[head], one * theta[head], rtol=1e-9, atol=1e-13 * one)
        if biases == "kept":
            np.testing.assert_allclose(cut.bias, whole.bias[:kept], rtol=1e-9, atol=1e-13)
            moved = factor[:, None] * whole.key_bias[:, :kept]
            np.testing.assert_allclose(cut.key_bias, moved, rtol=1e-9, atol=1e-13 * factor.max())
        if kept == d:
            np.testing.assert_array_equal(cut.theta, whole.theta)

    @pytest.mark.bad_input
    def test_wrong_maps(self):
        maps = random_maps(0, 6)
        for make, words in [
            (lambda: convert_projections(maps, heads=4), "a divisor of 6"),
            (lambda: convert_projections(maps, heads=2, coordinates=7), "at most 6"),
            (lambda: changed(maps, value=np.zeros((6, 5))), r"value is an array of shape \(6, 5\)"),
            (
                lambda: convert_projections(Projections(*np.full((4, 2, 2), 1e200)), heads=1),
                "NaN or infinite",
            ),
        ]:
            with pytest.raises(ValueError, match=words):
                make()

    def test_a_head_of_which_nothing_is_left(self):
        maps = random_maps(0, 6, bias=0.0)
        for role, what in (("query", "Theta"), ("key", "Theta"), ("value", "W"), ("output", "W")):
            weight = getattr(maps, role).copy()
            weight[(slice(2), slice(3, 6)) if role == "output" else (slice(3, 6), slice(2))] = 0
            with pytest.raises(ValueError, match=f"first 2 coordinates of {what} of head 1 are zero"):
                convert_projections(changed(maps, **{role: weight}), heads=2, coordinates=2)
