"""A Turing machine as linear attention: tokens are delta writes, and the Gram matrix holds the tape.

A step of the machine is the token [(e_w - e_x) | e_p | e_p'⊗e_s']: at position p, x was erased and w written, and the
machine went on to position p' in state s'. With the tape's cells [e_x | e_p | 0] before it, the block of
G = X^T X between symbols and positions is the current tape, one-hot, however many steps there were.

The query is the last token, and of it p' and s' matter. A head for each position and state asks with
Q = e_p (e_p⊗e_s)^T, gets the symbol under the machine's head from G, and its V maps the symbol to the next token:
P S heads of dimension d = A + P + P S and as many outputs, all entries -1, 0 or 1.

The same model is learned by regression from the steps of runs. There are two ways to show them, and they differ in what
else G holds. In *short contexts* each step stands alone, the current tape and a query: the rank is P S (1 + P (A - 1)),
as for a tape reader, and in the closed loop the tape is written out again after each step. With *whole histories* the
tokens of all steps stay: G then counts visits, the rank is larger and depends on the machine (116 to 260 among random
ones of 2 states, 2 symbols and 4 positions, instead of 40), and the model runs on by its own outputs alone. A model of
least norm from short contexts mostly fails on whole histories, where entries of G vary that it has only seen constant.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from attention._arrays import count, real_array, require_instance, shown
from attention.memory import require_memory
from upper.linear_attention.features import feature_count, prefix_features
from upper.linear_attention.fitted import FeatureRegression
from upper.linear_attention.model import LinearAttention
from upper.linear_attention.regression import regress_features
from upper.linear_attention.tasks._one_hot import nearest_one_hot, one_hot, require_entries
from upper.linear_attention.tasks.closed_loop import Model, run_closed_loop
from upper.linear_attention.tasks.machines import Configurations, TuringMachine
from upper.linear_attention.tasks.tape_reader import TapeLayout

__all__ = [
    "Simulation",
    "delta_tokens",
    "history_examples",
    "learn_from_histories",
    "nearest_delta_tokens",
    "simulate",
    "step_examples",
    "turing_model",
]


def delta_tokens(
    layout: TapeLayout, before: Configurations, after: Configurations
) -> Float[np.ndarray, "*batch d"]:
    """The tokens [(e_w - e_x) | e_p | e_p'⊗e_s'] of steps.

    Parameters
    ----------
    layout : TapeLayout
        Sizes.
    before, after : Configurations
        Of the same shape, before and after a step each.

    Returns
    -------
    array (..., d)
        Tokens; nothing is written where w = x.

    Raises
    ------
    ValueError
        If an entry is out of range, or the shapes differ.

    Notes
    -----
    O(d) a step. References: derived here.
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    Configurations.require_are("before", before)
    Configurations.require_are("after", after)
    if before.tapes.shape != after.tapes.shape or before.tapes.shape[-1] != layout.positions:
        raise ValueError(
            f"The tapes have shapes {before.tapes.shape} and {after.tapes.shape}: the same and {layout.positions} "
            "cells are needed."
        )
    for at in (before, after):
        require_entries("tapes", at.tapes, range(layout.symbols))
        require_entries("positions", at.positions, range(layout.positions))
        require_entries("states", at.states, range(layout.states))
    written = np.take_along_axis(after.tapes, before.positions[..., None], axis=-1)[..., 0]
    delta = one_hot(written, layout.symbols) - one_hot(before.symbols_read, layout.symbols)
    places = after.positions * layout.states + after.states
    blocks = (
        delta,
        one_hot(before.positions, layout.positions),
        one_hot(places, layout.positions * layout.states),
    )
    return np.concatenate(blocks, axis=-1)


def turing_model(machine: TuringMachine, positions: int) -> LinearAttention:
    """The machine as linear attention with a head for each position and state, in whole numbers.

    Parameters
    ----------
    machine : TuringMachine
        With S states and A symbols.
    positions : int
        Cells P of the tape.

    Returns
    -------
    LinearAttention
        P S heads, d = A + P + P S inputs and outputs.

    Raises
    ------
    ValueError
        If `positions` is below 1.

    Notes
    -----
    The fewest heads are not sought: states with the same transitions could share theirs. O(P S d^2).

    References
    ----------
    Derived here.

    Examples
    --------
    >>> from upper.linear_attention.tasks.machines import random_machine
    >>> turing_model(random_machine(states=2, symbols=2, rng=0), 4)
    LinearAttention(heads=8, outputs=14, dim=14)
    """
    require_instance("machine", machine, TuringMachine, needed="a TuringMachine")
    layout = TapeLayout(states=machine.states, symbols=machine.symbols, positions=positions)
    heads, d = layout.positions * layout.states, layout.dim
    require_memory(
        f"A model of a machine on {shown(layout.positions)} positions",
        24 * heads * d**2,
        advice="take fewer positions",
    )
    v, q = np.zeros((heads, d, d)), np.zeros((heads, d, d))
    first = layout.place_block.start
    for head in range(heads):
        p, s = divmod(head, layout.states)
        q[head, layout.symbols + p, first + head] = 1
        for x in range(layout.symbols):
            v[head, machine.write[s, x], x] += 1
            v[head, x, x] -= 1
            v[head, layout.symbols + p, x] = 1
            reached = (p + machine.move[s, x]) % layout.positions
            v[head, first + reached * layout.states + machine.next_state[s, x], x] = 1
    return LinearAttention(v, q)


def step_examples(
    machine: TuringMachine, at: Configurations
) -> tuple[Float[np.ndarray, "N n d"], Float[np.ndarray, "N d"]]:
    """Steps in short contexts: the tape, the query [0 | 0 | e_p⊗e_s], and the step's token as the label.

    Parameters
    ----------
    machine : TuringMachine
        The machine.
    at : Configurations
        N of them, before a step.

    Returns
    -------
    tuple of arrays (N, P + 1, d), (N, d)
        Tokens and labels.

    Raises
    ------
    ValueError
        If the configurations are not of the machine's size.

    Notes
    -----
    The rank is P S (1 + P (A - 1)), far below D: learn from them with ``regress(..., rank=...)`` of it. O(N P d).

    References
    ----------
    Derived here.
    """
    layout = _layout_of(machine, "at", at)
    return layout.contexts(at), delta_tokens(layout, at, machine.step(at))


def history_examples(
    machine: TuringMachine, start: Configurations, steps: int
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N d"]]:
    """Every step of runs with its whole history: features of the tokens so far and the step's token as the label.

    Parameters
    ----------
    machine : TuringMachine
        The machine.
    start : Configurations
        Of R runs.
    steps : int
        Steps T of each.

    Returns
    -------
    tuple of arrays (R T, D), (R T, d)
        Features and labels.

    Raises
    ------
    ValueError
        If the configurations are not of the machine's size, or `steps` is below 1.

    Notes
    -----
    O(R (P + T) d^3), and that many numbers.

    References
    ----------
    Derived here.
    """
    layout, steps = _layout_of(machine, "start", start), count("steps", steps)
    require_memory(
        f"Histories of {shown(steps)} steps",
        16 * len(start.tapes) * (layout.positions + steps) * feature_count(layout.dim),
        advice="take fewer steps or runs",
    )
    labels = delta_tokens(layout, machine.path(start, steps), machine.run(start, steps))
    x = np.concatenate([layout.contexts(start), labels[:, :-1]], axis=1)
    phi = np.concatenate([prefix_features(run)[layout.positions :] for run in x])
    return phi, labels.reshape(-1, layout.dim)


def learn_from_histories(phi: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N p"]) -> FeatureRegression:
    """Least squares of least norm on the features of whole histories.

    Parameters
    ----------
    phi : array (N, D)
        Features.
    y : array (N, p)
        Labels.

    Returns
    -------
    FeatureRegression
        With all D coefficients an output.

    Raises
    ------
    ValueError
        If the numbers of rows differ, or an entry is not finite.

    Notes
    -----
    Features that are zero in all examples have the coefficient zero, and are left out of the singular values: of
    one-hot tokens they are more than half. O(N D'^2), D' the number of the others.

    References
    ----------
    Derived here.
    """
    phi = real_array("phi", phi, ("N", "D"))
    y = real_array("y", y, (len(phi), "p"))
    used = phi.any(axis=0)
    if not used.any():
        raise ValueError("phi is zero: features of at least one history are needed.")
    found = regress_features(phi[:, used], y, method="svd", least_norm=True)
    coefficients = np.zeros((phi.shape[1], y.shape[1]))
    coefficients[used] = found.coefficients
    return replace(found, coefficients=coefficients)


def nearest_delta_tokens(layout: TapeLayout, outputs: Float[np.ndarray, "R d"]) -> Float[np.ndarray, "R d"]:
    """The tokens that a step can have nearest to given outputs, block by block.

    Parameters
    ----------
    layout : TapeLayout
        Sizes.
    outputs : array (R, d)
        What a model says.

    Returns
    -------
    array (R, d)
        Tokens, whether such a step could have been taken or not.

    Raises
    ------
    ValueError
        If the outputs have another dimension.

    Notes
    -----
    e_w - e_x is nearer than 0 if and only if the entries at w and x differ by more than 1. O(R d).

    References
    ----------
    Derived here.
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    outputs = real_array("outputs", outputs, ("R", layout.dim))
    tokens = np.zeros_like(outputs)
    delta = outputs[:, layout.symbol_block]
    step = nearest_one_hot(delta) - nearest_one_hot(-delta)
    wide = np.ptp(delta, axis=1) > 1
    tokens[:, layout.symbol_block] = np.where(wide[:, None], step, 0.0)
    for block in (layout.position_block, layout.place_block):
        tokens[:, block] = nearest_one_hot(outputs[:, block])
    return tokens


@dataclass(frozen=True, eq=False)
class Simulation:
    """What a model made of a machine.

    Attributes
    ----------
    configurations : Configurations
        (R, T, ...), after each step.
    rounding : float
        The largest difference between an output and the token it was rounded to; zero for exact models.
    """

    configurations: Configurations
    rounding: float


def simulate(
    model: Model, layout: TapeLayout, start: Configurations, steps: int, *, keep: bool = True
) -> Simulation:
    """Run a model in a closed loop, rounding its outputs to the nearest token at each step.

    Parameters
    ----------
    model : LinearAttention or FeatureRegression
        From tokens of the layout to tokens.
    layout : TapeLayout
        Sizes.
    start : Configurations
        Of R runs.
    steps : int
        Steps T.
    keep : bool
        Whether the tokens are appended to the history, as the constructed model allows; otherwise the tape is written
        out again after each step, as in `step_examples`: what was learned from those needs ``keep=False``.

    Returns
    -------
    Simulation
        The configurations, read off the tokens.

    Raises
    ------
    ValueError
        If the model or the configurations are not of the layout's size.

    Notes
    -----
    O(R T (H d^2)) by heads, O(R T (P d^2 + d^4)) by coefficients, however long the history is.

    References
    ----------
    Derived here.
    """
    require_instance("layout", layout, TapeLayout, needed="a TapeLayout")
    steps = count("steps", steps)
    found: list[Configurations] = []
    context = layout.contexts(start)
    cells = one_hot(start.tapes, layout.symbols)
    rounding = 0.0

    def following(step: int, outputs: np.ndarray) -> np.ndarray:
        nonlocal cells, rounding
        tokens = nearest_delta_tokens(layout, outputs)
        rounding = max(rounding, float(np.max(np.abs(outputs - tokens))))
        written = tokens[:, layout.position_block, None] * tokens[:, None, layout.symbol_block]
        cells = cells + written  # as the Gram matrix of the history adds it up
        places, states = np.divmod(np.argmax(tokens[:, layout.place_block], axis=1), layout.states)
        found.append(Configurations(np.argmax(cells, axis=2), places, states))
        if keep:
            return tokens[:, None]
        cells = one_hot(found[-1].tapes, layout.symbols)
        return layout.contexts(found[-1])

    outputs = run_closed_loop(model, context, steps, following, keep=keep)
    following(steps - 1, outputs[:, -1])  # the loop asks for no tokens after its last step
    return Simulation(Configurations.along_steps(found), rounding)


def _layout_of(machine: TuringMachine, name: str, at: Configurations) -> TapeLayout:
    require_instance("machine", machine, TuringMachine, needed="a TuringMachine")
    Configurations.require_are(name, at)
    return TapeLayout(states=machine.states, symbols=machine.symbols, positions=at.tapes.shape[-1])
