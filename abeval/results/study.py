"""All results of one experiment, as its page shows them together; and results read back from JSON.

`api/` and `cli/report.py` fill a `Study`; `report/page.py` draws it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abeval.errors import LogError
from abeval.inference.trust import audits
from abeval.results.agreement import Agreement
from abeval.results.analysis import Result
from abeval.results.power import PowerOutlook
from abeval.results.record import DrawnRecord, Record
from abeval.results.replay import ReplayResult
from abeval.results.trust import AAResult
from abeval.results.windows import TimeResult

STUDY_SCHEMA_VERSION = "1"


@dataclass(frozen=True, repr=False)
class Study(DrawnRecord):
    """The results of one experiment that its page shows; None where one was not computed.

    Attributes:
        analysis: Verdict, trust and scorecard.
        time: Effects over time.
        aa: A/A replays.
        replay: Models offline.
        agreement: Offline beside online, and why they differ.
        outlook: What the experiment could see after more days.
        provenance: The experiment file, its inputs, SQL and versions.
        left_out: What was not computed, and why.
        schema_version: Of the JSON.
    """

    analysis: Result | None = None
    time: TimeResult | None = None
    aa: AAResult | None = None
    replay: ReplayResult | None = None
    agreement: Agreement | None = None
    outlook: PowerOutlook | None = None
    provenance: Provenance | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    schema_version: str = STUDY_SCHEMA_VERSION

    @property
    def results(self) -> tuple[Record, ...]:
        """The results that it has."""
        every = (self.analysis, self.time, self.aa, self.replay, self.agreement)
        return tuple(result for result in every if result is not None)

    @property
    def name(self) -> str:
        """The experiment's name."""
        if self.analysis is not None:
            return self.analysis.experiment.name
        named = (self.time, self.replay, self.agreement)
        return next((result.name for result in named if result is not None), "experiment")

    @property
    def alpha(self) -> float:
        """The level of its intervals."""
        if self.analysis is not None:
            return self.analysis.experiment.alpha
        others = (self.time, self.replay, self.aa, self.agreement)
        return next((result.alpha for result in others if result is not None), 0.05)

    @property
    def trusted(self) -> bool:
        """Whether no failed trust check hides its numbers."""
        return self.analysis is None or self.analysis.trusted

    def report(self, path: str | Path) -> Path:
        """Write the page: one self-contained HTML file."""
        return audits.write_report(self, path)

    def to_markdown(self) -> str:
        """A summary for a pull request or a chat."""
        return audits.markdown(self)


FIELDS: Mapping[str, type[Record]] = {
    "analysis": Result,
    "time": TimeResult,
    "replay": ReplayResult,
    "aa": AAResult,
    "agreement": Agreement,
}
"""The field of a `Study` → the kind of result that it holds."""


def read_results(files: Sequence[str | Path]) -> Study:
    """The study that JSON files hold: results of commands, or a whole study.

    Raises:
        LogError: A file is no result, or two are of one kind or of different experiments.
    """
    study = Study()
    for file in files:
        part = _read(Path(file))
        for name in (*FIELDS, "outlook", "provenance"):
            value = getattr(part, name)
            if value is None:
                continue
            if getattr(study, name) is not None:
                raise LogError(f"{file} is a second result of {name}", "name one of each kind")
            study = replace(study, **{name: value})
        study = replace(study, left_out=(*study.left_out, *part.left_out))
    named = (study.time, study.replay, study.agreement)
    names = {r.name for r in named if r is not None}
    names |= {study.analysis.experiment.name} if study.analysis is not None else set()
    if len(names) > 1:
        raise LogError(
            f"the results are of different experiments: {', '.join(sorted(names))}",
            "name the results of one experiment",
        )
    return study


def study_of(*results: object) -> Study:
    """A study of a few results; None among them is left out.

    Raises:
        TypeError: One is of a kind that has no page.
    """
    study = Study()
    for result in results:
        if isinstance(result, Study):
            study = result
        elif result is not None:
            part: dict[str, Any] = {_field_of(result): result}
            study = replace(study, **part)
    return study


def _field_of(result: object) -> str:
    for name, kind in FIELDS.items():
        if isinstance(result, kind):
            return name
    raise TypeError(f"{type(result).__name__} has no page")


def _read(file: Path) -> Study:
    result = read_result(file, _WANTED)
    return result if isinstance(result, Study) else study_of(result)


_WANTED = Wanted(
    (ANALYSIS, TIME, REPLAY, AA, AGREEMENT, Kind("provenance", Study, STUDY_SCHEMA_VERSION)),
    "is no result of abeval: it is none of the results that a page shows",
    "name what analyze, windows, aa, replay, agree or report wrote with --json",
)
