"""What a store keeps of closed days, so that a refresh need not add them up again.

Days up to the last closed one are kept as one row per unit, and as the totals of each day. Days
after it are added up from parts in each run.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from pathlib import Path

from abeval import __version__
from abeval.engines.queries import query, query_names
from abeval.experiment.model import Experiment
from abeval.files import write_text
from abeval.store.definition import Definition
from abeval.store.manifest import STATE, Entry, is_whole
from abeval.store.saved import definition

STATE_FORMAT = 2
Cells = tuple[str | int | None, ...]


@dataclass(frozen=True)
class State:
    """Closed days, and what they were made of.

    Attributes:
        definition: Digest of everything that decides what is kept.
        last_day: The last closed day.
        known: The parts there were.
        folded: Those of them whose rows of closed days, and of no day, are in it.
        cells: The file of `closed_cells`.
        sha256: Of its bytes.
        rows: Rows of `aggregates.MOMENT_COLUMNS` of closed days.
        days: Rows of `units/days` of closed days.
    """

    definition: str
    last_day: str
    known: tuple[str, ...]
    folded: tuple[str, ...]
    cells: str
    sha256: str
    rows: tuple[Cells, ...]
    days: tuple[Cells, ...]

    def open_part(self, part: Entry) -> bool:
        """Whether rows of a part are to be read beside the state."""
        return part.file not in self.folded or any(day > self.last_day for day in part.days)

    def closed_days(self, parts: Iterable[Entry]) -> int:
        """How many days of the parts are closed."""
        return len({day for part in parts for day in part.days if day <= self.last_day})


def state_definition(experiment: Experiment, wanted: Definition) -> str:
    """A digest of what decides what closed days add up to, judgement apart."""
    texts = [query(n) for n in query_names() if n.split("/")[0] in ("units", "metric", "store")]
    told = (STATE_FORMAT, __version__, definition(experiment), wanted, texts)
    return _digest(repr(told))


def why_not(state: State, parts: Sequence[Entry], wanted: str) -> str | None:
    """Why closed days cannot be carried on, None where they can.

    Args:
        state: What is kept.
        parts: Those of the log as it is.
        wanted: Of `state_definition`.
    """
    if state.definition != wanted:
        return "the analysis is another"
    if has_twins(parts):
        return "two files have the same sums, which closed days do not tell apart"
    if not set(state.folded) <= {part.file for part in parts}:
        return "files of closed days changed or are gone"
    late = [
        day
        for part in parts
        if part.file not in state.folded
        for day in part.days[:1]
        if day <= state.last_day
    ]
    return None if not late else f"new files have rows of {min(late)}, which was closed"


def day_to_close(
    parts: Sequence[Entry], known: Collection[str], carried: State | None, rewritten: bool
) -> str | None:
    """The last day that need not stay open, None where there is none.

    Where every file has days of its own, a day is closed when its file is there. Where files share
    days, or are written anew, those from the first day of the newest files on stay open.

    Args:
        parts: Those of the log.
        known: The parts that there were in the run before.
        carried: Closed days that this run started from.
        rewritten: Whether a file of the log was seen to change.
    """
    dated = [part for part in parts if part.days]
    if not dated or has_twins(parts):
        return None
    if not rewritten and _have_own_days(dated):
        return max(part.days[-1] for part in dated)
    fresh = [part for part in dated if part.file not in known]
    if carried is not None and not fresh:
        return carried.last_day
    if len(fresh) in (0, len(dated)):
        fresh = [max(dated, key=lambda part: part.days[-1])]
    first = date.fromisoformat(min(part.days[0] for part in fresh))
    last = str(first - timedelta(days=1))
    if carried is not None:
        last = max(last, carried.last_day)
    return last if any(part.days[0] <= last for part in dated) else None


def has_twins(parts: Sequence[Entry]) -> bool:
    """Whether two files make one part: parts are named by what they hold."""
    return len({part.file for part in parts}) < len(parts)


def _have_own_days(parts: Sequence[Entry]) -> bool:
    days = [day for part in parts for day in part.days]
    return len(days) == len(set(days))


def folded_parts(parts: Sequence[Entry], last_day: str) -> tuple[str, ...]:
    """The parts of which some rows are closed."""
    return tuple(p.file for p in parts if p.has_others or not p.days or p.days[0] <= last_day)


def read_state(folder: Path) -> State | None:
    """What is kept of closed days; None where there is nothing, or nothing to believe."""
    try:
        digest, body = (folder / STATE).read_text(encoding="utf-8").split("\n", 1)
        if _digest(body) != digest:
            return None
        raw = json.loads(body)
        state = State(
            definition=raw["definition"],
            last_day=raw["last_day"],
            known=tuple(raw["known"]),
            folded=tuple(raw["folded"]),
            cells=raw["cells"],
            sha256=raw["sha256"],
            rows=tuple(map(tuple, raw["rows"])),
            days=tuple(map(tuple, raw["days"])),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if is_whole(folder / state.cells, state.sha256) else None


def write_state(folder: Path, state: State) -> None:
    """Put a new state in the place of the old one, in one step."""
    body = json.dumps(asdict(state))
    write_text(folder / STATE, f"{_digest(body)}\n{body}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
