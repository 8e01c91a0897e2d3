"""One search for the settings of every peer of Newton: the fewest seconds of processor time to an error.

The search has four rounds, a quarter of the budget each. A round draws settings from a box about the best setting so
far, uniform in the logarithms, and every round halves the box. A setting runs on the first training target, and on the
second if it cost less than the best one there; a run is left once it takes longer. The cost of a setting is the sum of
both times. The best setting is tested on five other targets. A fit ends at the error. If it ends above, on fresh
inputs, it costs more than any that does not, and the more the larger its error is.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from attention import BooleanInputs, ExampleOracle, GroundTruth, Learner, Step, make_nice_layer
from benchmarks.peer_settings import REUSED, SETTINGS, PeerSetting, of_nearest
from benchmarks.report import Json, machine, write_json
from runs import single_thread
from upper import LBFGS, counting_floor

_TRAINING, _TESTS = (100, 101), range(110, 115)  # seeds of targets; `learners` has others
_ROUNDS, _FRESH_INPUTS = 4, 500
# the half width of the first box, in powers of two; momentum counts by its distance from 1
_WIDTHS = np.array([0.9, 1.0, 1.3, 1.0, 1.5, 1.0])  # steps, batch, rate, momentum, power, reused
_SLACK, _MISSED = 1.1, 1e3  # of the least cost; seconds, more than a fit takes
_FRESH = 0.2  # of the settings of the first round draw fresh examples
_FLOORS = (3, 4, 5, 6, 8)  # of the examples of L-BFGS, its only setting
_HELD_OUT, _FITTED = 0.95, 0.3  # of the error: where a fit ends, by held-out examples, or by fitted ones

Case = tuple[int, int, int]
Cost = Callable[..., float]


def run_tune_peers(
    peers: str = "sgd,varpro,adam,muon,soap,lbfgs",
    cases: str = "4-4-32,8-4-32,2-2-32,4-4-64",
    error: float = 1e-6,
    budget: float = 120.0,
    out: Json = None,
) -> None:
    """Search for each peer on each case, for `budget` seconds of processor time times (d / 32)."""
    rows: list[dict[str, Any]] = []
    with single_thread(torch=True):
        for m, k, d in (map(int, case.split("-")) for case in cases.split(",")):
            for peer in peers.split(","):
                fits = partial(_cost, peer, (m, k, d), error)
                search = _search_floors if peer == "lbfgs" else partial(_search, budget=budget * d / 32)
                setting, costs, tried = search(peer, (m, k, d), fits)
                tests = [fits(setting, seed) for seed in _TESTS]
                plain = asdict(setting) if isinstance(setting, PeerSetting) else {"floors": setting}
                row = {"m": m, "k": k, "d": d, "peer": peer, "setting": plain, "settings tried": tried}
                row |= {"training seconds": sum(costs) / len(costs), "test seconds": median(tests)}
                rows.append(row | {"missed": sum(cost >= _MISSED for cost in tests)})
                print(*rows[-1].values(), flush=True)
    write_json(out, {**machine(), "error": error, "budget": budget, "rows": rows})


def _search(peer: Any, case: Case, fits: Cost, budget: float) -> tuple[PeerSetting, list[float], int]:
    rng, tried = np.random.default_rng(0), 0
    best, costs = of_nearest(SETTINGS[peer], case), [math.inf] * len(_TRAINING)
    fits(replace(best, steps=60), 0)  # imports count for none
    began = time.process_time()
    for number in range(_ROUNDS):
        while time.process_time() - began < budget * (number + 1) / _ROUNDS:
            setting = best if tried == 0 else _near(best, 0.5**number, rng)
            tried += 1
            trial = [fits(setting, _TRAINING[0], costs[0]), math.inf]
            if trial[0] < costs[0] * _SLACK:
                trial[1] = fits(setting, _TRAINING[1], sum(costs) - trial[0])
            if sum(trial) < sum(costs):
                best, costs = setting, trial
    return best, costs, tried


def _search_floors(_: str, __: Case, fits: Cost) -> tuple[int, list[float], int]:
    costs = {floors: [fits(floors, seed) for seed in _TRAINING] for floors in _FLOORS}
    best = min(costs, key=lambda floors: sum(costs[floors]))
    return best, costs[best], len(costs)


def _near(setting: PeerSetting, width: float, rng: np.random.Generator) -> PeerSetting:
    steps, batch, rate, momentum, power, reused = 2.0 ** (width * rng.uniform(-1, 1, 6) * _WIDTHS)
    size = setting.reused or REUSED
    fresh = rng.random() < _FRESH if width == 1 else setting.reused is None
    return PeerSetting(
        steps=max(50, round(setting.steps * steps)),
        batch=32 * max(1, round(setting.batch * batch / 32)),
        rate=float(f"{setting.rate * rate:.3g}"),
        momentum=max(0.0, round(1 - (1 - setting.momentum) * float(momentum), 3)),
        power=round(setting.power * float(power), 2),
        reused=None if fresh else round(size * reused),
    )


def _cost(
    peer: Any, case: Case, error: float, setting: PeerSetting | int, seed: int, most: float = math.inf
) -> float:
    m, k, d = case
    layer, inputs = make_nice_layer(heads=m, dim=d, rng=seed), BooleanInputs(k, d)
    if isinstance(setting, PeerSetting):
        if peer == "varpro" and setting.batch * k <= m * d:  # too few rows to eliminate W
            return math.inf
        learner: Learner = setting.learner(peer, m, d, tolerance=_HELD_OUT * error)
    else:
        examples = setting * counting_floor(heads=m, tokens=k, dim=d)
        learner = LBFGS(m, examples=examples, tolerance=_FITTED * error)
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
