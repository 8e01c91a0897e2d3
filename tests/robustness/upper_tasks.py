"""The tasks of linear attention as subjects: automata, memories and machines; models that solve them exactly."""

import numpy as np
from fuzzing import Subject, array, choice, made, seed, whole
from upper_makers import numbers, only, with_bounded_work

import upper.linear_attention as linear
import upper.linear_attention.tasks as tasks

__all__ = ["TASK_SUBJECTS"]


def below(end):
    return lambda rng, shape: rng.integers(0, end, shape)


SIZES = {"states": whole(2, 3), "symbols": whole(2, 2)}
LAYOUT = {"states": whole(2, 2), "symbols": whole(2, 2), "positions": whole(2, 3)}
RUNS = {"states": array((2,), of=below(2), torch=False), "words": array((2, 4), of=below(2), torch=False)}


def tried(name, call, arguments, right, **how):
    return Subject(f"upper.linear_attention.tasks.{name}", call, arguments, right=right, **how)


def automaton():
    return tasks.Automaton.random(states=2, symbols=2, rng=0)


def machine():
    return tasks.TuringMachine.random(states=2, symbols=2, rng=0)


def layout():
    return tasks.TapeLayout(2, 2, 2)


def rank_of(x):
    """By singular values: that of the features of examples."""
    return np.linalg.matrix_rank(linear.cubic_features(x), tol=1e-9)


def the_automaton_is_followed(result, arguments):
    table = np.asarray(numbers(arguments["transitions"]), int)
    assert np.array_equal(result.transitions, table)
    assert (result.states, result.symbols) == table.shape
    words = np.arange(6).reshape(2, 3) % result.symbols
    at, found = np.zeros(2, int), []
    for step in range(3):
        at = np.array([table[s, x] for s, x in zip(at, words[:, step], strict=True)])
        found.append(at)
    for run in (result.run, lambda *of: result.run_model(result.model(), *of)):
        assert np.array_equal(run(np.zeros(2, int), words), np.stack(found, axis=1))
    x, y = result.examples(np.arange(table.size))
    assert np.array_equal(result.model()(x), y)
    assert rank_of(x) == table.size


def the_context_is_followed(result, arguments):
    if result.pairs <= 12:
        x, y = result.examples(4 * result.rank, rng=0)
        assert np.array_equal(result.model()(x), y)
        assert result.pairs > 6 or rank_of(x) == result.rank


def the_word_is_read(result, arguments):
    states, words = (np.asarray(numbers(arguments[name]), int) for name in ("states", "words"))
    assert np.array_equal(result, automaton().run(states, words))


def values_are_looked_up(result, arguments):
    """sum_i (k_i . q) v_i, as it is written."""
    dk = result.dk
    if dk > 3 or result.dv > 3:
        return
    x, y = result.examples(2 * result.rank + 20, rng=1)
    keys, values, query = x[:, :-1, :dk], x[:, :-1, dk:], x[:, -1, :dk]
    assert not x[:, -1, dk:].any()
    np.testing.assert_allclose(y, np.einsum("nik,nk,niv->nv", keys, query, values), atol=1e-9)
    if result.keys != "gaussian":
        products = keys @ keys.swapaxes(1, 2)
        np.testing.assert_allclose(
            products, np.broadcast_to(np.eye(keys.shape[1]), products.shape), atol=1e-9
        )
    assert result.keys == "zipf" or rank_of(x) == result.rank


def tapes_are_read(result, arguments):
    assert result.place_block.stop == result.dim == result.symbols + result.positions * (1 + result.states)
    if max(result.states, result.symbols, result.positions) <= 3:
        every = result.every_configuration()
        rows = np.column_stack([every.tapes, every.positions, every.states])
        assert len(np.unique(rows, axis=0)) == len(rows) == result.configurations
        x, y = result.reader_examples(every)
        assert np.array_equal(result.reader_model()(x), y)
        assert rank_of(x) == result.rank


def the_machine_is_simulated(result, arguments):
    if result.states <= 3 and result.symbols <= 3:
        own = tasks.TapeLayout(result.states, result.symbols, 3)
        start = own.draw(3, rng=1)
        found = own.simulate(own.model(result), start, 4)
        assert found.rounding == 0
        assert found.configurations.agreement(result.run(start, 4)) == 1


def the_run_of_the_machine(result, arguments):
    assert result.rounding == 0
    assert result.configurations.agreement(machine().run(arguments["start"], int(arguments["steps"]))) == 1


def machines_are_simulated(result, arguments):
    if max(result.states, result.symbols, result.positions) <= 3:
        machines, start = result.draw(3, rng=1)
        runs = tasks.Configurations.of_runs([one.run(start.part(i), 4) for i, one in enumerate(machines)])
        found = result.simulate(result.model(), machines, start, 4)
        assert found.rounding == 0
        assert found.configurations.agreement(runs) == 1


TASK_SUBJECTS = with_bounded_work(
    [
        tried(
            "Automaton",
            tasks.Automaton,
            {"transitions": array((2, 3), of=below(2))},
            the_automaton_is_followed,
        ),
        tried(
            "Automaton.run_model",
            lambda own, states, words: own.run_model(own.model(), states, words),
            {"own": only(automaton, "<automaton>"), **RUNS},
            the_word_is_read,
        ),
        tried("AutomataInContext", tasks.AutomataInContext, SIZES, the_context_is_followed),
        tried(
            "KeyValueMemory",
            tasks.KeyValueMemory,
            {"keys": choice(*tasks.KEYS), "dk": whole(2, 3), "dv": whole(2, 3)},
            values_are_looked_up,
        ),
        tried(
            "TuringMachine",
            tasks.TuringMachine.random,
            SIZES | {"rng": seed()},
            the_machine_is_simulated,
        ),
        tried("TapeLayout", tasks.TapeLayout, LAYOUT, tapes_are_read),
        tried(
            "TapeLayout.simulate",
            lambda own, start, steps: own.simulate(own.model(machine()), start, steps),
            {
                "own": only(layout, "<layout>"),
                "start": made(lambda: layout().draw(2, rng=1), "<configurations>"),
                "steps": whole(2, 4),
            },
            the_run_of_the_machine,
        ),
        tried("UniversalLayout", tasks.UniversalLayout, LAYOUT, machines_are_simulated),
    ]
)
