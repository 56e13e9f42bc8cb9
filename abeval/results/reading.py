"""Results read back from the JSON files that commands wrote.

`study.py` reads the parts of a page by it, `history/add.py` the results that a history keeps.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from abeval.errors import ExperimentError
from abeval.results.agreement import AGREEMENT_SCHEMA_VERSION, Agreement
from abeval.results.analysis import SCHEMA_VERSION, Result
from abeval.results.record import Record, read_back
from abeval.results.replay import REPLAY_SCHEMA_VERSION, ReplayResult
from abeval.results.trust import AAResult
from abeval.results.windows import TIME_SCHEMA_VERSION, TimeResult

_AGAIN = "write it again with this version of abeval"


class Kind(NamedTuple):
    """A kind of result.

    Attributes:
        mark: A field that only its JSON has.
        record: Its type.
        version: The version of its JSON that is read; None where the JSON has none.
    """

    mark: str
    record: type[Record]
    version: str | None


ANALYSIS = Kind("scorecard", Result, SCHEMA_VERSION)
TIME = Kind("stability", TimeResult, TIME_SCHEMA_VERSION)
REPLAY = Kind("coverage", ReplayResult, REPLAY_SCHEMA_VERSION)
AA = Kind("histograms", AAResult, None)
AGREEMENT = Kind("causes", Agreement, AGREEMENT_SCHEMA_VERSION)


class Wanted(NamedTuple):
    """Which results a reader takes.

    Attributes:
        kinds: Their kinds.
        otherwise: What is said of a file that holds none of them, after its name.
        hint: What to name instead.
    """

    kinds: Sequence[Kind]
    otherwise: str
    hint: str


def read_result(file: Path, wanted: Wanted) -> Record:
    """The result that a JSON file holds.

    Raises:
        ExperimentError: It cannot be read, or is of another kind or version.
    """
    raw = _raw(file, wanted)
    kind = next((kind for kind in wanted.kinds if kind.mark in raw), None)
    if kind is None:
        raise ExperimentError(f"{file} {wanted.otherwise}", wanted.hint)
    try:
        return read_back(raw, kind.record, kind.version)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{file} is not a whole result: {where}: {first['msg']}"
        raise ExperimentError(what, wanted.hint) from error
    except ValueError as error:
        what = f"{file} was written by another version of abeval: {error}"
        raise ExperimentError(what, _AGAIN) from error


def _raw(file: Path, wanted: Wanted) -> Mapping[str, object]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"cannot read {file}: {error.strerror or error}"
        raise ExperimentError(what, "name the file that --json wrote") from error
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"{file} is not JSON: {error}", wanted.hint) from error
    return raw if isinstance(raw, dict) else {}
