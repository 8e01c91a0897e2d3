"""Examples and closed loops of the tasks as subjects: what a machine does is what the table says, step by step."""

import numpy as np
from fuzzing import array, choice, made, seed, whole
from upper_linear import model
from upper_makers import agrees, numbers, with_bounded_work
from upper_tasks import automaton, layout, machine, tried

import upper.linear_attention.tasks as tasks

__all__ = ["TASK_RUN_SUBJECTS"]


def numbers_below(end):
    return lambda rng, shape: rng.integers(0, end, shape)


def start():
    return layout().draw(2, rng=1)


def follow(table, states, words):
    """The states after each symbol, one run at a time."""
    found = np.empty(np.shape(words), int)
    for run, (at, word) in enumerate(zip(states, words, strict=True)):
        for step, symbol in enumerate(word):
            at = found[run, step] = table[at, symbol]
    return found


def follow_machine(own, at, steps):
    """Tapes, positions and states after each step, one run and one cell at a time."""
    found = []
    for tape, position, state in zip(at.tapes, at.positions, at.states, strict=True):
        tape, run = list(map(int, tape)), []
        for _ in range(steps):
            read = tape[position]
            tape[position] = int(own.write[state, read])
            position = (int(position) + int(own.move[state, read])) % len(tape)
            state = int(own.next_state[state, read])
            run.append((list(tape), position, state))
        found.append(run)
    return found


def same_configurations(found, wanted):
    for run, steps in enumerate(wanted):
        for step, (tape, position, state) in enumerate(steps):
            assert list(found.tapes[run, step]) == tape
            assert found.positions[run, step] == position
            assert found.states[run, step] == state


def whole_array(value):
    return np.asarray(numbers(value), int)


# ------------------------------------------------------------------------------------------- automata


def pairs_and_their_states(result, arguments):
    x, y = result
    own, pairs = arguments["automaton"], whole_array(arguments["pairs"])
    states, symbols = np.divmod(pairs, own.symbols)
    eye_s, eye_a = np.eye(own.states), np.eye(own.symbols)
    wanted = np.concatenate([eye_s[states], eye_a[symbols], np.ones((len(pairs), 1))], axis=1)
    assert np.array_equal(x, wanted[:, None])
    assert np.array_equal(y, eye_s[own.transitions[states, symbols]])


def the_word_is_read(result, arguments):
    table = automaton().transitions
    wanted = follow(table, whole_array(arguments["states"]), whole_array(arguments["words"]))
    assert np.array_equal(result, wanted)


TABLES = np.random.default_rng(3).integers(0, 2, (2, 2, 2))


def every_pair_once(result, arguments):
    tables = whole_array(arguments["transitions"])
    number, states, symbols = tables.shape
    pairs = states * symbols
    assert result.shape == (number, pairs, pairs + states)
    for table, tokens in zip(tables, result, strict=True):
        order = np.argmax(tokens[:, :pairs], axis=1)
        assert sorted(order) == list(range(pairs))
        assert np.array_equal(tokens[:, :pairs], np.eye(pairs)[order])
        assert np.array_equal(tokens[:, pairs:], np.eye(states)[table.ravel()[order]])


def tables_of_the_context_are_followed(result, arguments):
    context = numbers(arguments["context"])
    tokens = np.asarray(context, float)
    if not np.array_equal(tokens, CONTEXT):
        return  # other entries are no automaton
    states, words = whole_array(arguments["states"]), whole_array(arguments["words"])
    wanted = [
        follow(TABLES[run], states[run : run + 1], words[run : run + 1])[0] for run in range(len(words))
    ]
    assert np.array_equal(result, wanted)


CONTEXT = tasks.automata_in_context(TABLES, rng=0)


# ------------------------------------------------------------------------------------------- machines


def every_configuration_once(result, arguments):
    own = arguments["layout"]
    rows = np.column_stack([result.tapes, result.positions, result.states])
    assert len(np.unique(rows, axis=0)) == len(rows) == own.configurations


def cells_and_symbols(result, arguments):
    x, y = result
    own, at = arguments["layout"], arguments["at"]
    assert x.shape == (len(at.tapes), own.positions + 1, own.dim)
    assert np.array_equal(x[:, :-1, own.symbol_block], np.eye(own.symbols)[at.tapes])
    read = [tape[position] for tape, position in zip(at.tapes, at.positions, strict=True)]
    assert np.array_equal(y, np.eye(own.symbols)[read])


def steps_of_the_machine(result, arguments):
    x, y = result
    own, at = arguments["machine"], arguments["at"]
    # the constructed model takes the same step
    model = tasks.turing_model(own, at.tapes.shape[1])
    assert np.array_equal(model(x), y)


def the_run_of_the_machine(result, arguments):
    steps = int(arguments["steps"])
    assert result.rounding == 0
    same_configurations(result.configurations, follow_machine(machine(), arguments["start"], steps))


UNIVERSAL = tasks.UniversalLayout(2, 2, 2)


def runs_of_all_machines(result, arguments):
    steps, machines, at = int(arguments["steps"]), arguments["machines"], arguments["start"]
    assert result.rounding == 0
    wanted = [follow_machine(own, at.part(run), steps)[0] for run, own in enumerate(machines)]
    same_configurations(result.configurations, wanted)


def both_steps_of_a_machine(result, arguments):
    x, y = result
    own, number = arguments["layout"], int(arguments["number"])
    assert x.shape == (2 * number, own.states * own.symbols + own.positions + 1, own.dim)
    assert np.array_equal(tasks.universal_model(own)(x), y)


# ------------------------------------------------------------------------------------------- closed loops


def outputs_of_each_step(result, arguments):
    """The history is fed to the model as it stands at every step; huge tokens overflow, and are refused."""
    model, history = arguments["model"], np.asarray(numbers(arguments["tokens"]), float)
    if np.abs(history).max() > 1e100:
        return
    new = np.ones((len(history), 1, model.dim))
    for step in range(3):
        size = np.square(numbers(history)).sum() * np.abs(numbers(history)).max() * 10 + 1
        agrees(result.outputs(), model(history), size=np.full(1, size), what=f"step {step}")
        result.append(new)
        history = np.concatenate([history, new], axis=1)


def loop_model():
    return model(2, 2)


TASK_RUN_SUBJECTS = with_bounded_work(
    [
        tried(
            "automaton_examples",
            {
                "automaton": made(automaton, "<automaton>"),
                "pairs": array((3,), of=numbers_below(4), torch=False),
            },
            pairs_and_their_states,
        ),
        tried(
            "run_automaton",
            {
                "model": made(lambda: tasks.automaton_model(automaton()), "<model>"),
                "automaton": made(automaton, "<automaton>"),
                "states": array((2,), of=numbers_below(2), torch=False),
                "words": array((2, 4), of=numbers_below(2), torch=False),
            },
            the_word_is_read,
        ),
        tried(
            "automata_in_context",
            {"transitions": array((2, 2, 2), of=numbers_below(2), torch=False), "rng": seed()},
            every_pair_once,
        ),
        tried(
            "run_in_context",
            {
                "model": made(lambda: tasks.automaton_in_context_model(states=2, symbols=2), "<model>"),
                "context": array(CONTEXT.shape, of=lambda rng, shape: CONTEXT.copy(), torch=False),
                "states": array((2,), of=numbers_below(2), torch=False),
                "words": array((2, 4), of=numbers_below(2), torch=False),
            },
            tables_of_the_context_are_followed,
            words=("products",),
        ),
        tried(
            "all_configurations",
            {"layout": made(layout, "<layout>")},
            every_configuration_once,
            words=("configurations",),
        ),
        tried(
            "reader_examples",
            {"layout": made(layout, "<layout>"), "at": made(start, "<configurations>")},
            cells_and_symbols,
        ),
        tried(
            "step_examples",
            {"machine": made(machine, "<machine>"), "at": made(start, "<configurations>")},
            steps_of_the_machine,
        ),
        tried(
            "simulate",
            {
                "model": made(lambda: tasks.turing_model(machine(), 2), "<model>"),
                "layout": made(layout, "<layout>"),
                "start": made(start, "<configurations>"),
                "steps": whole(1, 4),
                "keep": choice(True, False),
            },
            the_run_of_the_machine,
        ),
        tried(
            "universal_examples",
            {
                "layout": made(lambda: UNIVERSAL, "<layout>"),
                "number": whole(1, 3),
                "rng": seed(),
            },
            both_steps_of_a_machine,
            words=("runs",),
        ),
        tried(
            "simulate_universal",
            {
                "model": made(lambda: tasks.universal_model(UNIVERSAL), "<model>"),
                "layout": made(lambda: UNIVERSAL, "<layout>"),
                "machines": made(lambda: UNIVERSAL.draw(2, rng=1)[0], "<machines>"),
                "start": made(lambda: UNIVERSAL.draw(2, rng=1)[1], "<configurations>"),
                "steps": whole(1, 3),
                "keep": choice(True, False),
            },
            runs_of_all_machines,
        ),
        tried(
            "ClosedLoop",
            {"model": made(loop_model, "<model>"), "tokens": array((2, 3, 2), torch=False)},
            outputs_of_each_step,
            words=("products",),
        ),
    ]
)
