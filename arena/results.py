"""A comparison: exact as JSON, as rows, cut down, and summed up over kinds of targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from arena.records import FORMAT, Comparison, absent
from attention import FileFormatError
from attention.files import FilePath, write_whole
from attention.foreign import strict_json

if TYPE_CHECKING:
    import pandas

    from arena.drawing import Drawing


@dataclass(frozen=True, repr=False)
class Results(Comparison):
    """A comparison as `compare` returns it, with its forms: JSON, rows, table, figures and page.

    A notebook shows its map of errors.

    Examples
    --------
    >>> from arena.records import Cell, LearnerRecord, Status, TargetRecord
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"heads": 1})
    >>> cell = Cell("toy", "Newton", 0, Status.DONE, outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> results = Results({"preset": "quick"}, (target,), (learner,), (cell,))
    >>> results, results.summary("toy", "Newton").verdict
    (<Results: 1 targets, 1 learners, 1 cells>, 'learned')
    >>> Results.from_json(results.to_json()) == results
    True
    >>> results.plot()
    <Drawing: Error on the unknown part: 1 targets down, 1 learners across>
    """

    def __repr__(self) -> str:
        sizes = f"{len(self.targets)} targets, {len(self.learners)} learners, {len(self.cells)} cells"
        return f"<Results: {sizes}>"

    def only(
        self,
        targets: str | Sequence[str] | None = None,
        learners: str | Sequence[str] | None = None,
        seeds: int | Sequence[int] | None = None,
    ) -> "Results":
        """The part of the comparison that is named, in the comparison's order; an argument left out keeps everything.

        ValueError if a target, a learner or a seed is not in the comparison.
        """
        shown = _chosen("target", [target.name for target in self.targets], targets)
        asked = _chosen("learner", [learner.name for learner in self.learners], learners)
        drawn = _chosen("seed", sorted({cell.seed for cell in self.cells}), seeds)
        cells = (cell for cell in self.cells if cell.target in shown and cell.learner in asked)
        return Results(
            self.made if seeds is None else {**self.made, "seeds": len(drawn)},
            tuple(target for target in self.targets if target.name in shown),
            tuple(learner for learner in self.learners if learner.name in asked),
            tuple(cell for cell in cells if cell.seed in drawn),
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a data frame, by pandas, of the extra ``tables``; `to_csv` does without."""
        import pandas

        return pandas.DataFrame(self.rows())

    @classmethod
    def from_json(cls, text: str) -> "Results":
        """Records from the text `to_json` wrote. ValueError if it is another text."""
        try:
            data = strict_json(text)
        except ValueError as error:
            raise ValueError(f"The results are not JSON ({error}): give a whole results.json.") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"This is not a comparison of the format {FORMAT!r}: compare again.")
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"The results hold a wrong value. {error}") from None

    @classmethod
    def load(cls, path: FilePath) -> "Results":
        """Read what `save` wrote: a results.json, or the folder that holds one. FileFormatError if that fails."""
        path = Path(path)
        path = path / "results.json" if path.is_dir() else path
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            why = f"There is no file {path}: give a results.json, or a folder that holds one."
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror}."
        except UnicodeDecodeError:
            why = f"{path} is not UTF-8 text: give a whole results.json."
        except ValueError as error:
            why = f"{path}: {error}"
        raise FileFormatError(why)

    # The methods that show a comparison import their view when they are called: it loads matplotlib or jinja2.

    def save(self, folder: FilePath) -> tuple[Path, Path]:
        """Write results.json, which `load` reads, and index.html into a folder; a missing folder is made.

        OSError if they cannot be written. An existing file is replaced only when the new one is complete.
        """
        from arena.views.page import render_page

        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file: give the path of a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "results.json", folder / "index.html"
        write_whole(data, self.to_json().encode())
        write_whole(page, render_page(self).encode())
        return data, page

    def plot(
        self, target: str | None = None, against: Literal["examples", "seconds"] | None = None
    ) -> "Drawing":
        """The heat map of errors or, for a named target, its curves of error against cost, by default in examples.

        A notebook shows it as a picture; `Drawing.save` writes it as SVG or PDF. ValueError if there is no such target
        or axis, or an axis is given without a target.
        """
        from arena.views.figures import heat_map, learning_curves

        if target is not None:
            return learning_curves(self, target, "examples" if against is None else against)
        if against is not None:
            raise ValueError(f"against is {against!r} without a target: a heat map has no such axis.")
        return heat_map(self)

    def __str__(self) -> str:
        """The table with its caption and legend, as `attention-bounds compare` prints it."""
        from arena.views.table import table_text

        return table_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        from arena.views.page import render_map

        return render_map(self)


def _chosen(what: str, present: Sequence[Any], wanted: Any) -> set[Any]:
    """The wanted items among those present: all for None; a single item stands for a list of one."""
    if wanted is None:
        return set(present)
    wanted = [wanted] if isinstance(wanted, str | int) else list(wanted)
    if strangers := [item for item in wanted if item not in present]:
        raise absent(what, strangers[0], present)
    return set(wanted)
