"""A look inside a target: its shape, its certificate if it is hard, and the non-degeneracy conditions it meets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena.formats import as_plain
from arena.origin import FROM_CHECKPOINT, describe_inputs, how_imported
from arena.records import TargetRecord
from arena.targets import Target, load_target
from attention import AttentionLayer
from attention.conditions import ConditionReport, check_conditions
from attention.files import load_layer
from attention.validation import checked
from lower import Certificate, HardInstance, Verification, verify_instance
from lower.instance import unknown_entries
from lwe import LWRFamily, known_reductions
from lwe.reductions import Reductions

__all__ = ["Inspection", "inspect"]


@dataclass(frozen=True)
class Inspection:
    """What is known of a target; prints as text.

    Attributes
    ----------
    record : TargetRecord or None
        The target; None if the file of a layer does not store the number of tokens.
    conditions : ConditionReport
        The non-degeneracy conditions, measured.
    certificate : Certificate or None
        Why a hard instance is hard; None for other layers.
    verification : Verification or None
        The check of a hard instance against its definition; None if not requested.
    realisation_error : float or None
        The proved bound on a hard instance's distance from its ideal target.
    made : dict
        How it was made; of a file, what the file says: no verification covers it.
    ranks : dict or None
        The ranks of every "theta" and "w" of a layer imported from a model; None for other layers.
    file : str or None
        The file of the target.
    reductions : Reductions or None
        The assumption of an instance of learning with rounding, and known reductions; None for other targets.
    """

    record: TargetRecord | None
    conditions: ConditionReport
    certificate: Certificate | None
    verification: Verification | None
    realisation_error: float | None
    made: dict[str, Any]
    ranks: dict[str, tuple[int, ...]] | None
    file: str | None
    reductions: Reductions | None = None

    @property
    def holds(self) -> bool:
        """Whether the target meets its definition: False only if a verification failed."""
        return self.verification is None or self.verification.holds

    @property
    def known(self) -> str:
        """A sentence about the part known in advance; empty if there is no record."""
        return "" if self.record is None else self.record.known

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on a layer imported from a model: what was dropped, and what the layer cannot represent."""
        notes = self.made.get("notes") if self.ranks is not None else None
        return tuple(str(note) for note in notes) if isinstance(notes, list) else ()

    def __str__(self) -> str:
        if self.record is None:
            return str(self.conditions)
        one = self.record
        inputs = describe_inputs(one.inputs)
        # the notes follow one by one
        how = one.how if self.ranks is None else how_imported(self.made["parameters"])
        parts = [
            f"{one.title}\n  {how}\n  m = {one.heads}, k = {one.tokens}, d = {one.dim}, {inputs}"
            + self._about_import()
        ]
        if self.certificate is not None:
            parts += [
                str(self.certificate),
                *([] if self.reductions is None else [str(self.reductions)]),
                one.known,
            ]
        if self.verification is not None:
            parts.append(str(self.verification))
        return "\n\n".join([*parts, str(self.conditions)])

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values; values that are not finite become None."""
        if self.record is None:
            report = self.conditions
            said: dict[str, Any] = {
                "file": self.file,
                "heads": report.heads,
                "dim": report.dim,
                "conditions": report.to_json(),
            }
            return as_plain(said)
        record = self.record
        said = {
            "file": self.file,
            "kind": record.kind,
            "title": record.title,
            "heads": record.heads,
            "tokens": record.tokens,
            "dim": record.dim,
            "inputs": record.inputs,
            "made" if self.file is None or self.ranks is not None else "file_says": self.made,
            "conditions": self.conditions.to_json(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "reductions": None if self.reductions is None else self.reductions.to_json(),
            "known": record.known,
            "realisation_error": self.realisation_error,
            "verification": None if self.verification is None else self.verification.to_json(),
        }
        return as_plain(said if self.ranks is None else said | {"ranks": self.ranks})

    def _about_import(self) -> str:
        if self.ranks is None:
            return ""
        lines = [f"  ranks: {_ranks('Theta', self.ranks['theta'])}, {_ranks('W', self.ranks['w'])}"]
        return "".join(f"\n{line}" for line in [*lines, *(f"  - {note}" for note in self.notes)])


@checked
def inspect(
    target: Target | str | Path,
    *,
    tokens: int | None = None,
    verify: bool = False,
    thresholds: Mapping[str, float] | None = None,
) -> Inspection:
    """Measure every non-degeneracy condition of a target, and show what else is known of it.

    Parameters
    ----------
    target : Target or path
        The target, or a file of a layer or of a hard instance.
    tokens : int, optional
        The number k of tokens, if the file does not store it or to override it; not for a `Target`.
    verify : bool
        Check a hard instance against its definition: its heads are read, everything else is computed again.
    thresholds : mapping of str to float, optional
        Thresholds by name of condition, instead of the defaults.

    Raises
    ------
    FileFormatError
        If the file is neither a layer nor an instance.
    ValueError
        If `verify` is set for a target that is not a hard instance, or a threshold names no condition.

    Notes
    -----
    O(m d^3 + m^2 d^2), plus the cost of the verification.

    Examples
    --------
    >>> from arena import nice_target
    >>> found = inspect(nice_target(heads=2, tokens=2, dim=64))
    >>> found.conditions.satisfied, found.holds
    (True, True)
    """
    file = None if isinstance(target, Target) else str(target)
    if isinstance(target, Target):
        if tokens is not None:
            raise ValueError("tokens is given with a Target: it must be left out, as a Target has its own.")
    elif tokens is None and (stored := load_layer(target)).inputs is None:
        # a layer from elsewhere: its conditions need no number of tokens
        if verify:
            raise ValueError("verify needs a hard instance: a layer is what its numbers say.")
        report = check_conditions(stored.layer, thresholds=thresholds)
        return Inspection(None, report, None, None, None, stored.made, None, file)
    else:
        target = load_target(target, tokens=tokens)
    instance = target.instance
    conditions = target.conditions
    if conditions is None or thresholds:
        conditions = check_conditions(target.layer, tokens=target.record.tokens, thresholds=thresholds)
    imported = target.made.get("generator") == FROM_CHECKPOINT
    return Inspection(
        record=target.record,
        conditions=conditions,
        certificate=target.record.certificate,
        verification=_verification(instance, file) if verify else None,
        realisation_error=None if instance is None else instance.realisation_error,
        made=target.made,
        ranks=_measure_ranks(target.layer) if imported else None,
        file=file,
        reductions=known_reductions(instance.family.parameters)
        if instance is not None and isinstance(instance.family, LWRFamily)
        else None,
    )


def _verification(instance: HardInstance | None, file: str | None) -> Verification:
    if instance is None:
        raise ValueError("verify needs a hard instance: a layer is what its numbers say.")
    found = verify_instance(instance)
    more = () if file is None else unknown_entries(file, instance)
    reasons = (f"{entry}: an instance has none of that name" for entry in more)
    return replace(found, reasons=(*found.reasons, *reasons))


def _measure_ranks(layer: AttentionLayer) -> dict[str, tuple[int, ...]]:
    return {name: tuple(np.linalg.matrix_rank(getattr(layer, name)).tolist()) for name in ("theta", "w")}


def _ranks(name: str, ranks: tuple[int, ...]) -> str:
    low, high = min(ranks), max(ranks)
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"
