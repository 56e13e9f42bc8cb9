"""Closed days as a store keeps them: one row per unit for all of them, and the totals of each day.

A refresh adds up the days after them only. `store/closing.py` writes the `State`; in the next run,
`store/refresh.py` reads it and checks whether it can be carried on.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

from abeval.engines.queries import query, query_names
from abeval.experiment.model import Experiment
from abeval.files import write_text
from abeval.store.definition import Definition
from abeval.store.manifest import STATE, Entry, has_twins, is_whole
from abeval.store.saved import definition
from abeval.version import __version__

STATE_FORMAT = 4
Cells = tuple[str | int | None, ...]


@dataclass(frozen=True)
class State:
    """Closed days, and what they were made of.

    Attributes:
        definition: Digest of everything that decides what they add up to.
        last_day: The last closed day.
        parts: All parts of the log when it was written.
        closed_parts: Those with rows that are in it: rows of closed days, and rows without a day.
        file: The file of `closed_cells`.
        sha256: Of its bytes.
        moments: Rows of `moment_rows.MOMENT_COLUMNS` of closed days.
        days: Rows of `units/days` of closed days.
    """

    definition: str
    last_day: str
    parts: tuple[str, ...]
    closed_parts: tuple[str, ...]
    file: str
    sha256: str
    moments: tuple[Cells, ...]
    days: tuple[Cells, ...]

    def is_open(self, part: Entry) -> bool:
        """Whether rows of a part must be read beside the state."""
        return part.file not in self.closed_parts or any(day > self.last_day for day in part.days)


def analysis_digest(experiment: Experiment, wanted: Definition) -> str:
    """A digest of everything that decides what the rows of parts add up to."""
    texts = [query(n) for n in query_names() if n.split("/")[0] in ("units", "metric", "store")]
    return _digest(repr((STATE_FORMAT, __version__, definition(experiment), wanted, texts)))


def why_unusable(state: State, parts: Sequence[Entry], analysis: str) -> str | None:
    """Why closed days cannot be carried on; None if they can.

    Args:
        state: What the store keeps.
        parts: Those of the log now.
        analysis: The `analysis_digest` of this run.
    """
    if state.definition != analysis:
        return "the analysis has changed"
    if has_twins(parts):
        return "two files have the same sums, so closed days cannot tell them apart"
    if not set(state.closed_parts) <= {part.file for part in parts}:
        return "files of closed days changed or are gone"
    new = [part for part in parts if part.file not in state.closed_parts and part.days]
    late = [part.days[0] for part in new if part.days[0] <= state.last_day]
    return None if not late else f"new files have rows of {min(late)}, a closed day"


def day_to_close(
    parts: Sequence[Entry], previous: Collection[str], state: State | None, rewritten: bool
) -> str | None:
    """The last day that may be closed, None if there is none.

    If every file has days of its own, a day is closed when its file is there. If files share days,
    or are rewritten, the days from the first day of the newest files on stay open.

    Args:
        parts: Those of the log.
        previous: The parts of the previous run.
        state: The closed days that this run started from.
        rewritten: Whether a file of the log has changed.
    """
    dated = [part for part in parts if part.days]
    if not dated or has_twins(parts):
        return None
    days = [day for part in dated for day in part.days]
    if not rewritten and len(set(days)) == len(days):
        return max(days)
    newest = [part for part in dated if part.file not in previous]
    if state is not None and not newest:
        return state.last_day
    if len(newest) in (0, len(dated)):
        newest = [max(dated, key=lambda part: part.days[-1])]
    first = date.fromisoformat(min(part.days[0] for part in newest))
    last = str(first - timedelta(days=1))
    if state is not None:
        last = max(last, state.last_day)
    return last if min(days) <= last else None


def read_state(folder: Path) -> State | None:
    """The closed days of a store; None if there are none, or their files are damaged."""
    try:
        digest, _, body = (folder / STATE).read_text(encoding="utf-8").partition("\n")
        if _digest(body) != digest:
            return None
        raw = json.loads(body)
        state = State(
            **{name: raw[name] for name in ("definition", "last_day", "file", "sha256")},
            parts=tuple(raw["parts"]),
            closed_parts=tuple(raw["closed_parts"]),
            moments=tuple(map(tuple, raw["moments"])),
            days=tuple(map(tuple, raw["days"])),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if is_whole(folder / state.file, state.sha256) else None


def write_state(folder: Path, state: State) -> None:
    """Replace the state in one step."""
    body = json.dumps(asdict(state))
    write_text(folder / STATE, f"{_digest(body)}\n{body}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
