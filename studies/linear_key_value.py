"""Key-value memories: what each distribution of keys determines, and how many examples one rare key needs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from attention import relative_error
from runs import Scale
from studies.line_figure import Panel, line_figure, number_text
from studies.study import Parameters, Row, Study
from studies.tasks import KEYS, KeyValueMemory
from upper.linear_attention import another_minimiser, certify, feature_moment, regress

__all__ = ["STUDY"]

_TITLES = {
    "haar": "Haar",
    "gaussian": "Gaussian keys",
    "fixed": "fixed basis",
    "two-keys": "two keys",
    "half-queried": "half the keys queried",
    "zipf": "Zipf keys",
    "plane": "3-dim key plane",
}
_QUERIES = (1, 6, 12, 15, 17, 18, 19, 20, 25)
_OTHERS = 20


def _cells(scale: Scale) -> Sequence[Parameters]:
    examples = 1500 if scale is Scale.QUICK else 4000
    return [{"keys": keys, "examples": examples} for keys in (*KEYS, "rare")]


def _measure(*, keys: Any, examples: int, rng: Generator) -> dict[str, Any]:
    """The memory learned from one distribution of keys and used on Haar keys; errors are squared, over the labels'.

    `factor` bounds how a squared distance grows from the examples to Haar keys. The error of another minimiser is the
    mean over 20, each as far from that of least norm as its own norm, in any directions that the examples do not see.
    With keys "rare", the error is on queries of the last key of a fixed basis, by the number of its queries.
    """
    if keys == "rare":
        return {"rare": _rare(examples, rng)}
    x_haar, y_haar = KeyValueMemory("haar").examples(examples, rng=rng)
    x, y = KeyValueMemory(keys).examples(examples, rng=rng)
    learned = regress(x, y, least_norm=True)
    certificate = certify(feature_moment(x), feature_moment(x_haar))
    others = [
        relative_error(another_minimiser(learned, certificate, on_domain=False, rng=rng)(x_haar), y_haar)
        for _ in range(_OTHERS)
    ]
    return {
        "rank": certificate.rank,
        "deficit": certificate.deficit,
        "factor": float(certificate.factor) if np.isfinite(certificate.factor) else None,
        "least_norm": float(relative_error(learned(x_haar), y_haar) ** 2),
        "another": float(np.mean(np.square(others))),
    }


def _rare(examples: int, rng: Generator) -> list[dict[str, Any]]:
    """A smaller set of queries is the beginning of a larger one."""
    memory, most = KeyValueMemory("fixed"), max(_QUERIES)
    x, y = memory.on_a_basis(np.arange(examples - most) % (memory.dk - 1), rng=rng)
    x_rare, y_rare = memory.on_a_basis(np.full(most, memory.dk - 1), rng=rng)
    fresh, wanted = memory.on_a_basis(np.full(1000, memory.dk - 1), rng=rng)
    found = []
    for number in _QUERIES:
        both = np.concatenate([x, x_rare[:number]]), np.concatenate([y, y_rare[:number]])
        learned = regress(*both, least_norm=True)
        error = float(relative_error(learned(fresh), wanted) ** 2)
        found.append({"queries": number, "rank": learned.rank, "error": error})
    return found


def _numbers(rows: Sequence[Row]) -> dict[str, Any]:
    named: dict[str, Any] = {"needed": KeyValueMemory("fixed").rank_of_a_key}
    for row in rows:
        if row["keys"] == "rare":
            named |= {f"queries_{one['queries']}": number_text(one["error"]) for one in row["rare"]}
            continue
        name = row["keys"].replace("-", "_")
        named |= {f"{name}_{what}": row[what] for what in ("rank", "deficit")}
        named |= {f"{name}_{what}": number_text(row[what]) for what in ("least_norm", "another")}
    return named


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "training data": _TITLES[row["keys"]],
            "rank": str(row["rank"]),
            "deficit on Haar keys": str(row["deficit"]),
            "error, least norm": number_text(row["least_norm"]),
            "error, another minimiser": number_text(row["another"]),
        }
        for row in rows
        if row["keys"] != "rare"
    ]


def _figure(rows: Sequence[Row]) -> Any:
    rare = [one for row in rows if row["keys"] == "rare" for one in row["rare"]]
    learned = [row for row in rows if row["keys"] != "rare"]
    panels = []
    if learned:
        deficits = [row["deficit"] for row in learned]
        curves = {
            label: (deficits, [row[name] for row in learned])
            for name, label in (("least_norm", "least norm"), ("another", "another minimiser"))
        }
        panels.append(Panel("deficit on Haar keys", "squared error", curves, marks_only=True))
    if rare:
        line = ([one["queries"] for one in rare], [one["error"] for one in rare])
        panels.append(
            Panel("queries of the rare key", "squared error", {"least norm": line}, verticals=(19.0,))
        )
    return line_figure(panels)


STUDY = Study(
    name="linear-key-value",
    title="Key-value memory: which data determine it",
    question="Which distributions of keys determine a memory on Haar keys, and how often must a rare key be queried?",
    cells=_cells,
    measure=_measure,
    numbers=_numbers,
    table=_table,
    figure=_figure,
)
