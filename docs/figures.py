"""Make the figures and tables of the explanations: ``python docs/figures.py [NAMES] [--out FOLDER]``.

The same versions make the same files, but for the seconds in blocks. Names: phases, degrees, families, rounding,
reductions and blocks (seconds each on one core), agreement (a minute) and broken (some minutes; needs PyTorch for Adam,
and its lattice attacks stop after seconds, so that they depend on the machine). All of them without a name.
"""

import argparse
import csv
import io
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # the code beside the pages, not an installed one

from arena import Target, compare, family_target, learn, lwr_target, nice_target
from arena.results import Summary
from arena.views.figures import Drawing
from arena.views.phases import draw_phases
from attention.files import write_whole
from lower import FAMILIES, Key
from lwe import PRESETS, LWEParameters, LWRFamily, known_reductions
from lwe.residues import LARGEST_MODULUS
from runs.figures import axes_in, canvas, learner_look, legend_above, name_axes
from sq import ParityFamily, PeriodicFamily, ProfileFamily, SQFamily
from sq.family import makes
from studies import block_queries
from studies.line_figure import Panel, line_figure

__all__ = ["MAKERS", "OUT", "hard_families", "main"]

OUT = Path(__file__).parent / "explanations"
_DIM = 40
_WIDTHS, _BLOCK_DIM = (8, 16, 32, 64, 128, 256, 512), 32
_TAKE_IT_FOR = {
    "nice": "a layer that learners should find",
    "sq-parity": "an exact bound that grows with the heads; labels with noise",
    "sq-pair": "hardness for correlational queries alone, in one head; Newton learns it",
    "sq-hidden-gate": "nothing that is known in advance",
    "sq-token-parity": "more than two tokens",
    "sq-bump": "many secret bits in two heads",
    "sq-two-slope": "a test of learners of low degree",
    "sq-designed-steps": "a test of learners of low degree",
    "sq-centre-threshold": "nearly a parity of more bits than the heads can hide",
    "sq-periodic": "Gaussian tokens, and an assumption on lattices",
    "lwr": "hardness for all learners, under an assumption",
}


_SIZES = {
    "sq-designed-steps": {"bits": 6, "heads_count": 4},
    "sq-centre-threshold": {"bits": 16, "heads_count": 4},
}


def hard_families(dim: int) -> tuple[SQFamily, ...]:
    """The hard families of the page: all that are registered, of the size that each names."""
    known = [one for one in FAMILIES.values() if makes(one, SQFamily)]
    made = [one.preset(dim=dim, **_SIZES.get(one.name, {})) for one in known]
    return tuple(sorted(made, key=lambda one: (not one.orthonormal, -one.lowest_degree)))


def make_phases(out: Path) -> None:
    """The two figures of paper mode, and the search of practical mode."""
    target = nice_target(heads=2, tokens=2, dim=16)
    paper, practical = (
        draw_phases(learn(target, learner, preset="quick").fit, target.layer)
        for learner in ("six-phase-paper", "six-phase")
    )
    drawings = {"sum": paper["sum"], "net": paper["search"], "residual": practical["search"]}
    for name, drawing in drawings.items():
        drawing.save(out / f"phases-{name}.svg")


def make_degrees(out: Path) -> None:
    """At which degree in the differences of the tokens the secret shows, family by family."""
    shown = [one for one in hard_families(_DIM) if isinstance(one, ProfileFamily)]
    with canvas(6.4, 3.9) as figure:
        axes = axes_in(figure, (0.085, 0.13, 0.895, 0.62))
        for place, family in enumerate(shown):
            weights = np.asarray(family.weights, dtype=float)[:9]
            look = learner_look(place) | {"linestyle": "none"}
            held = np.flatnonzero(weights > 1e-9)
            at = held + 0.13 * (place - (len(shown) - 1) / 2)  # side by side
            axes.vlines(at, 0, weights[held], color=look["color"], linewidth=1.6, alpha=0.7)
            axes.plot(at, weights[held], **look, markersize=5.5, label=family.title)
        axes.set(xlim=(0.4, 8.6), ylim=(0, 1.08), xticks=range(1, 9))
        name_axes(axes, "number r of differences that a query multiplies", "share W_r of the hidden part")
        legend_above(figure, columns=2)
    Drawing(figure, "Shares of the hidden part by degree, for five families.").save(out / "degrees.svg")


def make_blocks(out: Path) -> None:
    """Tokens asked and seconds against the width, of a network and a block of each activation."""
    asked, bounds, seconds = (defaultdict[str, list[tuple[int, float]]](list) for _ in range(3))
    block_queries.measure(  # imports what is slow
        rng=np.random.default_rng(0), part="width", name="block, gelu", dim=8, width=8, times=0, draw=0
    )
    for kind, activation, width in product(("network", "block"), ("relu", "gelu"), _WIDTHS):
        cell = {"part": "width", "name": f"{kind}, {activation}", "dim": _BLOCK_DIM, "width": width}
        began = process_time()
        row = block_queries.measure(rng=np.random.default_rng(0), times=0, draw=0, **cell)
        seconds[cell["name"]].append((width, process_time() - began))
        asked[cell["name"]].append((width, row["tokens"]))
        if activation == "gelu":  # that of ReLU is lower by h / d
            bounds[f"free parameters / d, {kind}"].append((width, row["bound"]))
    figure = line_figure(
        [
            Panel("width h", "tokens asked", asked, log_x=True, bounds=bounds),
            Panel("width h", "seconds of one core", seconds, log_x=True),
        ]
    )
    words = "Tokens asked, beside the counting bound, and seconds, against the width of networks and blocks."
    Drawing(figure, words).save(out / "blocks.svg")


def make_families(out: Path) -> None:
    """The table of all families: those with numbered secrets out of one certificate each."""
    heads = [
        "family",
        "take it for",
        "broken by",
        "targets",
        "lowest degree",
        "orthogonal",
        "queries, tau = .1",
    ]
    rows = [["``nice``", _TAKE_IT_FOR["nice"], "Newton, by-queries, six phases"]]
    for family in hard_families(_DIM):
        values = {fact.name: fact.value for fact in family.instance(0).certificate}
        targets = int(values["targets"])
        rows.append(
            [
                f"``{family.name}``: {family.title}",
                _TAKE_IT_FOR.get(family.name, ""),
                ", ".join(family.broken_by),
                f"{targets:,}"
                if targets < 10**6
                else f"{targets:.1e}".replace("e+0", "e").replace("e+", "e"),
                values["lowest degree of the unknown part"],
                "yes" if family.orthonormal else "no",
                f"{values['queries at tolerance 0.1']:,}",
            ]
        )
    rows += [
        ["``sq-periodic``: Periodic wave", _TAKE_IT_FOR["sq-periodic"], "lattice reduction, without noise"],
        ["``lwr``: Rounding", _TAKE_IT_FOR["lwr"], "BKW, lattices, linearisation, at small sizes"],
    ]
    _write_table(out / "families.csv", heads, [row + [""] * (len(heads) - len(row)) for row in rows])


def make_rounding(out: Path) -> None:
    """The table of the instances of learning with rounding, out of one certificate each."""
    shapes = {
        "plain": LWEParameters(n=24, q=64, p=2),
        "gadget": LWEParameters(n=6, q=16, p=2, matrix="gadget"),
        "plain, larger": LWEParameters(n=128, q=64, p=2),
        "gadget, larger": LWEParameters(n=16, q=256, p=2, matrix="gadget"),
    }
    rows = []
    for name, parameters in shapes.items():
        family = LWRFamily.of(parameters)
        instance = family.instance(rng=1)
        certificate = instance.certificate.with_facts(family.estimates())
        distance, weight = certificate.get(Key.DISTANCE), certificate.get(Key.WEIGHT, 1)
        rows.append(
            [
                name,
                f"n = {parameters.n}, q = {parameters.q}, p = {parameters.p}",
                instance.layer.dim,
                instance.layer.heads,
                f"{certificate.get(Key.RHO):.2f}",
                *(_small(2**one) if isinstance(one, float) else str(one) for one in (distance, weight)),
                certificate.label,
            ]
        )
    heads = ["family", "sizes", "d", "heads", "rho", "from uniform", "degree 1", "broken by, or assumed"]
    _write_table(out / "rounding.csv", heads, rows)


def make_reductions(out: Path) -> None:
    """The table of the reductions of all presets."""
    rows = []
    for name, parameters in PRESETS.items():
        if parameters.q > LARGEST_MODULUS:  # for estimates alone
            continue
        known = known_reductions(parameters)
        # for any errors; those of the rejection are named where it leads on
        rounding = [one for one in known.steps if "LWR" in one.to and one.samples is not None]
        nearest = min(rounding, key=lambda one: one.modulus, default=None)
        heads = known.steps[-1].heads if known.steps else None
        rows.append(
            [
                name,
                f"n = {parameters.n}, q = {parameters.q}, p = {parameters.p}",
                known.rests_on,
                known.samples or "",
                "" if nearest is None else f"{nearest.modulus:.1f}",
                "" if nearest is None else int(nearest.samples or 0),
                "none" if heads is None and known.steps else "" if heads is None else f"{heads:.0f}",
            ]
        )
    heads_of_table = [
        "preset",
        "sizes",
        "rests on",
        "samples needed",
        "bits short",
        "samples covered",
        "heads",
    ]
    _write_table(out / "reductions.csv", heads_of_table, rows)


def make_broken(out: Path) -> None:
    """Learners and attacks on one small target of each family: the table of ``compare``."""
    targets: list[Target] = [family_target(family, seed=1) for family in hard_families(24)]
    targets += [
        family_target(ParityFamily(dim=24, bits=3, noise=0.1), seed=1, name="flipped"),
        family_target(PeriodicFamily(dim=24), seed=1),
        lwr_target(n=24, q=64, p=2, seed=1),
        lwr_target(n=6, q=16, p=2, matrix="gadget", seed=1),
    ]
    results = compare(targets, "newton,adam,six-phase,elimination,linearisation,bkw,lattice")
    titles = [results.learner(one.name).title for one in results.learners]
    rows = []
    for target in results.targets:
        cells = [results.summary(target.name, one.name) for one in results.learners]
        rows.append([target.title, *(_in_words(one) for one in cells)])
    _write_table(out / "broken.csv", ["target", *titles], rows)


MAKERS: Mapping[str, Callable[[Path], None]] = {
    "phases": make_phases,
    "degrees": make_degrees,
    "blocks": make_blocks,
    "families": make_families,
    "rounding": make_rounding,
    "reductions": make_reductions,
    "broken": make_broken,
}
"""What there is to make, the quick ones first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"among {', '.join(MAKERS)}")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder (docs/explanations)")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in MAKERS]
    if unknown:
        parser.error(f"there is no {unknown[0]}: choose among {', '.join(MAKERS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.names or MAKERS:
        MAKERS[name](given.out)
    return 0


def _in_words(cell: Summary) -> str:
    """What a learner reached, without its seconds."""
    return f"{cell.verdict} ({cell.error:.2f})" if cell.error > 0.01 else f"{cell.verdict}"


def _small(value: float | int | str | bool) -> str:
    return value if isinstance(value, str) else "0" if value == 0 else f"{float(value):.1e}"


def _write_table(path: Path, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    write_whole(path, text.getvalue().encode())


if __name__ == "__main__":
    sys.exit(main())
