"""What tokens of a distribution determine: exact ranks, spectra, and what follows for other lengths and domains."""

import numpy as np

from paper_checks.linear_attention.record import Curve, Experiment, HeldFigure, Plot, Report, Table
from upper.linear_attention import (
    LinearAttention,
    certify,
    exact_rank,
    feature_count,
    feature_moment,
    features_from_tensor,
    make_linear_attention,
    population_moment,
    regress,
)
from upper.linear_attention.populations import token_dimension

__all__ = ["ranks_experiment"]

_CASES = (
    ("gaussian", 4, 1),
    ("gaussian", 4, 5),
    ("sphere", 4, 5),
    ("boolean", 4, 1),
    ("boolean", 4, 3),
    ("boolean-constant", 4, 3),
    ("one-hot", 4, 3),
    ("gaussian", 6, 5),
    ("boolean", 6, 5),
)
_REFERENCE = {
    ("gaussian", 4, 1): 20,
    ("gaussian", 4, 5): 40,
    ("boolean", 4, 1): 8,
    ("boolean", 4, 3): 28,
    ("boolean-constant", 4, 3): 55,
}
_BOOLEAN_SPECTRUM = (0.0, 3.3786, 4.0, 10.0, 42.6214)


def ranks_experiment(*, seed: int = 0, quick: bool = False, progress: Report | None = None) -> Experiment:
    """Ranks and spectra of populations, and what examples of one say about another.

    Parameters
    ----------
    seed, quick, progress
        As for `random_experiment`; `quick` takes fewer samples.

    Returns
    -------
    Experiment
        Tables, spectra and checks.

    Notes
    -----
    Seconds; 5e5 samples, or 5e4.

    References
    ----------
    Derived here.
    """
    tell = progress or (lambda words: None)
    rows, right = [], True
    for tokens, d, n in _CASES:
        moment = population_moment(tokens, d, n)  # type: ignore[arg-type]
        numerical = certify(moment, moment).rank
        proved = exact_rank(tokens, d, n)  # type: ignore[arg-type]
        right &= numerical == proved == _REFERENCE.get((tokens, d, n), proved)
        dim = token_dimension(tokens, d)  # type: ignore[arg-type]
        rows.append((tokens, dim, n, feature_count(dim), numerical, proved, _REFERENCE.get((tokens, d, n))))
        tell(f"{tokens} tokens, d = {d}")
    table = Table(
        name="ranks",
        title="Rank of the features: at least so many examples determine the function",
        columns=("tokens", "dimension", "n", "D", "rank of the exact moment", "formula", "rank (reference)"),
        rows=tuple(rows),
        note="The constant coordinate counts as a dimension: four signs and a constant are five.",
    )
    gaussian, boolean = population_moment("gaussian", 4, 5), population_moment("boolean", 4, 3)
    sampled = _sampled_smallest(4, 5, 50_000 if quick else 500_000, seed)
    tell("samples")
    spectrum = _distinct(np.linalg.eigvalsh(boolean))
    smallest = float(np.linalg.eigvalsh(gaussian)[0])
    transfer = _transfer(seed)
    tell("transfer")
    pair = _silent_pair()
    silent = not features_from_tensor(pair.tensor()).any()
    checks = (
        HeldFigure(
            "ranks of exact moments, formulas and reference agree",
            "all of them",
            "all" if right else "not all",
            right,
        ),
        HeldFigure(
            "Gaussian tokens, d = 4, n = 5: the smallest eigenvalue is 2 (n - 1)",
            "8",
            f"{smallest:.12g} exactly, {sampled:.3g} from samples",
            abs(smallest - 8) < 1e-9 and abs(sampled - 8) < 0.8,
        ),
        HeldFigure(
            "Boolean tokens, d = 4, n = 3: the spectrum",
            ", ".join(f"{value:g}" for value in _BOOLEAN_SPECTRUM),
            ", ".join(f"{value:.6g}" for value in spectrum),
            len(spectrum) == 5 and bool(np.allclose(spectrum, _BOOLEAN_SPECTRUM, atol=5e-5)),
        ),
        HeldFigure(
            "Boolean tokens, d = 5: learned at one length, exact at others",
            "below 1e-13",
            f"{transfer[0]:.1e}",
            transfer[0] < 1e-13,
        ),
        HeldFigure(
            "Boolean tokens, d = 5: what was learned is wrong on Gaussian ones",
            "above .1",
            f"{transfer[1]:.2f}",
            transfer[1] > 0.1,
        ),
        HeldFigure(
            "Boolean tokens, d = 5: 20 Gaussian examples more, and it is right there, too",
            "below 1e-11, rank 75",
            f"{transfer[2]:.1e}, rank {transfer[3]}",
            transfer[2] < 1e-11 and transfer[3] == 75,
        ),
        HeldFigure(
            "the antisymmetric pair of heads (V = E01, Q = E23; V = -E02, Q = E13) outputs nothing",
            "exactly 0",
            "exactly 0" if silent else "not 0",
            silent,
        ),
    )
    curves = []
    for label, moment in (("Gaussian, n = 5", gaussian), ("Boolean, n = 3", boolean)):
        values = np.linalg.eigvalsh(moment)[::-1]
        values = values[values > 1e-9]
        curves.append(Curve(label, tuple(range(1, len(values) + 1)), tuple(values.tolist()), marks_only=True))
    return Experiment(
        name="ranks",
        title="What tokens determine: ranks, spectra, transfer",
        question="The function is determined on the span of the features that the tokens have. For Gaussian tokens "
        "that is everything; signs leave directions that no number of examples shows, and on which two models that fit "
        "every example perfectly may differ elsewhere.",
        findings=(
            "Learned from signs, a model is exact on signs of every length, and says nothing about Gaussian tokens; "
            "the certificate tells so before any label is seen.",
            "Signs leave a deficit of twenty on Gaussian tokens at d = 5, and twenty Gaussian examples close it.",
        ),
        checks=checks,
        tables=(
            table,
            Table(
                name="transfer",
                title="Learned from Boolean tokens, d = 5, n = 4: relative error elsewhere",
                columns=("examples", "rank", "signs, n = 2 to 30", "Gaussian tokens"),
                rows=(
                    ("200 of signs", transfer[4], transfer[0], transfer[1]),
                    ("and 20 Gaussian", transfer[3], transfer[5], transfer[2]),
                ),
            ),
        ),
        plots=(
            Plot(
                name="spectra",
                words="Eigenvalues of the exact moments at d = 4 that are not 0: 40 for Gaussian tokens, 28 for signs",
                x_label="place",
                y_label="eigenvalue",
                curves=tuple(curves),
            ),
        ),
        seed=seed,
    )


def _sampled_smallest(d: int, n: int, samples: int, seed: int) -> float:
    x = np.random.default_rng([seed, 0]).standard_normal((samples, n, d))
    return float(np.linalg.eigvalsh(feature_moment(x))[0])


def _distinct(values: np.ndarray) -> np.ndarray:
    """Eigenvalues without their multiplicities."""
    kept = [0.0 if abs(values[0]) < 1e-9 else float(values[0])]
    for value in values[1:]:
        if abs(value - kept[-1]) > 1e-6:
            kept.append(float(value))
    return np.array(kept)


def _transfer(seed: int) -> tuple[float, float, float, int, int, float]:
    rng = np.random.default_rng([seed, 1])
    model = make_linear_attention(heads=3, dim=5, rng=rng)
    signs = np.sign(rng.standard_normal((200, 4, 5)))
    other = rng.standard_normal((20, 4, 5))
    learned = regress(signs, model(signs))
    both = np.concatenate([signs, other])
    added = regress(both, model(both))
    lengths = [np.sign(rng.standard_normal((300, n, 5))) for n in (2, 3, 8, 30)]
    gaussian = rng.standard_normal((1000, 4, 5))

    def error(predict: object, x: np.ndarray) -> float:
        return float(np.linalg.norm(predict(x) - model(x)) / np.linalg.norm(model(x)))  # type: ignore[operator]

    return (
        max(error(learned, x) for x in lengths),
        error(learned, gaussian),
        error(added, gaussian),
        added.rank,
        learned.rank,
        max(error(added, x) for x in lengths),
    )


def _silent_pair() -> LinearAttention:
    v, q = np.zeros((2, 4, 4)), np.zeros((2, 4, 4))
    v[0, 0, 1] = q[0, 2, 3] = q[1, 1, 3] = 1
    v[1, 0, 2] = -1
    return LinearAttention(v, q)
