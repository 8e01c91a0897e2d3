"""The result of one learner: what it found, and its errors on what it learned from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena.formats import as_plain, plural
from arena.records import LearnerRecord
from arena.target import Target
from attention import Block, Fit, Outcome, RotaryLayer, save_layer
from attention.evaluation import CONFIDENCE, percent
from attention.files import FilePath
from attention.layer import Layer
from upper.newton.certificate import LayerCertificate

_ONE_TOKEN = (
    "With one token a pattern is always 1: examples tell nothing of Theta, and of the W only their sum; an exact layer "
    "may have other matrices."
)
_OF_A_TARGET = {
    "relative_error": "relative error",
    "unknown_part_error": "error on the unknown part",
    "theta_error": "worst head's error in Theta",
    "score_error": "worst error of a score map",
    "w_error": "worst head's error in W",
    "key_bias_error": "worst head's error in c",
    "bias_error": "error in b",
    "network_error": "worst neuron's error",
}
_MAIN_ERRORS = ("unknown_part_error", "held_out_error", "error")
_OF_THE_FIT = ("error_rate_bound", "alone", "examples_used", "examples_needed", "seconds", "engine")
_CERTIFIED = (
    *("determined", "theta", "free", "w", "theta_error", "key_bias_error", "w_error", "rounding"),
    "tolerance",
)


@dataclass(frozen=True, eq=False)
class Learned:
    """One run of a learner on a target, on given examples, or on a function that is asked."""

    learner: LearnerRecord  #: the learner and its parameters in this run
    seed: int  #: of the fit; of given examples it also decides which are held out
    fit: Fit  #: what the learner returned
    source: str  #: what it learned from, in words
    #: Relative errors. On fresh inputs of a target: ``relative_error`` and ``unknown_part_error``, and ``theta_error``,
    #: ``w_error`` of the worst head if the layers have the same shape. On given examples: ``held_out_error``, absolute
    #: if their labels are 0. Of a function: ``error``, on fresh queries.
    measures: Mapping[str, float]
    target: Target | None = None  #: None if there is none to compare with
    noise: float = (
        0.0  #: standard deviation of what was added to the labels of a target; measures are without it
    )
    #: facts on the examples or on the function, as JSON values: ``files`` or ``function``, sizes, and of a function the
    #: random examples that it would have taken
    data: Mapping[str, Any] = field(default_factory=dict)
    #: of given examples: which directions of the parameters they determine, and to what error
    certificate: LayerCertificate | None = None
    uncertified: str = ""  #: why there is no certificate

    @property
    def layer(self) -> Layer | Block | None:
        """The fitted layer or block; None if the learner fits something else."""
        return self.fit.layer

    @property
    def error(self) -> float:
        """The main error. On a target it is that on the unknown part: at 1.0 nothing unknown was learned."""
        return next(self.measures[name] for name in _MAIN_ERRORS if name in self.measures)

    @property
    def heads_found(self) -> int | None:
        """The number of heads, if the learner searched for it; to be trusted if the outcome is a success."""
        searched = self.learner.parameters.get("heads") == "auto"
        return self.layer.heads if searched and self.layer is not None else None

    def __repr__(self) -> str:
        ended = f"{self.fit.outcome.name}, error {self.error:.3g}"
        return f"<Learned: {self.learner.title} on {self.source}, {ended}>"

    def __str__(self) -> str:
        lines = [f"{self.learner.title} on: {self.source}", f"  {self.fit.explanation}"]
        lines += [f"  {label:<28} {value}" for label, value in self._rows() if value]
        if explanation := getattr(self.fit.details, "explanation", ""):
            lines.append(f"  {explanation}")
        if self.target is not None and self.target.inputs.tokens == 1 and "theta_error" in self.measures:
            lines.append(f"  {_ONE_TOKEN}")
        if self.uncertified:
            lines.append(f"  The certificate of the determined directions is left out: {self.uncertified}.")
        if self.certificate is not None:
            lines += [f"  {line}" for line in str(self.certificate).splitlines()]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str]]:
        """A label and a value for each row; rows without a value are left out."""
        fit, layer, access, measures, noise = (
            self.fit,
            self.layer,
            self.learner.access,
            self.measures,
            self._noise,
        )
        rows = {label: _digits(measures.get(name)) for name, label in _OF_A_TARGET.items()}
        plain = " of the labels (not squared)"
        rows["error on held-out examples"] = _digits(measures.get("held_out_error"), plain)
        rows["error on fresh inputs"] = _digits(measures.get("error"))
        rows["noise on the labels, added"] = _digits(self.noise or None)
        if self.target is None and layer is not None and fit.outcome.succeeded:
            mask = "causal" if layer.causal else "without mask"
            rows["the layer"] = f"{mask}, {'with' if layer.biased else 'without'} biases"
        if isinstance(layer, Block):
            rows["the block"] = f"{plural(layer.heads, 'head')}, then {layer.network}"
        if isinstance(layer, RotaryLayer):
            turned = plural(int((layer.frequencies > 0).sum()), "frequency", "frequencies")
            groups = plural(layer.key_heads, "key head")
            rows["rotary positions"] = f"{turned}, {plural(layer.heads, 'head')}, {groups}"
        if (number := self.data.get("examples_for_newton")) is not None:
            least = self.data["counting_floor"]
            rows["random examples instead"] = f"{number} for Newton, {least} at least for any learner"
        if (bound := fit.error_rate_bound) is not None:
            rows["wrong on at most"] = f"{percent(bound)} of inputs, with confidence {CONFIDENCE:g}"
        if access != "random examples":  # they are the rule
            rows["learned from"] = access
        rows["found by"] = f"{fit.alone} alone" if fit.alone else ""
        level = _digits(noise.get("noise_level"), " on an entry (standard deviation)")
        rows["noise on the labels, found"] = level
        rows["expected excess error"] = _digits(noise.get("expected_excess"), " on an entry (squared)")
        if fit.outcome is Outcome.RESIDUAL_FLOOR:
            rows["residual, not noise"] = _digits(fit.trace[-1].measures.get("residual"), plain)
        rows["precision of the answers"] = "" if fit.precision is None else str(fit.precision)
        if self.heads_found is not None:
            doubt = " (not to be trusted: no such layer explains the examples)"
            rows["heads found"] = f"{self.heads_found}{'' if fit.outcome.succeeded else doubt}"
        needed = "" if fit.examples_needed is None else f", and about {fit.examples_needed} are needed"
        cost = "queries asked" if access == "value queries" else "examples used"
        return list((rows | {cost: f"{fit.examples_used}{needed}", "seconds": f"{fit.seconds:.2f}"}).items())

    @property
    def _noise(self) -> Mapping[str, Any]:
        """Newton's estimates ``noise_level`` and ``expected_excess``, if it ended at the level of noise."""
        at_floor = self.fit.trace and self.fit.outcome is Outcome.NOISE_FLOOR
        return self.fit.trace[-1].measures if at_floor else {}

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the trace; what is not finite is None."""
        fit, layer, noise, certificate = self.fit, self.layer, self._noise, self.certificate
        result: dict[str, Any] = {
            **self.data,
            "learner": self.learner.name,
            "access": self.learner.access,
            "seed": self.seed,
            "outcome": fit.outcome.name,
            "outcome_text": fit.explanation,
            "succeeded": fit.outcome.succeeded,
            **{name: noise.get(name) for name in ("noise_level", "expected_excess")},
            "heads_found": self.heads_found,
            "heads_trusted": fit.outcome.succeeded,
            **{name: getattr(fit, name) for name in _OF_THE_FIT},
            "precision": None if fit.precision is None else vars(fit.precision),
            "details": fit.details.to_json() if hasattr(fit.details, "to_json") else None,
            "trace": [step.to_json() for step in fit.trace],
            **self.measures,
        }
        if self.target is not None:
            return as_plain(
                result | {name: self.measures.get(name) for name in _OF_A_TARGET} | {"noise": self.noise}
            )
        result |= {"biases": layer and layer.biased, "causal": layer and layer.causal, "certificate": None}
        if certificate is not None:
            directions = {name: getattr(certificate, name) for name in _CERTIFIED}
            result["certificate"] = {"span": certificate.whitening.rank, **directions}
        return as_plain(result | {"uncertified": self.uncertified})

    def save(self, path: FilePath) -> Path:
        """Write the fitted layer and its origin to a file that `load_target` reads.

        Returns
        -------
        Path
            The path of the file.

        Raises
        ------
        ValueError
            If the fit has no layer.
        OSError
            If the file cannot be written; an existing file is then kept.
        """
        if self.layer is None:
            raise ValueError(f"{self.learner.title} ended without a layer: there is nothing to save.")
        made: dict[str, Any] = {"generator": f"learn {self.learner.name}", "seed": self.seed}
        made |= {"outcome": self.fit.outcome.name} | ({"noise": self.noise} if self.noise else {})
        made |= {} if self.target is None else {"target": self.target.name}
        origin = {"files": "examples", "function": "function"}
        made |= {title: self.data[name] for name, title in origin.items() if name in self.data}
        save_layer(path, self.layer, inputs=None if self.target is None else self.target.inputs, made=made)
        return Path(path)


def _digits(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.3g}{unit}"
