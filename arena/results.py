"""A comparison and its views: table, figures, page, data frames, files."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from arena.comparison_record import ComparisonRecord
from arena.drawing import Drawing
from arena.figures import heat_map, learning_curves
from arena.frames import cell_table
from arena.page import render_map, render_page
from arena.table import table_text
from attention import FileFormatError
from attention.files import FilePath, write_whole

if TYPE_CHECKING:
    import pandas

__all__ = ["Results"]

_DATA = "results.json"


@dataclass(frozen=True, repr=False)
class Results(ComparisonRecord):
    """A whole comparison, as `compare` returns it; a notebook shows its map of errors.

    Attributes
    ----------
    made, targets, learners, cells
        As in `arena.comparison_record.ComparisonRecord`.

    Examples
    --------
    >>> from arena import Cell, LearnerRecord, Status, TargetRecord
    >>> target = TargetRecord("toy", "A toy", "nice", 1, 2, 4, {"name": "boolean"}, "Drawn at random.")
    >>> learner = LearnerRecord("Newton", "Newton", "None proved.", {"heads": 1})
    >>> cell = Cell("toy", "Newton", 0, Status.DONE, outcome="EXACT", unknown_part_error=1e-15, examples_used=64)
    >>> Results({"preset": "quick"}, (target,), (learner,), (cell,)).plot()
    <Drawing: Error on the unknown part: 1 targets down, 1 learners across>
    """

    def __str__(self) -> str:
        """The table with its caption and legend, as `attention-bounds compare` prints it."""
        return table_text(self).rstrip("\n")

    def _repr_html_(self) -> str:
        return render_map(self)

    def plot(
        self, target: str | None = None, against: Literal["examples", "seconds"] | None = None
    ) -> Drawing:
        """The heat map of errors or, for a named target, its curves of error against cost.

        Parameters
        ----------
        target : str, optional
            The name of a target, for its curves; by default the heat map of all targets.
        against : {"examples", "seconds"}, optional
            The horizontal axis of the curves; by default the examples drawn.

        Returns
        -------
        Drawing
            A notebook shows it as a picture; `Drawing.save` writes it as SVG or PDF.

        Raises
        ------
        ValueError
            If there is no such target or axis, or an axis is given without a target.
        """
        if target is not None:
            return learning_curves(self, target, "examples" if against is None else against)
        if against is not None:
            raise ValueError(f"against is {against!r} without a target: a heat map has no such axis.")
        return heat_map(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """The cells as a data frame, one row each, with what is known of target and learner.

        Raises
        ------
        ImportError
            If pandas, of the extra ``tables``, is not installed; `to_csv` does without.
        """
        return cell_table(self).to_pandas()

    def page(self) -> str:
        """The page of the comparison: one HTML document that needs no network."""
        return render_page(self)

    def save(self, folder: FilePath) -> tuple[Path, Path]:
        """Write results.json and index.html into a folder; a missing folder is made.

        Returns
        -------
        tuple of Path
            The paths of the two files; `load` reads the first one.

        Raises
        ------
        OSError
            If they cannot be written. An existing file is replaced only when the new one is complete.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file: give the path of a folder.")
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / _DATA, folder / "index.html"
        write_whole(data, self.to_json().encode())
        write_whole(page, self.page().encode())
        return data, page

    @classmethod
    def load(cls, path: FilePath) -> "Results":
        """Read what `save` wrote: a results.json, or the folder that holds one.

        Raises
        ------
        FileFormatError
            If the file is missing, cannot be read, or holds no comparison.
        """
        path = Path(path)
        path = path / _DATA if path.is_dir() else path
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileFormatError(
                f"There is no file {path}: give a results.json, or a folder that holds one."
            ) from None
        except OSError as error:
            raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise FileFormatError(f"{path} is not UTF-8 text: give a whole results.json.") from None
        except ValueError as error:
            raise FileFormatError(f"{path}: {error}") from None

    def to_csv(self) -> str:
        """The cells as CSV, one line each, without traces; text that a spreadsheet would run is made harmless."""
        return cell_table(self).to_csv()
