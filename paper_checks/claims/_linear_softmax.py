"""Claims: cubic features as a baseline against softmax attention."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import Generator

from paper_checks.check import Constants, Scale
from paper_checks.claims._linear_exact import pairs
from paper_checks.claims.tables import checks
from paper_checks.comparison import Comparison, covers, surely_below
from paper_checks.faults import Fault
from studies.intervals import mean_interval

_STRONGER = Fault(
    "paper_checks.claims._linear_softmax:_head",
    lambda right: lambda x, theta, w: right(x, 2 * theta, w),
    "logits of twice the size",
)


@checks("linear-machines/softmax-features", _STRONGER)
def softmax_features(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random heads (Theta Gaussian of that norm, W Gaussian). Least squares on features of our own uses
    many random inputs, and R^2 is on fresh ones. The interval is for the mean over heads. The stated margins
    allow for figures of other draws.
    """
    small, large = (
        _missed(4, (0.03,), ("plain",), scale, rng),
        _missed(4, (1.0,), ("aug", "cent"), scale, rng),
    )
    for kind, values in (
        ("plain", small[0.03, "plain"]),
        ("aug", large[1.0, "aug"]),
        ("cent", large[1.0, "cent"]),
    ):
        yield covers(
            f"R^2 of {kind} features",
            mean_interval([1 - one for one in values]),
            claim[kind],
            margin=claim["margin_cent" if kind == "cent" else "margin"],
        )


@checks("linear-machines/softmax-baseline", _STRONGER, missed={0.1: 0.006, 1.0: 0.32, 10.0: 0.61})
def softmax_baseline(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random heads (Theta Gaussian of that norm, W Gaussian). Least squares on features of our own uses
    many random inputs, and R^2 is on fresh ones. The interval is for the mean over heads, and the margin is a
    tenth of each figure.
    """
    found = _missed(4, tuple(claim.missed), ("tokens",), scale, rng)
    for norm, wanted in claim.missed.items():
        yield covers(
            f"missed at |Theta| = {norm:g}",
            mean_interval(found[norm, "tokens"]),
            wanted,
            margin=claim.margin * wanted,
        )


@checks("linear-machines/softmax-orders", _STRONGER)
def softmax_orders(claim: Constants, scale: Scale, rng: Generator) -> Iterator[Comparison]:
    """Draws random heads (Theta Gaussian of that norm, W Gaussian). Least squares on features of our own uses
    many random inputs, and R^2 is on fresh ones. The interval is for the mean over heads. The margin is 15
    percent; part of it is the excess of a finite sample.
    """
    found = _missed(4, (0.1,), ("aug", "cent"), scale, rng)
    aug, cent = (np.array(found[0.1, kind]) for kind in ("aug", "cent"))
    for kind, values in (("aug", aug), ("cent", cent)):
        yield covers(
            f"missed by {kind} features",
            mean_interval(values),
            claim[kind],
            margin=claim.margin * claim[kind],
        )
    yield surely_below("the second over the first", mean_interval(cent / aug), claim.share)


def _missed(
    k: int, norms: Sequence[float], kinds: Sequence[str], scale: Scale, rng: Generator
) -> dict[tuple[float, str], list[float]]:
    """1 - R^2 of each head at each norm, on fresh inputs."""
    d, heads, number = (8, 10, 10_000) if scale is Scale.QUICK else (8, 30, 40_000)
    x, fresh = (rng.choice([-1.0, 1.0], (size, k, d)) for size in (number, 5000))
    targets = []
    for norm in norms:
        for _ in range(heads):
            theta, w = rng.standard_normal((2, d, d))
            targets.append((theta * norm / np.linalg.norm(theta), w))
    y, wanted = (np.concatenate([_head(one, *target) for target in targets], axis=1) for one in (x, fresh))
    found: dict[tuple[float, str], list[float]] = {}
    for kind in kinds:
        phi = _features(x, kind)
        values, vectors = np.linalg.eigh(phi.T @ phi)
        kept = values > 1e-10 * values[-1]
        half = vectors[:, kept] / values[kept]
        left = _features(fresh, kind) @ (half @ (vectors[:, kept].T @ (phi.T @ y))) - wanted
        shape = (len(fresh), len(norms), heads, d)
        errors, sizes = ((one.reshape(shape) ** 2).sum(axis=(0, 3)) for one in (left, wanted))
        for norm, row in zip(norms, errors / sizes, strict=True):
            found[norm, kind] = [float(one) for one in row]
    return found


def _head(x: np.ndarray, theta: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Softmax attention at the last row."""
    weights = np.exp(np.einsum("nb,nkb->nk", x[:, -1] @ theta, x))
    return np.asarray(np.einsum("nk,nkb->nb", weights / weights.sum(axis=1, keepdims=True), x) @ w)


def _features(x: np.ndarray, kind: str) -> np.ndarray:
    """Plain, with the row mean (aug), centred with query and row mean (cent), or these two alone (tokens)."""
    query, mean = x[:, -1], x.mean(axis=1)
    parts = []
    if kind != "tokens":
        tokens = x - mean[:, None] if kind == "cent" else x
        gram = np.einsum("nkb,nkc->nbc", tokens, tokens)
        parts += [gram[:, b, c, None] * query * (1.0 if b == c else 2**0.5) for b, c in pairs(x.shape[2])]
    parts += [query] if kind in ("cent", "tokens") else []
    parts += [mean] if kind != "plain" else []
    return np.concatenate(parts, axis=1)
