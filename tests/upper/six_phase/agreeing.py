"""Layers whose heads agree, equations that hold exactly for all heads, and their span."""

import numpy as np

from attention import AttentionLayer, make_nice_layer
from upper.six_phase import AttentionSpan
from upper.six_phase.agreement import Contrasts


def agreeing_layer(heads, d, rng, scale=1):
    """Different projections, one attention matrix: all heads agree everywhere."""
    nice = make_nice_layer(heads=heads, dim=d, rng=rng)
    return AttentionLayer(theta=scale * np.stack([nice.theta[0]] * heads), w=nice.w)


def exact_contrasts(theta, n, *, k1=1, rng, noise=0.0):
    """Equations that hold exactly for all heads `theta`: x_a any row, v_j orthogonal to x_a (Theta_i - Theta_1)."""
    rng = np.random.default_rng(rng)
    d = theta.shape[1]
    rows, differences = rng.standard_normal((n, d)), rng.standard_normal((n, k1, d))
    if len(theta) > 1:
        off = np.einsum("na,iab->nib", rows, theta[1:] - theta[0])
        across = np.linalg.qr(np.swapaxes(off, 1, 2))[0]
        differences = differences - differences @ across @ np.swapaxes(across, 1, 2)
    right = np.einsum("na,ab,njb->nj", rows, theta[0], differences)
    right = right + noise * rng.standard_normal(right.shape)
    return Contrasts(rows, differences, right, rng.uniform(0.02, 0.08, n))


def true_span(layer):
    """The span of the layer's heads, as phase 5 would give it without error."""
    heads = layer.theta.reshape(layer.heads, -1)
    offsets = heads[1:] - heads[0]
    flat = np.linalg.svd(offsets, full_matrices=False)[2] if len(offsets) else np.zeros((0, heads.shape[1]))
    centre = heads[0] - (heads[0] @ flat.T) @ flat
    away = (heads - centre) @ flat.T
    d = layer.dim
    return AttentionSpan(
        centre=centre.reshape(d, d),
        directions=flat.reshape(-1, d, d),
        reach=1.2 * float(np.abs(away).max(initial=0.0)),
    )
