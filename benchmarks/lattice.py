"""Lattice attacks: their overhead over bare LLL and BKZ of fpylll on the same bases, and their reach."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.report import Json, end_with, machine, write_json
from lwe.attacks.attack import Attack, Budget
from lwe.attacks.embedding import Embedding, EmbeddingAttack
from lwe.attacks.lattice import LatticeAttack
from lwe.attacks.meet_in_the_middle import MeetInTheMiddleAttack
from lwe.attacks.reduction import bkz_parameters
from lwe.costs.primal import PrimalShape
from lwe.distributions import SparseSigned
from lwe.parameters import LWEParameters
from lwe.presets import PRESETS
from lwe.samples import LWRSamples, make_samples

TOO_SLOW = 1.1
"""The largest allowed ratio of the attack's seconds to those of fpylll alone."""

_RATIOS = ((32, 56), (8, 24), (4, 14))  # levels and entries of the secret: uniform matrix, modulus 128
_BUDGET = Budget(300.0)


@dataclass(frozen=True)
class Reach:
    """Secrets of one kind, an attack on them, and what it may spend."""

    parameters: LWEParameters
    attack: Attack
    samples: int
    secrets: int
    seconds: float = 60.0  #: of processor time
    all_wanted: bool = True  #: whether each of the secrets has to be found


def _uniform(levels: int, entries: int) -> Reach:
    return Reach(LWEParameters(entries, 128, levels, "uniform"), LatticeAttack(), 2000, 3, 120.0)


def _bits(levels: int, entries: int, secrets: int) -> Reach:
    return Reach(LWEParameters(entries, 64, levels), LatticeAttack(), 20_000, secrets)


def _sparse(weight: int, attack: Attack) -> Reach:
    # the public toy of LWE-benchmarking, with signs
    toy = PRESETS["sparse-lwe-80"].updated(Xs=SparseSigned(weight))
    return Reach(toy, attack, 2000, 3, all_wanted=False)


REACH: Mapping[str, Sequence[Reach]] = {
    "uniform": [_uniform(*case) for case in ((32, 56), (8, 28), (4, 14), (2, 6))],
    "bits": [
        *(_bits(*case) for case in ((2, 24, 20), (2, 32, 5), (2, 36, 5), (4, 56, 3), (8, 80, 3))),
        Reach(LWEParameters(24, 64, 2), EmbeddingAttack(), 20_000, 3, all_wanted=False),
    ],
    "sparse": [
        _sparse(weight, attack) for weight in (5, 6) for attack in (LatticeAttack(), MeetInTheMiddleAttack())
    ],
}


def run_lattice(turns: int = 3, kinds: str = "ratios,uniform,bits,sparse", out: Json = None) -> None:
    """The overhead over fpylll, and the reach of attacks on each kind of secrets and rows."""
    rows = {
        kind: run_ratios(turns) if kind == "ratios" else run_reach(REACH[kind]) for kind in kinds.split(",")
    }
    write_json(out, {**machine(), **rows})
    missed = [
        f"{row['case']} finds {row['found']} of {row['secrets']} secrets: all of them are wanted."
        for kind, reached in rows.items()
        for row in (reached if kind != "ratios" else ())
        if row["all_wanted"] and row["found"] < row["secrets"]
    ]
    missed += [
        f"The attack takes {row['ratio']:.2f} times the seconds of fpylll alone: at most {TOO_SLOW} is wanted."
        for row in rows.get("ratios", ())
        if row["ratio"] > TOO_SLOW
    ]
    end_with(missed)


def run_ratios(turns: int) -> list[dict[str, Any]]:
    """Run both in turn, in one process, and print the medians and their ratio.

    fpylll alone makes the same calls on the same basis from the same seed: LLL, then the same blocks up to the one
    after which the attack had its secret. Seconds are processor time, so that other programs count less. The attack
    adds the choice of samples, the basis, the reading of rows and the check of secrets.
    """
    rows = []
    for levels, entries in _RATIOS:
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
    return rows


def run_reach(cases: Sequence[Reach]) -> list[dict[str, Any]]:
    """How many secrets an attack finds, and the seconds of each run; its clock counts processor time."""
    rows = []
    for case in cases:
        found, seconds = 0, []
        for seed in range(case.secrets):
            samples, secret = make_samples(case.parameters, case.samples, rng=seed)
            with patch("lwe.attacks.attack.time", SimpleNamespace(perf_counter=time.process_time)):
                result = case.attack(samples, case.parameters, rng=seed, budget=Budget(case.seconds))
            found += result.secret is not None and np.array_equal(result.secret, secret)
            seconds.append(result.seconds)
        name = f"{case.attack.name} on {case.parameters}"
        rows.append(
            {"case": name, "secrets": case.secrets, "found": int(found), "all_wanted": case.all_wanted}
            | {"seconds": seconds}
        )
        print(
            f"{name}: {found} of {case.secrets} secrets found, median {statistics.median(seconds):.2f} s, "
            f"longest {max(seconds):.2f} s",
            flush=True,
        )
    return rows


def _attack(parameters: LWEParameters, seed: int) -> tuple[float, list[tuple[int, int]], Embedding]:
    """The attack's seconds, its blocks as places and sizes, and its basis."""
    from fpylll.fplll import bkz

    import lwe.attacks.embedding as module

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

    with patch.object(module, "primal_embedding", embed), patch.object(bkz, "BKZReduction", Counted):
        start = time.process_time()
        result = LatticeAttack()(samples, parameters, rng=seed, budget=_BUDGET)
        seconds = time.process_time() - start
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
