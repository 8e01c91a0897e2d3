"""Samples of learning with rounding or with errors: of an instance, of a file, or of a named set of parameters."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.names import find_name
from arena.target import Target
from arena.targets import load_target
from attention.validation import NonNegativeInt, PositiveInt, checked
from lower import HardInstance
from lwe import (
    PRESETS,
    Distribution,
    Flips,
    LWEParameters,
    LWRFamily,
    LWRSamples,
    SparseSigned,
    make_samples,
    parse_distribution,
    read_samples,
    samples_from_examples,
)
from lwe.attacks.evidence import secret_predictor
from lwe.distributions import NO_NOISE
from lwe.heads import kept_range
from lwe.parameters import covariate_form
from lwe.sample_files import StoredSamples, kind_of_file
from lwe.samples import Rounding
from lwe.tokens import covariates_of
from sq import ParityFamily

_COMPARED = 200  # examples of the layer that are checked against its secret
_AT_ONCE = 4096  # examples of a layer that are drawn together


@dataclass(frozen=True)
@checked
class Problem:
    """What a file of samples does not say of them.

    Parameters
    ----------
    labels : path, optional
        With a matrix: the labels b, as .npy or as [1 2].
    q : int, optional
        With a matrix, or .npz of another program: the modulus, at most 2^52.
    p : int, optional
        With a matrix: the levels, if labels are rounded down to so many values, floor(p x / q).
    matrix : str, optional
        With a matrix: uniform (the default), binary or ternary entries.
    secret : path, optional
        With samples: the true secret, as .npy or as [1 2], for comparison.
    Xs : Distribution or str, optional
        With a matrix: the distribution of the secret: uniform (the default), binary, binomial:2, sparse:8, ...
    Xe : Distribution or str, optional
        With a matrix: the distribution of the errors: zero (the default), gaussian:3, binomial:2, ...
    rounding : {"down", "nearest"}, optional
        With samples and p: down, or nearest: floor(p x / q + 1/2). By default down, and nearest if that breaks nothing.
    """

    labels: str | Path | None = None
    q: PositiveInt | None = None
    p: PositiveInt | None = None
    matrix: str | None = None
    secret: str | Path | None = None
    Xs: Distribution | str | None = None
    Xe: Distribution | str | None = None
    rounding: Rounding | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The entries that are given."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@checked
def open_samples(
    source: Target | str | Path,
    number: PositiveInt | None = None,
    problem: Problem = Problem(),
    *,
    seed: NonNegativeInt = 0,
    drawn: int = 1000,
) -> tuple[str, StoredSamples]:
    """The title and the samples of an instance, of a file, or of a named set of parameters.

    `number` of them are kept or drawn; by default all that a file has, or `drawn`. FileFormatError if a file is
    damaged; ValueError if there is no such file and no set of that name, the file has fewer samples, or an entry of the
    problem is wrong, missing or of no use.

    Examples
    --------
    >>> title, stored = open_samples("kyber512", 20)
    >>> title, len(stored.samples)
    ('kyber512', 20)
    """
    given, rounding = problem.given, problem.rounding
    named = not isinstance(source, Target) and not os.path.exists(source)
    kind = None if named or isinstance(source, Target) else kind_of_file(source)
    if kind is None:
        if unused := given.keys() - ({"rounding"} if named else set()):
            raise ValueError(
                f"{', '.join(sorted(unused))}: such options are for samples, and {source} holds none. An instance "
                "says them itself; save a matrix with numpy.save."
            )
        if named:
            parameters = PRESETS[find_name(str(source), PRESETS, "file and no set of parameters")]
            made, own = make_samples(parameters, number or drawn, rounding=rounding or "down", rng=seed)
            return str(source), StoredSamples(made, parameters, own)
        target = source if isinstance(source, Target) else load_target(source)
        return target.title, samples_of(target, number or drawn, seed=seed)
    if kind == "matrix" and (missing := [name for name in ("labels", "q") if name not in given]):
        raise ValueError(f"{source} holds a matrix: {missing[0]} is needed, too.")
    stated: dict[str, Any] = {name: given[name] for name in ("matrix", "q", "p", "Xs", "Xe") if name in given}
    if stated or problem.labels is not None:
        stated = {"matrix": "uniform"} | stated
    for name in stated.keys() & {"Xs", "Xe"}:
        stated[name] = parse_distribution(stated[name]) if isinstance(stated[name], str) else stated[name]
    paths: Any = {"path": source, "labels_path": problem.labels, "secret_path": problem.secret}
    stored = read_samples(parameters=stated or None, rounding=rounding, **paths)
    if number is not None and number > len(stored.samples):
        raise ValueError(f"The number of samples is {number}: {source} has {len(stored.samples)}.")
    return str(source), replace(stored, samples=stored.samples.take(number or len(stored.samples)))


@checked
def samples_of(target: Target, number: PositiveInt, *, seed: NonNegativeInt = 0) -> StoredSamples:
    """Samples of an instance: its labels, its parameters, its secret.

    ValueError if the target is not an instance of learning with rounding or a parity, or the labels of its layer and of
    its secret differ.

    Notes
    -----
    A parity of l bits gives samples of learning parity with noise with a sparse secret: from each example on the gate
    the bits 1[x_1j != x_2j], and the sign of the hidden part. Its labels come from the layer.

    Samples of rounding are drawn by integer arithmetic with the secret, hundreds of times faster than the layer. As a
    check, 200 examples of the layer itself are also read as samples and compared with the secret's labels. Only
    examples whose inner product lies in the range of the heads count: outside it labels are wrong by design.
    """
    instance = target.instance
    if instance is not None and isinstance(instance.family, ParityFamily):
        return _parity_samples(instance, instance.family, number, seed)
    if instance is None or not isinstance(instance.family, LWRFamily):
        raise ValueError(
            f"{target.title} is no instance of learning with rounding and no parity: attacks are for those "
            "only; a periodic wave is attacked by learn --learner lattice."
        )
    family = instance.family
    parameters = family.parameters
    drawn, secret = make_samples(parameters, number, secret=instance.secret, rng=[seed, 0])
    if not parameters.noisy:
        x, y = family.examples(instance, rng=[seed, 1]).draw(_COMPARED)
        form = covariate_form(secret, parameters)
        low, high = kept_range(form, parameters.matrix, family.deviations)
        products = covariates_of(x, parameters) @ form
        inside = (low <= products) & (products <= high)
        x, y = x[inside], y[inside]
        allowed = min(0.49, max(1e-6, instance.allowed_error))
        own = samples_from_examples(x, y, parameters, allowed_error=allowed)
        if np.any(secret_predictor(secret, parameters)(own.public) != own.labels):
            raise ValueError(
                f"{target.title}: the layer's labels are not those of its secret; inspect --verify says more."
            )
    return StoredSamples(drawn, parameters, secret)


def _parity_samples(instance: HardInstance, family: ParityFamily, number: int, seed: int) -> StoredSamples:
    noise = Flips(family.noise) if family.noisy else NO_NOISE
    parameters = LWEParameters(family.dim - 1, 2, 2, Xs=SparseSigned(len(instance.secret)), Xe=noise)
    examples, rows, labels, drawn = family.examples(instance, rng=[seed, 0]), [], [], 0
    while drawn < number:
        x, y = examples.draw(_AT_ONCE)
        on = x[:, 0, 0] != x[:, 1, 0]
        x, y, drawn = x[on], y[on], drawn + int(on.sum())
        rows.append(covariates_of(x, parameters))
        labels.append(
            (x[:, 0, 0] * ((y - instance.known(x)) @ instance.direction)[:, 0] < 0).astype(np.int64)
        )
    secret = np.zeros(family.dim - 1, dtype=np.int64)
    secret[instance.secret - 1] = 1
    samples = LWRSamples(np.concatenate(rows)[:number], np.concatenate(labels)[:number])
    return StoredSamples(samples, parameters, secret)
