"""The lattice attack: its overhead over bare LLL and BKZ of fpylll on the same bases, and its reach."""

import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from lwe.attacks.bases import Embedding
from lwe.attacks.blocks import bkz_parameters

from benchmarks.report import machine, write_json
from lwe.attacks.attack import Attack
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.attacks.outcome import AttackOutcome, Budget
from lwe.costs.primal import PrimalShape
from lwe.distributions import SparseSigned
from lwe.parameters import LWEParameters
from lwe.presets import PRESETS
from lwe.samples import LWRSamples, make_samples

__all__ = [
    "BITS",
    "CASES",
    "REACH",
    "TOO_SLOW",
    "WEIGHTS",
    "bits_complaint",
    "lattice_complaint",
    "run_bits",
    "run_lattice",
    "run_ratios",
    "run_reach",
    "run_sparse",
]

TOO_SLOW = 1.1
"""The largest allowed ratio of the attack's seconds to those of fpylll alone."""

CASES = ((32, 56), (8, 24), (4, 14))
"""Levels and entries of the secret: uniform matrix, modulus 128."""

REACH = ((32, 56), (8, 28), (4, 14), (2, 6))
"""Levels and entries in reach, as above: each of the secrets must be found."""

BITS = (
    (2, 24, 20, True),
    (2, 32, 5, True),
    (2, 36, 5, True),
    (4, 56, 3, True),
    (8, 80, 3, True),
    (2, 24, 3, False),
)
"""Levels, entries and secrets with a matrix of bits, q = 64; whether secrets are listed, or embeddings reduced."""

WEIGHTS = (5, 6)
"""Weights of secrets of 80 entries, q = 113, errors of deviation 3: the public toy of LWE-benchmarking, with signs."""

_BUDGET = Budget(300.0)
_REACH_BUDGET = Budget(120.0)


def run_lattice(
    turns: int = 3, secrets: int = 3, out: Path | None = None, reach_out: Path | None = None
) -> dict[str, list[dict[str, Any]]]:
    """The reach of the attack, and its overhead over fpylll: `run_reach` and `run_ratios`."""
    return {"reached": run_reach(secrets, reach_out), "ratios": run_ratios(turns, out)}


def run_ratios(turns: int = 3, out: Path | None = None) -> list[dict[str, Any]]:
    """Run both in turn, in one process, and print the medians and their ratio.

    fpylll alone makes the same calls on the same basis from the same seed: LLL, then the same blocks up to the one
    after which the attack had its secret. Seconds are processor time, so that other programs count less. The attack
    adds the choice of samples, the basis, the reading of rows and the check of secrets.
    """
    rows = []
    for levels, entries in CASES:
        parameters = LWEParameters(entries, 128, levels, matrix="uniform")
        _attack(parameters, 1000)  # loads imports and the pruning tables, which stay in memory
        seconds: dict[str, list[float]] = {"attack": [], "fpylll": []}
        for turn in range(turns):
            attack, calls, bare = _attack(parameters, turn)
            seconds["attack"].append(attack)
            seconds["fpylll"].append(_alone(bare, calls, turn))
        ratios = [a / b for a, b in zip(seconds["attack"], seconds["fpylll"], strict=True)]
        row = {"levels": levels, "entries": entries, "ratio": statistics.median(ratios), "seconds": seconds}
        rows.append(row)
        print(
            f"p = {levels:2}, n' = {entries:2}: attack {statistics.median(seconds['attack']):6.2f} s, "
            f"fpylll alone {statistics.median(seconds['fpylll']):6.2f} s, ratio {row['ratio']:.3f}",
            flush=True,
        )
    write_json(out, rows)
    return rows


def run_reach(secrets: int = 3, out: Path | None = None) -> list[dict[str, Any]]:
    """Attack 2000 samples of several secrets per size within two minutes; print how many are found, and seconds."""
    rows = []
    for levels, entries in REACH:
        parameters = LWEParameters(entries, 128, levels, matrix="uniform")
        found, seconds = 0, []
        for seed in range(secrets):
            samples, secret = make_samples(parameters, 2000, rng=seed)
            result = LatticeAttack()(samples, parameters, rng=seed, budget=_REACH_BUDGET)
            if result.outcome is AttackOutcome.BROKEN and result.secret is not None:
                found += np.array_equal(result.secret, secret)
            seconds.append(result.seconds)
        rows.append(
            {"levels": levels, "entries": entries, "secrets": secrets, "found": found, "seconds": seconds}
        )
        print(
            f"p = {levels:2}, n' = {entries:2}: {found} of {secrets} secrets found, "
            f"{', '.join(f'{one:.1f}' for one in seconds)} s",
            flush=True,
        )
    write_json(out, rows)
    return rows


def run_bits(
    out: Path | None = None, cases: Sequence[tuple[int, int, int, bool]] = BITS
) -> list[dict[str, Any]]:
    """Attack 20,000 samples of rows of bits within a minute of processor time, with and without lists of secrets."""
    rows = []
    for levels, entries, secrets, lists in cases:
        parameters = LWEParameters(entries, 64, levels)
        with nullcontext() if lists else patch.object(LatticeAttack, "_list"):
            row = _found(LatticeAttack(), parameters, secrets, 20_000)
        rows.append({"levels": levels, "entries": entries, "lists": lists, **row})
        words = "lists of secrets" if lists else "embeddings alone"
        print(f"bits, q = 64, p = {levels:2}, n = {entries:2}, {words:16}: {_told(row)}", flush=True)
    write_json(out, {**machine(), "rows": rows})
    return rows


def run_sparse(
    out: Path | None = None, weights: Sequence[int] = WEIGHTS, secrets: int = 3
) -> list[dict[str, Any]]:
    """Attack 2000 samples of sparse secrets by lattices and by meet in the middle, a minute of processor time each."""
    rows = []
    for weight in weights:
        parameters = PRESETS["sparse-lwe-80"].updated(Xs=SparseSigned(weight))
        for attack in (LatticeAttack(), MeetInTheMiddleAttack()):
            row = _found(attack, parameters, secrets, 2000)
            rows.append({"weight": weight, "attack": attack.name, **row})
            print(f"n = 80, q = 113, weight {weight:2}, {attack.name:18}: {_told(row)}", flush=True)
    write_json(out, {**machine(), "rows": rows})
    return rows


def _found(attack: Attack, parameters: LWEParameters, secrets: int, number: int) -> dict[str, Any]:
    """How many secrets an attack finds, and the seconds of each run; its clock counts processor time."""
    found, seconds = 0, []
    for seed in range(secrets):
        samples, secret = make_samples(parameters, number, rng=seed)
        with patch("lwe.attacks.attack.time", SimpleNamespace(perf_counter=time.process_time)):
            result = attack(samples, parameters, rng=seed, budget=Budget(60.0))
        found += result.secret is not None and np.array_equal(result.secret, secret)
        seconds.append(result.seconds)
    return {"secrets": secrets, "found": int(found), "seconds": seconds}


def _told(row: dict[str, Any]) -> str:
    seconds = row["seconds"]
    return (
        f"{row['found']:2} of {row['secrets']:2} secrets found, "
        f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
    )


def lattice_complaint(found: dict[str, list[dict[str, Any]]]) -> str:
    """Sentences on missed goals for the ratios and the sizes reached; empty if all goals are met."""
    said = [
        f"Of {one['secrets']} secrets of {one['entries']} entries with {one['levels']} levels {one['found']} were "
        f"found within {_REACH_BUDGET.seconds:g} seconds: all of them are wanted."
        for one in found["reached"]
        if one["found"] < one["secrets"]
    ]
    worst = max(row["ratio"] for row in found["ratios"])
    if worst > TOO_SLOW:
        said.append(
            f"The attack takes {worst:.2f} times the seconds of fpylll alone: at most {TOO_SLOW} is wanted."
        )
    return " ".join(said)


def bits_complaint(rows: list[dict[str, Any]]) -> str:
    """Sentences on missed goals for matrices of bits: all secrets are to be found by lists; empty if they are."""
    return " ".join(
        f"Of {row['secrets']} secrets of {row['entries']} entries with {row['levels']} levels {row['found']} are found."
        for row in rows
        if row["lists"] and row["found"] < row["secrets"]
    )


def _attack(parameters: LWEParameters, seed: int) -> tuple[float, list[tuple[int, int]], Embedding]:
    """The attack's seconds, its blocks as places and sizes, and its basis."""
    from fpylll.fplll import bkz

    import lwe.attacks.lattice as module

    samples, _ = make_samples(parameters, 1000, rng=seed)
    made: list[Embedding] = []
    calls: list[tuple[int, int]] = []
    real, reducer = module.primal_embedding, bkz.BKZReduction

    def embed(samples: LWRSamples, parameters: LWEParameters, shape: PrimalShape) -> Embedding:
        made.append(real(samples, parameters, shape))
        return made[-1]

    class Counted(reducer):  # type: ignore[misc, valid-type]
        def svp_reduction(self, place: int, size: int, given: Any) -> Any:
            calls.append((place, given.block_size))
            return super().svp_reduction(place, size, given)

    module.primal_embedding, bkz.BKZReduction = embed, Counted
    try:
        start = time.process_time()
        result = LatticeAttack()(samples, parameters, rng=seed, budget=_BUDGET)
        seconds = time.process_time() - start
    finally:
        module.primal_embedding, bkz.BKZReduction = real, reducer
    if result.accuracy != 1.0 or len(made) != 1:
        raise RuntimeError(f"A case of the benchmark was not solved in one lattice: {result}")
    return seconds, calls, made[0]


def _alone(embedding: Embedding, calls: list[tuple[int, int]], seed: int) -> float:
    from fpylll import BKZ, FPLLL, GSO, LLL, IntegerMatrix
    from fpylll.fplll.bkz import BKZReduction

    matrix = IntegerMatrix.from_matrix(embedding.basis.tolist())
    generator = np.random.default_rng(seed)
    FPLLL.set_random_seed(int(generator.integers(2**31)))
    start = time.process_time()
    LLL.reduction(matrix)
    if calls:
        gso = GSO.Mat(matrix, float_type="d" if matrix.nrows <= 160 else "ld")
        gso.update_gso()
        lll = LLL.Reduction(gso)
        reduction = BKZReduction(gso, lll, BKZ.Param(2))
        last = matrix.nrows - 2
        for place, size in calls:
            reduction.svp_reduction(place, min(size, matrix.nrows - place), bkz_parameters(size))
            if place == last:
                lll()
    return time.process_time() - start
