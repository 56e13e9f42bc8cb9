"""Hold all results of one experiment, and read results from JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from abeval.calls import explain_types
from abeval.errors import ExperimentError, LogError, translate_message
from abeval.results.agreement import AGREEMENT_SCHEMA_VERSION, Agreement
from abeval.results.analysis import SCHEMA_VERSION, ExperimentInfo, Result
from abeval.results.interleaving import INTERLEAVING_SCHEMA_VERSION, InterleavingResult
from abeval.results.power import PowerOutlook
from abeval.results.record import DrawnRecord, Frozen, Record, read_back
from abeval.results.replay import REPLAY_SCHEMA_VERSION, ReplayResult
from abeval.results.trust import AAResult
from abeval.results.windows import TIME_SCHEMA_VERSION, TimeResult
from abeval.views import view


class InputFile(Frozen):
    """An input file: its path relative to the experiment file, and its size.

    `rows` is None if it is costly to count, as for large text and databases.
    """

    log: str
    path: str
    size: int
    sha256: str
    rows: int | None = None


class Provenance(Frozen):
    """The experiment file, inputs, queries and versions behind a study."""

    experiment: str
    inputs: tuple[InputFile, ...]
    queries: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


_AGAIN = "write it again with this version of abeval"


class Kind(NamedTuple):
    """A kind of result: its field in a `Study`, and a field unique to its JSON.

    `version` is the version of its JSON that can be read; None if the JSON has none.
    """

    field: str
    mark: str
    record: type[Record]
    version: str | None


ANALYSIS = Kind("analysis", "scorecard", Result, SCHEMA_VERSION)
TIME = Kind("time", "stability", TimeResult, TIME_SCHEMA_VERSION)
REPLAY = Kind("replay", "coverage", ReplayResult, REPLAY_SCHEMA_VERSION)
_AA = Kind("aa", "histograms", AAResult, None)
AGREEMENT = Kind("agreement", "causes", Agreement, AGREEMENT_SCHEMA_VERSION)
PREFERENCES = Kind("", "preferences", InterleavingResult, INTERLEAVING_SCHEMA_VERSION)
_KINDS = (ANALYSIS, TIME, REPLAY, _AA, AGREEMENT)


# The command that writes a JSON with this field; earlier fields are tried first.
_WRITERS = {
    **{"scorecard": "analyze", "stability": "windows", "coverage": "replay", "histograms": "aa"},
    **{"causes": "agree", "provenance": "analyze --report", "realised": "off-policy"},
    **{"preferences": "analyze", "plans": "power", "matrix": "audit"},
    **{"family": "analyze --pairs", "trust": "analyze --checks"},
    **{"predictions": "history report", "sources": "history add"},
}


class AcceptedResults(NamedTuple):
    """Which results a reader accepts, and what to say about others."""

    kinds: Sequence[Kind]
    otherwise: str
    hint: str


def read_result(file: Path, accepted: AcceptedResults) -> Record:
    """Read the result that a JSON file holds.

    Raises:
        ExperimentError: It cannot be read, was edited, or is of another kind or version.
    """
    raw = _read_json(file, accepted)
    # JSON does not name its kind: a field that no other kind has tells it.
    kind = next((kind for kind in accepted.kinds if kind.mark in raw), None)
    if kind is None:
        writer = next((writer for mark, writer in _WRITERS.items() if mark in raw), None)
        what = "no result of abeval" if writer is None else f"what abeval {writer} wrote"
        raise ExperimentError(f"{file} is {what}: {accepted.otherwise}", accepted.hint)
    try:
        return read_back(raw, kind.record, kind.version)
    except ExperimentError as error:
        raise ExperimentError(f"{file}: {error.what}", error.hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{file} is not a whole result: {where}: {translate_message(first['msg'])}"
        raise ExperimentError(what, accepted.hint) from error
    except (ValueError, RecursionError) as error:
        what = f"{file} was written by another version of abeval: {error}"
        raise ExperimentError(what, _AGAIN) from error


def _read_json(file: Path, accepted: AcceptedResults) -> Mapping[str, object]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"cannot read {file}: {error.strerror or error}"
        raise ExperimentError(what, "name the file that --json wrote") from error
    except (ValueError, RecursionError) as error:
        raise ExperimentError(f"{file} is not JSON: {error}", accepted.hint) from error
    # JSON that is no object has the field of no kind.
    return raw if isinstance(raw, dict) else {}


_STUDY_SCHEMA_VERSION = "1"


class Study(DrawnRecord):
    """The results of one experiment on its page; None if not computed.

    `left_out` says what was not computed, and why.
    """

    analysis: Result | None = None
    time: TimeResult | None = None
    aa: AAResult | None = None
    replay: ReplayResult | None = None
    agreement: Agreement | None = None
    outlook: PowerOutlook | None = None
    provenance: Provenance | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    schema_version: str = _STUDY_SCHEMA_VERSION

    @property
    def results(self) -> tuple[Record, ...]:
        """Return the results that it has."""
        every = (self.analysis, self.time, self.aa, self.replay, self.agreement)
        return tuple(result for result in every if result is not None)

    @property
    def named_results(self) -> list[ExperimentInfo | TimeResult | ReplayResult | Agreement]:
        """Return the results that carry the experiment's name and level."""
        experiment = None if self.analysis is None else self.analysis.experiment
        every = (experiment, self.time, self.replay, self.agreement)
        return [result for result in every if result is not None]

    @property
    def name(self) -> str:
        """Return the experiment's name."""
        return next((result.name for result in self.named_results), "experiment")

    @property
    def alpha(self) -> float:
        """Return the level of its intervals."""
        replays = () if self.aa is None else (self.aa,)
        return next((result.alpha for result in (*self.named_results, *replays)), 0.05)

    @property
    def questions(self) -> tuple[str, ...]:
        """Return open questions; a study with any is a draft."""
        return next((result.questions for result in self.named_results if result.questions), ())

    @property
    def trusted(self) -> bool:
        """Tell whether no failed trust check hides the numbers."""
        return self.analysis is None or self.analysis.trusted

    def to_markdown(self) -> str:
        """Write a summary for a pull request or a chat."""
        text: str = view("markdown")(self)
        return text


@explain_types
def read_results(files: Sequence[str | Path]) -> Study:
    """Read the study that JSON files hold: results of commands, or a whole study.

    Raises:
        LogError: A file is no result, or two results are of the same kind or of different
            experiments.
    """
    study = Study()
    for file in files:
        part = build_study(read_result(Path(file), PAGED))
        for name in (*(kind.field for kind in _KINDS), "outlook", "provenance"):
            value = getattr(part, name)
            if value is None:
                continue
            if getattr(study, name) is not None:
                raise LogError(f"{file} is a second result of {name}", "name one of each kind")
            study = replace(study, **{name: value})
        study = replace(study, left_out=(*study.left_out, *part.left_out))
    # Results of different experiments must not share a page.
    names = {result.name for result in study.named_results}
    if len(names) > 1:
        what = f"the results are of different experiments: {', '.join(sorted(names))}"
        raise LogError(what, "name the results of one experiment")
    return study


def build_study(*results: object) -> Study:
    """Build a study from a few results, ignoring None.

    Raises:
        TypeError: A result is of a kind that has no page.
    """
    # A study among the results is kept, and the others are added to it.
    study = next((result for result in results if isinstance(result, Study)), Study())
    parts: dict[str, Any] = {}
    for result in results:
        if result is not None and not isinstance(result, Study):
            field = next((kind.field for kind in _KINDS if isinstance(result, kind.record)), None)
            if field is None:
                raise TypeError(f"{type(result).__name__} has no page")
            parts[field] = result
    return replace(study, **parts)


STUDY = Kind("", "provenance", Study, _STUDY_SCHEMA_VERSION)
PAGED = AcceptedResults(
    (*_KINDS, STUDY),
    "it is none of the results that a page shows",
    "name what analyze, windows, aa, replay, agree or report wrote with --json",
)
"""The results that the page of a study shows."""
