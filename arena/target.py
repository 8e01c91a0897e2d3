"""A target: a layer or block to learn, with its inputs, its known component, its origin, and a fit of it."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from arena.formats import plural, sentence
from arena.records import TargetRecord
from attention import (
    AttentionLayer,
    Block,
    ExampleOracle,
    Fit,
    GroundTruth,
    Inputs,
    Learner,
    RotaryLayer,
    ValueOracle,
)
from attention.conditions import ConditionReport, check_conditions
from attention.evaluation import Predictor
from attention.fits import Progress
from attention.foreign import printable
from attention.inputs import Rng, inputs_to_json
from attention.layer import Layer
from attention.learning import Access, access_of, asks_any_length
from attention.validation import count
from lower import HardInstance

FROM_ARRAYS, FROM_CHECKPOINT = "arrays", "from-checkpoint"
"""The generators of layers that were not generated: given from Python, or read from a trained model."""
IMPORTED = ("naming", "prefix", "head_dim", "model_dim", "biases", "coordinates")


@dataclass(frozen=True, eq=False)
class Target:
    """A layer to learn, or a block, and what is known about it."""

    name: str  #: unique
    layer: Layer  #: of a block its attention
    inputs: Inputs  #: the distribution of the tokens
    instance: HardInstance | None = None  #: with its secret and its known component; None for other layers
    made: Mapping[str, Any] = field(default_factory=dict)  #: how it was made, as stored in files
    title: str = ""  #: in tables; if empty, made of the family, or of the numbers of heads and tokens
    from_file: bool = False  #: whether `made` is what a file says, which nothing checks
    block: Block | None = (
        None  #: the block of which the layer is the attention, if it is not the layer that answers
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))
        if self.title:
            return
        nice = self.made.get("generator") == "nice"
        title = f"{'Nice' if nice else 'Layer'}, {plural(self.layer.heads, 'head')}"
        tokens = {"boolean": "", "gaussian": ", Gaussian"}
        name = inputs_to_json(self.inputs)["name"]
        title += ", rotary positions" if self.rotary else ""
        title += f", {plural(self.inputs.tokens, 'token')}{tokens.get(name, f', {name}')}"
        title = title if self.instance is None else self.instance.family.title
        if self.block is not None:
            title += f", {plural(self.block.network.width, 'neuron')} {self.block.network.activation}"
        object.__setattr__(self, "title", title)

    @property
    def kind(self) -> str:
        """The kind of a hard family, "block" or "rotary"; of other layers "nice", or "file" for the caller's own."""
        if self.block is not None or self.rotary:
            return "rotary" if self.block is None else "block"
        if self.instance is not None:
            return self.instance.family.kind
        return "nice" if self.made.get("generator") == "nice" else "file"

    @property
    def rotary(self) -> bool:
        """Whether the layer has rotary positions."""
        return isinstance(self.layer, RotaryLayer)

    def __repr__(self) -> str:
        return f"<Target {self.name}: {self.title}, k = {self.inputs.tokens}, d = {self.layer.dim}>"

    @property
    def answers(self) -> Layer | Block:
        """What labels examples and answers queries: the block if there is one, else the layer."""
        return self.layer if self.block is None else self.block

    @property
    def known(self) -> Predictor | None:
        """The known component; in a block, what the network makes of it. None for zero."""
        if self.instance is None or self.instance.known.is_zero:
            return None
        known = self.instance.known
        return known if self.block is None else partial(_behind, self.block, known)

    @cached_property
    def stream(self) -> int:
        """A number below 2^64 that selects its random streams, from its numbers, inputs and known component."""
        known = None if self.instance is None else self.instance.known
        parts = {"layer": self.answers, "inputs": inputs_to_json(self.inputs), "known": known}
        content = {name: identity(value) for name, value in parts.items()}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:8], "big")

    @property
    def content(self) -> str:
        """What distinguishes it from other targets, whatever their names and files."""
        return str(self.stream)

    @cached_property
    def conditions(self) -> ConditionReport | None:
        """The non-degeneracy conditions, measured; None with rotary positions, of which no theorem has any."""
        if not isinstance(self.layer, AttentionLayer):
            return None
        return check_conditions(self.layer, tokens=self.inputs.tokens)

    @cached_property
    def record(self) -> TargetRecord:
        """The record for tables and pages: of a hard instance its certificate, of another layer its conditions."""
        seed, how, instance = self.made.get("seed"), describe_origin(self.made), self.instance
        if self.from_file:
            how = f"The file says: {how}" if how else "Read from a file."
        shape = {"heads": self.layer.heads, "tokens": self.inputs.tokens, "dim": self.layer.dim}
        common = {"inputs": inputs_to_json(self.inputs), "seed": seed if isinstance(seed, int) else None}
        about: dict[str, Any] = shape | common
        if instance is None:
            known = "Nothing is known in advance: the known component is zero."
            conditions = () if self.conditions is None else tuple(self.conditions.rows())
            about |= {"known": known, "conditions": conditions}
        else:
            certificate = instance.certificate.with_facts(instance.family.estimates())
            known = instance.known.describe()
            if self.block is not None:
                known = f"In the attention, of which the certificate is: {known} The network is known, too."
            about |= {"known": known, "certificate": certificate}
        return TargetRecord(self.name, self.title, self.kind, how=how, **about)

    def oracle(
        self,
        access: Access = "random examples",
        *,
        any_length: bool = False,
        noise: float = 0.0,
        rng: Rng = None,
    ) -> ExampleOracle | ValueOracle:
        """A fresh oracle on the target. If its family has noise, so have the labels of random examples.

        A query has as many tokens as an example, or with `any_length` any number; samples of rounding are read from
        random examples. `noise` is the standard deviation of Gaussian noise on every entry of a label. ValueError if it
        is out of range, or the labels have errors of their own.
        """
        if access == "value queries":
            tokens = None if any_length else self.inputs.tokens
            return ValueOracle(self.answers, tokens=tokens, noise=noise, rng=rng)
        if self.instance is not None and self.block is None:
            family = self.instance.family
            if not noise:
                return family.examples(self.instance, rng=rng)
            if family.noisy:
                raise ValueError(
                    f"The noise is {noise}, and the labels of {self.name} have errors of their own: leave it out."
                )
        return ExampleOracle(self.answers, self.inputs, noise=noise, rng=rng)

    def ground_truth(self, n: int = 2000, *, rng: Rng = None) -> GroundTruth:
        """The data for measuring fits: `n` fresh inputs and the known component."""
        return GroundTruth.draw(self.answers, self.inputs, n, known=self.known, rng=rng)

    def fit(
        self,
        learner: Learner,
        seed: int,
        *,
        oracle: ValueOracle | None = None,
        noise: float = 0.0,
        progress: Progress | None = None,
        fresh: int = 2000,
        each_step: bool = True,
    ) -> tuple[Fit, dict[str, float]]:
        """Run a learner that is set up, and measure its fit on fresh examples with noise-free labels.

        Parameters
        ----------
        oracle : ValueOracle, optional
            What the learner sees of the target, if it is not `Target.oracle`.
        fresh : int
            The number of fresh examples.
        each_step : bool
            Whether the steps of the trace are measured too. On large layers this takes longer than learning.

        Notes
        -----
        Everything runs under one thread of BLAS and of torch, from three independent streams (examples, learner,
        measuring). The streams depend on the seed and on the target's content, not on its name or its path.
        """
        from runs import (
            single_thread,  # imported here: a target that is only written needs none of the engine
        )

        seed = count("seed", seed, least=0)
        for_oracle, for_learner, for_truth = (
            np.random.default_rng([seed, self.stream, part]) for part in range(3)
        )
        with single_thread(torch=may_use_torch(learner)):
            truth = self.ground_truth(fresh, rng=for_truth)  # refuses sizes beyond the memory before any work
            access, any_length = access_of(learner), asks_any_length(learner)
            seen = oracle or self.oracle(access, any_length=any_length, noise=noise, rng=for_oracle)
            fit = learner.fit(seen, rng=for_learner, truth=truth if each_step else None, progress=progress)
            return fit, truth.measure(predict=fit.predict, layer=fit.layer)

    def measured(self, learner: Learner, *, seed: int) -> tuple[Fit, dict[str, float | None]]:
        """A learner's fit, its error on what is not known in advance, and that of the worst head's Theta."""
        fit, measures = self.fit(learner, seed, each_step=False)
        theta = 1.0 if fit.layer is None else measures.get("theta_error")
        return fit, {"error": measures["unknown_part_error"], "theta_error": theta}


def describe_origin(made: Mapping[str, Any]) -> str:
    """The sentence that describes the origin; empty if `made` lacks the facts, which a file may hold or not."""
    if made.get("generator") == FROM_ARRAYS:
        return "A layer given as arrays; stored and used as data."
    parameters, notes = made.get("parameters"), made.get("notes")
    if not isinstance(parameters, Mapping) or "generator" not in made:
        return ""
    if made["generator"] == FROM_CHECKPOINT:
        return " ".join(
            [describe_import(parameters), *map(sentence, map(str, notes if isinstance(notes, list) else ()))]
        )
    # sorted, as in a file; lists of numbers are left out, because they are too long for a sentence
    facts = [f"{key} = {value}" for key, value in sorted(parameters.items()) if not isinstance(value, list)]
    seed = f", seed {made['seed']}" if "seed" in made else ""
    return f"Generated by {made['generator']} with {', '.join(facts)}{seed}; stored and used as data."


def describe_import(parameters: Mapping[str, Any]) -> str:
    """A sentence on the origin of a layer of a trained model, without the notes on what was dropped."""
    value = {name: parameters.get(name, "?") for name in ("file", "layer", "heads", *IMPORTED)}
    prefix = f", prefix {value['prefix']}" if value["prefix"] else ""
    heads = plural(value["heads"], "head") if isinstance(value["heads"], int) else f"{value['heads']} heads"
    first = f", the first {value['coordinates']} of {value['model_dim']} coordinates kept"
    return (
        f"Layer {value['layer']} of {value['file']} ({value['naming']} naming{prefix}): {heads} of dimension "
        f"{value['head_dim']}, biases {value['biases']}{'' if value['coordinates'] is None else first}; "
        "stored and used as data."
    )


def _behind(block: Block, attended: Predictor, x: Any) -> Any:
    """The block with other outputs of its attention."""
    return block.network(x + attended(x) if block.residual else attended(x))


def may_use_torch(learner: Learner) -> bool:
    """Whether a fit of this learner may load torch, so that its threads are to be limited first."""
    return getattr(learner, "engine", "torch" if hasattr(learner, "device") else "numpy") != "numpy"


def identity(value: Any) -> Any:
    """A value as JSON: dataclasses by their fields, arrays by a hash of their bytes, other objects by a fingerprint."""
    parts: list[Any] = []
    top, described = _described(value, parts), []
    for part in parts:  # the list grows during the loop
        # a field that is not given, None or False, is left out: streams stay as they were when a class gets one
        fields = {
            field.name: _described(getattr(part, field.name), parts)
            for field in dataclasses.fields(part)
            if not (field.default in (None, False) and getattr(part, field.name) is field.default)
        }
        name = getattr(part, "stream_name", f"{type(part).__module__}.{type(part).__qualname__}")
        described.append({"dataclass": [{"named": name}, fields]})
    return {"is": top, "parts": described}


def _described(value: Any, parts: list[Any]) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {"mapping": [[key, _described(value[key], parts)] for key in sorted(value)]}
    if isinstance(value, list | tuple):
        return [_described(item, parts) for item in value]
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"array": ["numpy.ndarray", str(value.dtype), list(value.shape), content]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not any(value is part for part in parts):
            parts.append(value)
        return {"part": next(number for number, part in enumerate(parts) if part is value)}
    from runs import fingerprint  # imported here: most values need none

    return {"fingerprint": fingerprint(value)}
