"""The tasks of linear attention as subjects: automata, memories and machines; models that solve them exactly."""

import numpy as np
from fuzzing import Subject, anything, array, choice, fixed, made, seed, whole
from hypothesis import strategies as st
from upper_makers import numbers

import upper.linear_attention as linear
import upper.linear_attention.tasks as tasks

__all__ = ["KEYS", "LAYOUT", "SIZES", "TASK_SUBJECTS", "automaton", "layout", "machine", "tried"]

SIZES = {"states": whole(2, 3), "symbols": whole(2, 2)}
LAYOUT = {"states": whole(2, 2), "symbols": whole(2, 2), "positions": whole(2, 3)}
KEYS = choice(*tasks.KEYS)
KEY_SIZES = {"dk": whole(2, 3), "dv": whole(2, 3)}


def tried(name, arguments, right, **how):
    return Subject(
        f"upper.linear_attention.tasks.{name}",
        getattr(tasks, name.partition(".")[0]),
        arguments,
        right=right,
        **how,
    )


def automaton():
    return tasks.random_automaton(states=2, symbols=2, rng=0)


def machine():
    return tasks.random_machine(states=2, symbols=2, rng=0)


def layout():
    return tasks.TapeLayout(2, 2, 2)


def sizes(arguments, *names):
    return tuple(int(arguments[name]) for name in names)


def rank_of(x):
    """By singular values: that of the features of examples."""
    return np.linalg.matrix_rank(linear.cubic_features(x), tol=1e-9)


# ------------------------------------------------------------------------------------------- automata


def runs_by_its_table(result, arguments):
    table = np.asarray(numbers(arguments["transitions"]), int)
    assert np.array_equal(result.transitions, table)
    assert (result.states, result.symbols) == table.shape
    words = np.arange(6).reshape(2, 3) % result.symbols
    at, found = np.zeros(2, int), []
    for step in range(3):
        at = np.array([table[s, x] for s, x in zip(at, words[:, step], strict=True)])
        found.append(at)
    assert np.array_equal(result.run(np.zeros(2, int), words), np.stack(found, axis=1))


def a_table_is_drawn(result, arguments):
    states, symbols = sizes(arguments, "states", "symbols")
    tables = (
        [result.transitions]
        if hasattr(result, "transitions")
        else [result.write, result.move, result.next_state]
    )
    ranges = [(0, states)] if len(tables) == 1 else [(0, symbols), (-1, 2), (0, states)]
    for table, (least, end) in zip(tables, ranges, strict=True):
        assert table.shape == (states, symbols)
        assert ((least <= table) & (table < end)).all()


def the_automaton_is_followed(result, arguments):
    own = arguments["automaton"]
    x, y = tasks.automaton_examples(own, np.arange(own.states * own.symbols))
    assert np.array_equal(result(x), y)


def the_context_is_followed(result, arguments):
    states, symbols = sizes(arguments, "states", "symbols")
    if states * symbols <= 12:
        x, y = tasks.automaton_in_context_examples(states=states, symbols=symbols, number=20, rng=0)
        assert np.array_equal(result(x), y)


def the_rank_in_context(result, arguments):
    states, symbols = sizes(arguments, "states", "symbols")
    pairs = states * symbols
    assert result == pairs * (1 + pairs * (states - 1))


def contexts_tell_the_label(result, arguments):
    """The token of the pair that is asked for holds the state that is the label."""
    x, y = result
    states, symbols, number = sizes(arguments, "states", "symbols", "number")
    pairs = states * symbols
    assert x.shape == (number, pairs + 1, pairs + states)
    for tokens, label in zip(x, y, strict=True):
        asked = tokens[-1, :pairs]
        assert asked.sum() == 1
        assert not tokens[-1, pairs:].any()
        (row,) = np.flatnonzero(tokens[:-1, :pairs] @ asked)
        assert np.array_equal(tokens[row, pairs:], label)


# ------------------------------------------------------------------------------------------- memories


def values_are_looked_up(result, arguments):
    """sum_i (k_i . q) v_i, as it is written."""
    x, y = result
    dk, dv = sizes(arguments, "dk", "dv")
    assert x.shape[0] == int(arguments["number"])
    assert x.shape[2] == dk + dv
    keys, values, query = x[:, :-1, :dk], x[:, :-1, dk:], x[:, -1, :dk]
    assert not x[:, -1, dk:].any()
    np.testing.assert_allclose(y, np.einsum("nik,nk,niv->nv", keys, query, values), atol=1e-9)
    if arguments["keys"] != "gaussian":
        products = keys @ keys.swapaxes(1, 2)
        np.testing.assert_allclose(
            products, np.broadcast_to(np.eye(keys.shape[1]), products.shape), atol=1e-9
        )


def the_memory_is_read(result, arguments):
    dk, dv = sizes(arguments, "dk", "dv")
    if dk + dv < 50:
        tokens = np.zeros((dk + 1, dk + dv))
        tokens[:dk, :dk] = np.eye(dk)
        tokens[:dk, dk:] = np.arange(dk * dv).reshape(dk, dv)
        tokens[dk, dk - 1] = 1
        assert np.array_equal(result(tokens), tokens[dk - 1, dk:])


def rank_on_examples(result, arguments):
    dk, dv = sizes(arguments, "dk", "dv")
    if dk <= 3 and dv <= 2 and arguments["keys"] != "zipf":
        x, _ = tasks.key_value_examples(arguments["keys"], 2 * result + 20, dk=dk, dv=dv, rng=1)
        assert rank_of(x) == result


def queries_of_a_key(result, arguments):
    dk, dv = sizes(arguments, "dk", "dv")
    assert result == 1 + dk * dv + dv * (dv + 1) // 2


def they_span_all(result, arguments):
    """Independent, and as many as the rank."""
    x, rank = numbers(arguments["x"]), arguments["rank"]
    assert (np.diff(result) > 0).all()
    scaled = np.asarray(x / (np.abs(x).max() or 1), float)
    # examples of very unequal sizes have no rank that singular values tell
    sizes = np.sqrt((scaled**2).sum((1, 2)))
    if sizes.min() > 1e-3 and sizes.max() < 1e3 * sizes.min():
        phi = linear.cubic_features(scaled)
        phi = phi[np.abs(phi).max(axis=1) > 1e-3]
        if len(phi) == len(x):
            whole_rank = np.linalg.matrix_rank(phi, tol=1e-7 * np.abs(phi).max())
            assert len(result) == (whole_rank if rank is None else min(whole_rank, int(rank)))
            assert np.linalg.matrix_rank(phi[result], tol=1e-9 * np.abs(phi).max()) == len(result)


# ------------------------------------------------------------------------------------------- machines


def dimensions_add_up(result, arguments):
    states, symbols, positions = sizes(arguments, "states", "symbols", "positions")
    tape = symbols + positions * (1 + states)
    assert getattr(result, "tape", result).dim == tape
    if hasattr(result, "tape"):
        assert result.dim == tape + positions * states * symbols + states * symbols + symbols + 3 * states
        assert result.go_block.stop == result.dim
    else:
        assert result.place_block.stop == result.dim
    if max(states, symbols, positions) <= 2 and not hasattr(result, "tape"):
        x, _ = tasks.reader_examples(result, tasks.all_configurations(result))
        assert rank_of(x) == result.rank
        assert len(x) == result.configurations


def all_tapes_are_read(result, arguments):
    x, y = tasks.reader_examples(arguments["layout"], tasks.all_configurations(arguments["layout"]))
    assert np.array_equal(result(x), y)


def machines_are_simulated(result, arguments):
    own = arguments["layout"]
    machines, start = own.draw(3, rng=1)
    runs = tasks.Configurations.of_runs([one.run(start.part(i), 4) for i, one in enumerate(machines)])
    found = tasks.simulate_universal(result, own, machines, start, 4)
    assert found.rounding == 0
    assert found.configurations.agreement(runs) == 1


def the_machine_is_simulated(result, arguments):
    own = arguments["machine"]
    of_size = tasks.TapeLayout(own.states, own.symbols, int(arguments["positions"]))
    assert result.dim == result.outputs == of_size.dim
    assert result.heads == of_size.positions * of_size.states
    if of_size.dim < 40:
        start = of_size.draw(3, rng=1)
        found = tasks.simulate(result, of_size, start, 4)
        assert found.rounding == 0
        assert found.configurations.agreement(own.run(start, 4)) == 1


TASK_SUBJECTS = [
    tried(
        "Automaton",
        {"transitions": array((2, 3), of=lambda rng, shape: rng.integers(0, 2, shape))},
        runs_by_its_table,
    ),
    tried("random_automaton", SIZES | {"rng": seed()}, a_table_is_drawn),
    tried("random_machine", SIZES | {"rng": seed()}, a_table_is_drawn),
    tried("automaton_model", {"automaton": made(automaton, "<automaton>")}, the_automaton_is_followed),
    tried("automaton_in_context_model", SIZES, the_context_is_followed),
    tried("automaton_in_context_rank", SIZES, the_rank_in_context),
    tried(
        "automaton_in_context_examples",
        SIZES | {"number": whole(1, 4), "rng": seed()},
        contexts_tell_the_label,
    ),
    tried(
        "key_value_examples",
        {"keys": KEYS, "number": whole(2, 4), "rng": seed()} | KEY_SIZES,
        values_are_looked_up,
        words=("key",),
    ),
    tried("key_value_rank", {"keys": KEYS} | KEY_SIZES, rank_on_examples, words=("key",)),
    tried("lookup_model", KEY_SIZES, the_memory_is_read),
    tried("rank_of_a_key", KEY_SIZES, queries_of_a_key),
    tried(
        "first_independent",
        {
            "x": array((6, 3, 2), torch=False),
            "rank": anything(st.sampled_from([fixed(None), fixed(1), fixed(3)])),
        },
        they_span_all,
    ),
    tried("TapeLayout", LAYOUT, dimensions_add_up),
    tried("UniversalLayout", LAYOUT, dimensions_add_up),
    tried("reader_model", {"layout": made(layout, "<layout>")}, all_tapes_are_read),
    tried(
        "universal_model",
        {"layout": made(lambda: tasks.UniversalLayout(2, 2, 2), "<layout>")},
        machines_are_simulated,
    ),
    tried(
        "turing_model",
        {"machine": made(machine, "<machine>"), "positions": whole(2, 3)},
        the_machine_is_simulated,
    ),
]
