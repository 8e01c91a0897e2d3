"""One search for the settings of every peer of Newton: the fewest seconds of processor time to an error.

The search has four rounds, a quarter of the budget each. A round draws settings from a box about the best setting so
far, uniform in the logarithms, and every round halves the box. A setting runs on the first training target, and on the
second if it cost less than the best one there; a run is left once it takes longer. The cost of a setting is the sum of
both times. The best setting is tested on five other targets. A fit ends at the error. If it ends above, on fresh
inputs, it costs more than any that does not, and the more the larger its error is.
"""

import math
import time
from dataclasses import asdict, replace
from statistics import median
from typing import Any, cast

import numpy as np

from attention import BooleanInputs, ExampleOracle, GroundTruth, Learner, Step, make_nice_layer
from benchmarks.peer_settings import REUSED, SETTINGS, PeerSetting
from benchmarks.report import Json, machine, write_json
from runs import single_thread
from upper import LBFGS, counting_floor
from upper.baselines.gradient_descent import OptimizerName

_TRAINING, _TESTS = (100, 101), range(110, 115)  # seeds of targets; `learners` has others
_ROUNDS, _FRESH_INPUTS = 4, 500
# the half width of the first box, in powers of two; momentum counts by its distance from 1
_WIDTHS = np.array([0.9, 1.0, 1.3, 1.0, 1.5, 1.0])  # steps, batch, rate, momentum, power, reused
_SLACK, _MISSED = 1.1, 1e3  # of the least cost; seconds, more than a fit takes
_FRESH = 0.2  # of the settings of the first round draw fresh examples
_BATCHES = 32  # batches are multiples of it
_FLOORS = (3, 4, 5, 6, 8)  # of the examples of L-BFGS, its only setting
_HELD_OUT, _FITTED = 0.95, 0.3  # of the error: where a fit ends, by held-out examples, or by fitted ones

Case = tuple[int, int, int]


def run_tune_peers(
    peers: str = "sgd,adam,muon,soap,lbfgs",
    cases: str = "4-4-32,8-4-32,2-2-32,4-4-64",
    error: float = 1e-6,
    budget: float = 120.0,
    out: Json = None,
) -> None:
    """Search for each peer on each case, for `budget` seconds of processor time times (d / 32)."""
    rows: list[dict[str, Any]] = []
    with single_thread(torch=True):
        for m, k, d in (cast(Case, tuple(map(int, case.split("-")))) for case in cases.split(",")):
            for peer in peers.split(","):
                search = _floors if peer == "lbfgs" else _search
                found = search(peer, (m, k, d), error, budget * d / 32)
                rows.append({"m": m, "k": k, "d": d, "peer": peer, **found})
                print(*rows[-1].values(), flush=True)
    write_json(out, {**machine(), "error": error, "budget": budget, "rows": rows})


def _search(peer: OptimizerName, case: Case, error: float, budget: float) -> dict[str, Any]:
    rng, tried, (m, _, d) = np.random.default_rng(0), 0, case

    def cost(setting: PeerSetting, seed: int, most: float = math.inf) -> float:
        return _cost(setting.learner(peer, m, d, tolerance=_HELD_OUT * error), case, seed, error, most)

    best, least = SETTINGS[peer][case], [math.inf] * len(_TRAINING)
    cost(replace(best, steps=60), 0)  # imports count for none
    began = time.process_time()
    for number in range(_ROUNDS):
        while time.process_time() - began < budget * (number + 1) / _ROUNDS:
            setting = best if tried == 0 else _near(best, 0.5**number, rng)
            tried += 1
            costs = [cost(setting, _TRAINING[0], least[0]), math.inf]
            if costs[0] < least[0] * _SLACK:
                costs[1] = cost(setting, _TRAINING[1], sum(least) - costs[0])
            if sum(costs) < sum(least):
                best, least = setting, costs
    return {"setting": asdict(best), "tried": tried, **_tested(least, [cost(best, seed) for seed in _TESTS])}


def _floors(_: str, case: Case, error: float, __: float) -> dict[str, Any]:
    m, k, d = case

    def cost(floors: int, seed: int) -> float:
        examples = floors * counting_floor(heads=m, tokens=k, dim=d)
        return _cost(LBFGS(m, examples=examples, tolerance=_FITTED * error), case, seed, error)

    costs = {floors: [cost(floors, seed) for seed in _TRAINING] for floors in _FLOORS}
    best = min(costs, key=lambda floors: sum(costs[floors]))
    tests = [cost(best, seed) for seed in _TESTS]
    return {"setting": {"floors": best}, "tried": len(costs), **_tested(costs[best], tests)}


def _near(setting: PeerSetting, width: float, rng: np.random.Generator) -> PeerSetting:
    steps, batch, rate, momentum, power, reused = 2.0 ** (width * rng.uniform(-1, 1, 6) * _WIDTHS)
    size = setting.reused or REUSED
    fresh = rng.random() < _FRESH if width == 1 else setting.reused is None
    return PeerSetting(
        steps=max(50, round(setting.steps * steps)),
        batch=max(_BATCHES, _BATCHES * round(setting.batch * batch / _BATCHES)),
        rate=float(f"{setting.rate * rate:.3g}"),
        momentum=max(0.0, round(1 - (1 - setting.momentum) * float(momentum), 3)),
        power=round(setting.power * float(power), 2),
        reused=None if fresh else round(size * reused),
    )


def _cost(learner: Learner, case: Case, seed: int, error: float, most: float = math.inf) -> float:
    m, k, d = case
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
    began = time.process_time()

    def leave(_: Step) -> None:
        if time.process_time() - began > _SLACK * most:
            raise TimeoutError

    try:
        fit = learner.fit(ExampleOracle(layer, inputs, rng=[seed, 2]), rng=[seed, 3], progress=leave)
    except TimeoutError:
        return math.inf
    seconds = time.process_time() - began
    truth = GroundTruth.draw(layer, inputs, _FRESH_INPUTS, rng=[seed, 1])
    reached = truth.measure(layer=fit.layer)["relative_error"] / error
    return seconds if reached <= 1 else _MISSED * (1 + math.log10(reached))


def _tested(training: list[float], tests: list[float]) -> dict[str, Any]:
    missed = sum(cost >= _MISSED for cost in tests)
    return {"seconds": sum(training) / len(training), "tests": median(tests), "missed": missed}
