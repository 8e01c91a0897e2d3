"""A look inside a target: its shape, its certificate if it is hard, and the non-degeneracy conditions it meets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from arena.formats import as_plain
from arena.records import TargetRecord
from arena.target import FROM_CHECKPOINT, Target, describe_import
from arena.targets import load_target
from attention import AttentionLayer, Block
from attention.conditions import ConditionReport, check_conditions
from attention.files import load_layer
from attention.validation import checked
from lower import Verification, verify_instance
from lower.instance_files import unknown_entries
from lwe import LWRFamily, known_reductions
from lwe.reductions import Reductions

_NO_INSTANCE = "verify needs a hard instance: a layer is what its numbers say."
_SHOWN = ("kind", "title", "heads", "tokens", "dim", "inputs", "known")


@dataclass(frozen=True, eq=False)
class Inspection:
    """What is known of a target; prints as text."""

    target: Target | None  #: None if the file of a layer does not store the number of tokens
    #: the non-degeneracy conditions, measured; None with rotary positions, of which no theorem has any
    conditions: ConditionReport | None
    #: the check of a hard instance against its definition; None if not requested
    verification: Verification | None = None
    file: str | None = None  #: of the target

    @property
    def record(self) -> TargetRecord | None:
        """The record of the target."""
        return None if self.target is None else self.target.record

    @property
    def holds(self) -> bool:
        """Whether the target meets its definition: False only if a verification failed."""
        return self.verification is None or self.verification.holds

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on a layer imported from a model: what was dropped, and what the layer cannot represent."""
        notes = None if self.target is None or self.ranks is None else self.target.made.get("notes")
        return tuple(map(str, notes)) if isinstance(notes, list) else ()

    @cached_property
    def ranks(self) -> dict[str, tuple[int, ...]] | None:
        """The ranks of every "theta" and "w" of a layer imported from a model; None for other layers.

        With rotary positions they are those of "queries", "keys" and "w".
        """
        if self.target is None or self.target.made.get("generator") != FROM_CHECKPOINT:
            return None
        layer = self.target.layer
        names = ("queries", "keys", "w") if self.target.rotary else ("theta", "w")
        return {name: tuple(np.linalg.matrix_rank(getattr(layer, name)).tolist()) for name in names}

    @property
    def reductions(self) -> Reductions | None:
        """The assumption of an instance of learning with rounding, and known reductions; None for other targets."""
        instance = None if self.target is None else self.target.instance
        rounding = instance is not None and isinstance(instance.family, LWRFamily)
        return known_reductions(instance.family.parameters) if rounding else None  # type: ignore[union-attr]

    def __str__(self) -> str:
        if self.target is None or self.record is None:
            return str(self.conditions)
        record, how = self.record, self.record.how
        shape = f"  m = {record.heads}, k = {record.tokens}, d = {record.dim}, {record.inputs['name']} inputs"
        lines = []
        if self.ranks is not None:
            how = describe_import(self.target.made["parameters"])  # the notes follow one by one
            shown = {"theta": "Theta", "w": "W"}
            ranks = ", ".join(f"{shown.get(name, name)} {_span(own)}" for name, own in self.ranks.items())
            lines = [f"  ranks: {ranks}", *(f"  - {note}" for note in self.notes)]
        if self.target.block is not None:
            lines = [f"  a block: the conditions are of its attention; then {self.target.block.network}"]
        if self.target.rotary:
            lines.insert(0, f"  rotary positions: {self.target.layer}")
        parts: list[Any] = ["\n".join([record.title, f"  {how}", shape, *lines])]
        if record.certificate is not None:
            parts += [record.certificate, self.reductions, record.known]
        parts += [self.verification, self.conditions]
        return "\n\n".join(str(part) for part in parts if part is not None)

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values; values that are not finite become None."""
        conditions = self.conditions
        values: dict[str, Any] = {"file": self.file, "conditions": conditions and conditions.to_json()}
        if self.target is None or self.record is None:
            return as_plain(values | {name: getattr(conditions, name) for name in ("heads", "dim")})
        record, instance = self.record, self.target.instance
        values |= {name: getattr(record, name) for name in _SHOWN}
        values["file_says" if self.target.from_file and self.ranks is None else "made"] = self.target.made
        parts = {"certificate": record.certificate, "reductions": self.reductions}
        for name, part in (parts | {"verification": self.verification}).items():
            values[name] = None if part is None else part.to_json()
        values["realisation_error"] = None if instance is None else instance.realisation_error
        return as_plain(values if self.ranks is None else values | {"ranks": self.ranks})


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
    >>> inspection = inspect(nice_target(heads=2, tokens=2, dim=64))
    >>> inspection.conditions.satisfied, inspection.holds
    (True, True)
    """
    file = None if isinstance(target, Target) else str(target)
    if file is None and tokens is not None:
        raise ValueError("tokens is given with a Target: it must be left out, as a Target has its own.")
    # the conditions of a layer from elsewhere need no number of tokens
    stored = load_layer(target) if not isinstance(target, Target) and tokens is None else None
    layer = None if stored is None or stored.inputs is not None else stored.layer
    layer = layer.layer if isinstance(layer, Block) else layer
    if isinstance(layer, AttentionLayer):
        if verify:
            raise ValueError(_NO_INSTANCE)
        return Inspection(None, check_conditions(layer, thresholds=thresholds), file=file)
    opened = target if isinstance(target, Target) else load_target(target, tokens=tokens)
    conditions, verification = opened.conditions, None
    if thresholds:
        if not isinstance(opened.layer, AttentionLayer):
            raise ValueError("thresholds are for conditions: leave them out, rotary positions have none.")
        conditions = check_conditions(opened.layer, tokens=opened.inputs.tokens, thresholds=thresholds)
    if verify:
        if opened.instance is None:
            raise ValueError(_NO_INSTANCE)
        verification = verify_instance(opened.instance)
        more = () if file is None else unknown_entries(file, opened.instance)
        reasons = (f"{entry}: an instance has none of that name" for entry in more)
        verification = replace(verification, reasons=(*verification.reasons, *reasons))
    return Inspection(opened, conditions, verification, file)


def _span(ranks: tuple[int, ...]) -> str:
    low, high = min(ranks), max(ranks)
    return f"{low}" if low == high else f"{low} to {high}"
