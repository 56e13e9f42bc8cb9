"""Run calibrations: options, seeds, processes, and tables in Markdown.

A calibration is a module of `benchmarks/calibration/` with `TABLES`. A table has cells, and a
function that measures one of them: `measure(cell, repetitions, seed)` returns a record, or several.
A record is a row; its keys are the heads of the columns.
"""

import argparse
import math
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

Record = Mapping[str, object]
Measure = Callable[[Any, int, int], Record | Iterable[Record]]

FOLDER = Path(__file__).parent / "calibration"
PRINTED = "\n## Printed\n"


class Table(NamedTuple):
    """A table of a calibration.

    Attributes:
        measure: From a cell, the number of repetitions and the seed to records.
        cells: What is measured; `--only` searches their text.
        repetitions: As many by default.
        digits: Decimals of shares, which stand in columns whose head has a %.
    """

    measure: Measure
    cells: Sequence[Any]
    repetitions: int = 1_000
    digits: int = 1


class Task(NamedTuple):
    """A cell of a table, as a process gets it: by name and place."""

    calibration: str
    table: str
    place: int
    repetitions: int
    seed: int


def load_tables(calibration: str) -> Mapping[str, Table]:
    """Import a calibration and return its tables."""
    module = import_module(f"benchmarks.calibration.{calibration}")
    tables: Mapping[str, Table] = module.TABLES
    return tables


def list_calibrations() -> list[str]:
    """List the modules that have tables."""
    files = sorted(FOLDER.glob("*.py"))
    return [file.stem for file in files if "\nTABLES" in file.read_text(encoding="utf-8")]


def measure_task(task: Task) -> list[Record]:
    """Measure a cell in this process."""
    table = load_tables(task.calibration)[task.table]
    records = table.measure(table.cells[task.place], task.repetitions, task.seed)
    return [records] if isinstance(records, Mapping) else list(records)


def write_value(head: str, value: object, digits: int) -> str:
    """Write a value for its column.

    Example:
        >>> write_value("covered, %", 0.951, 1), write_value("units", 9000, 1)
        ('95.1', '9,000')
    """
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return f"{100 * value:.{digits}f}" if "%" in head else f"{value:g}"
    return f"{value:,}" if isinstance(value, Integral) else str(value)


def write_table(records: Iterable[Record], digits: int = 1) -> Iterator[str]:
    r"""Write the lines of a table in Markdown, each as soon as its record is there.

    Example:
        >>> print(*write_table([{"world": "even", "rejected, %": 0.05}]), sep="\n")
        | world | rejected, % |
        |---|--:|
        | even | 5.0 |
    """
    is_first = True
    for record in records:
        if is_first:
            marks = ("---" if isinstance(value, str) else "--:" for value in record.values())
            yield f"| {' | '.join(record)} |"
            yield f"|{'|'.join(marks)}|"
        is_first = False
        values = (write_value(head, value, digits) for head, value in record.items())
        yield f"| {' | '.join(values)} |"


def write_share(count: float, total: int) -> str:
    """Write a share in percent with its Monte Carlo standard error.

    Example:
        >>> write_share(20, 400)
        '5.0 ± 1.1'
    """
    share = count / total if total else math.nan
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / max(total, 1)):.1f}"


def write_counts(counts: Counter[str]) -> str:
    """Write counts, the most frequent first.

    Example:
        >>> write_counts(Counter(agree=3, conflict=1)), write_counts(Counter())
        ('agree 3, conflict 1', '–')
    """
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "–"


def run_calibration(calibration: str, options: argparse.Namespace) -> Iterator[str]:
    """Measure the cells that the options choose, and yield the lines of the tables."""
    # A process has a thread; together they use every core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(
        options.processes, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        run = pool.map if options.processes > 1 else map
        is_first = True
        for name, table in load_tables(calibration).items():
            if options.table not in (None, name):
                continue
            repetitions = options.repetitions or table.repetitions
            tasks = [
                Task(calibration, name, place, repetitions, options.seed)
                for place, cell in enumerate(table.cells)
                if options.only in str(cell)
            ]
            if not is_first:
                yield ""
            is_first = False
            records = (record for some in run(measure_task, tasks) for record in some)
            yield from write_table(records, table.digits)


def replace_printed(page: Path, printed: str) -> None:
    """Put what was printed in place of all that stands below `## Printed` of a page."""
    head = page.read_text(encoding="utf-8").split(PRINTED)[0].rstrip("\n")
    page.write_text(f"{head}\n{PRINTED}\n{printed.strip()}\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every calibration."""
    parser.add_argument("name", choices=list_calibrations())
    parser.add_argument("--repetitions", type=int, help="of each cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--table", help="only this one")
    parser.add_argument("--only", default="", help="only cells with this text")
    parser.add_argument("--write", action="store_true", help="into its page of results")


def calibrate(options: argparse.Namespace) -> None:
    """Print the tables of a calibration as they are measured."""
    lines = []
    for line in run_calibration(options.name, options):
        lines.append(line)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if options.write:
        page = FOLDER.parent / "results" / f"{options.name}.md"
        replace_printed(page, "\n".join(lines))
