"""The arrays that the six phases found, as lists: what a figure of a phase is drawn from, for JSON."""

from typing import Any

import numpy as np

from upper.six_phase import AffineHull, NetSearch, Phases

__all__ = ["phase_arrays"]


def phase_arrays(phases: Phases, number: int) -> list[dict[str, list[int] | list[float]]]:
    """What a phase found in arrays, one mapping a round; none where the phase was not reached.

    Parameters
    ----------
    phases : Phases
        The run.
    number : int
        1 to 6.

    Returns
    -------
    list of dict
        Of phases 2 and 4 ``histogram``, how many rows had a residual in each bin (examples
        that determine no pattern have none); ``bins``, their edges; ``spectrum``,
        the smallest eigenvalues of the body's moment matrix, of a body that has them. Of phase 3 ``margins`` in logits
        (paper mode), or ``thresholds`` and ``changes`` round by round (practical mode). Of phase 5 ``reach``. Of
        phase 6 ``grid``, the points of the net along the hull, for two heads in paper mode. Phase 1 has none.
    """
    if number in (2, 4):
        # the trace has one step for every sculpting, and says in which phase it was
        which = [step.phase for step in phases.fit.trace if step.phase in (2, 4)]
        return [_of_hull(hull) for hull, phase in zip(phases.hulls, which, strict=False) if phase == number]
    if number == 3:
        return [{name: _listed(values) for name, values in one.series.items()} for one in phases.refinements]
    if number == 5 and phases.span is not None:
        return [{"reach": _listed(phases.span.reach)}]
    if number == 6 and phases.net is not None:
        return [_of_net(phases.net)]
    return []


def _of_hull(hull: AffineHull) -> dict[str, list[int] | list[float]]:
    said = {"histogram": _listed(hull.histogram), "bins": _listed(hull.bins)}
    spectrum = hull.body.spectrum
    return {**said, "spectrum": _listed(spectrum)} if len(spectrum) else said


def _of_net(net: NetSearch) -> dict[str, list[int] | list[float]]:
    return {} if net.grid is None else {"grid": _listed(net.grid)}


def _listed(values: Any) -> list[int] | list[float]:
    listed: list[int] | list[float] = np.asarray(values).tolist()
    return listed
